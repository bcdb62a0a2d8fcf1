"""What a training run reports."""

import math
import statistics
from dataclasses import dataclass
from typing import Any

_SMALLEST_RISE = 0.005
"""A rise of half a point or less does not count, however quiet the curve is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One point of the learning curve."""

    step: int
    """Updates done."""
    select_accuracy: float
    """Accuracy on the select split."""
    train_loss: float
    """Mean loss (nats) of the steps since the last evaluation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    """How a run went and where it stopped; the trained weights are in the model."""

    steps: int
    """Updates done."""
    examples: int
    """Rows trained on."""
    wall_s: float
    """Seconds of training, evaluation and checkpoints excluded, earlier parts of a resumed run
    included; compilation counts."""
    stop_reason: str
    """threshold, max_steps, max_seconds or nan."""
    status: str
    """ok or failed."""
    reason: str
    """Why it failed; empty if it did not."""
    budget_limited: bool
    """No threshold reached and the curve still rising: see ``still_rising``."""
    history: list[Evaluation]
    """The learning curve."""
    peak_mem_bytes: int
    """Largest memory in this process during training and its evaluations."""


@dataclass(kw_only=True, slots=True)
class Progress:
    """What a run carries from step to step beside weights and moments."""

    step: int = 0
    examples: int = 0
    tokens: int = 0
    wall_s: float = 0.0
    loss_sum: float = 0.0
    """Over the steps since the last evaluation."""
    n_losses: int = 0
    history: list[Evaluation]
    stop_reason: str | None = None
    failure: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, text and lists, for a checkpoint."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "history"}
        points = [(e.step, e.select_accuracy, e.train_loss) for e in self.history]
        return {**plain, "history": points}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Progress":
        """The inverse of ``to_dict``."""
        points = [
            Evaluation(step=step, select_accuracy=accuracy, train_loss=loss)
            for step, accuracy, loss in plain["history"]
        ]
        return cls(**{**plain, "history": points})

    def result(self, peak_mem_bytes: int) -> TrainResult:
        """The report of a run that has stopped."""
        assert self.stop_reason is not None
        out_of_budget = self.stop_reason in ("max_steps", "max_seconds")
        curve = [evaluation.select_accuracy for evaluation in self.history]
        return TrainResult(
            steps=self.step,
            examples=self.examples,
            wall_s=self.wall_s,
            stop_reason=self.stop_reason,
            status="failed" if self.failure else "ok",
            reason=self.failure,
            budget_limited=out_of_budget and still_rising(curve),
            history=self.history,
            peak_mem_bytes=peak_mem_bytes,
        )


def still_rising(curve: list[float]) -> bool:
    """Whether a learning curve had not flattened when it ended.

    Compares the mean of the last quarter of the evaluations (at least two) with the mean of the
    quarter before: rising means higher by more than half a point and by more than twice the
    standard error of the difference. The noise of one evaluation comes from second differences,
    which a straight trend leaves at zero and a jump changes only in two places.
    With fewer than four evaluations nothing can be said: False.

    Args:
        curve: accuracies at equal intervals, oldest first.
    """
    quarter = max(2, len(curve) // 4)
    tail = curve[-2 * quarter :]
    if len(tail) < 2 * quarter:
        return False
    rise = statistics.fmean(tail[quarter:]) - statistics.fmean(tail[:quarter])
    bends = [abs(a - 2 * b + c) for a, b, c in zip(tail, tail[1:], tail[2:], strict=False)]
    # For normal noise |second difference| has mean sqrt(2 / pi) * sqrt(6) standard deviations.
    noise = statistics.fmean(bends) / (12 / math.pi) ** 0.5
    return rise > max(_SMALLEST_RISE, 2 * noise * (2 / quarter) ** 0.5)
