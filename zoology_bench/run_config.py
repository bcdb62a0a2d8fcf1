"""RunConfig: one run as plain dataclasses, checked as a whole when it is made."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from zoology_bench.analytic import ANALYTIC, AnalyticConfig
from zoology_bench.baselines import BaselinesConfig
from zoology_bench.models import LanguageModelConfig
from zoology_bench.tasks.base import Task
from zoology_bench.training.config import TrainerConfig
from zoology_bench.validation import MAX_SEED, check_int

MOST_THREADS = 4096
"""More than any machine has: torch takes no larger number well."""
MODELS = {
    "lm": LanguageModelConfig,
    "baselines": BaselinesConfig,
    **ANALYTIC,
}

_MODEL_NAMES = ", ".join(sorted(MODELS))


@dataclass(kw_only=True, slots=True)
class MixtureComponent:
    """One task of a training mixture; each step draws one component by weight."""

    task: Task = MISSING
    weight: float = 1.0
    """Relative probability of a step."""


@dataclass(kw_only=True, slots=True)
class RunConfig:
    """One run: what is trained or built, on what, and where its rows go."""

    experiment: str = "default"
    """Name of the experiment; the default output folder and the W&B group."""
    task: Task = MISSING
    """The task trained on, unless ``mixture`` is set."""
    mixture: dict[str, MixtureComponent] = field(default_factory=dict)
    """Weighted tasks to train on; empty: ``task`` alone."""
    eval_tasks: dict[str, Task] = field(default_factory=dict)
    """Tasks evaluated on; empty: ``task`` alone."""
    model: Any = MISSING
    """One of MODELS' configurations."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    logger: Any = MISSING
    """One of training.loggers' configurations."""
    seed: int = 0
    """Drives initialisation, dropout and train rows; never select or report rows."""
    device: str = "cpu"
    """cpu, cuda or cuda:N; never chosen for you."""
    threads: int = 1
    """CPU threads of this run; part of what makes a run repeatable."""
    output_dir: str = "outputs/${experiment}"
    """Folder of runs/<run_id> and results.csv, relative to the working directory."""
    force: bool = False
    """Run again even where a finished result with the same run_id is stored."""
    retry_failed: bool = True
    """Run again where the stored result is a failure; false keeps it."""
    keep_checkpoint: bool = False
    """Keep runs/<run_id>/checkpoint.pt of a finished run (a failed one always keeps it)."""
    sweep: dict[str, Any] = field(default_factory=dict)
    """An experiment's grid: override key -> list of values; the command line replaces any key."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, tuple(MODELS.values())):
            raise ValueError(
                f"model={type(self.model).__name__} is no model; known: {_MODEL_NAMES}"
            )
        check_int("seed", self.seed, 0, MAX_SEED)
        check_int("threads", self.threads, 1, MOST_THREADS)
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device={self.device!r} is unknown; known: cpu, cuda, cuda:N")
        if not self.output_dir.strip():
            raise ValueError(f"output_dir={self.output_dir!r} must name a folder")
        for name, component in self.mixture.items():
            if not (math.isfinite(component.weight) and component.weight > 0):
                raise ValueError(f"mixture.{name}.weight={component.weight} must be positive")
        self._check_tasks_have_names()
        self._check_tasks_fit_model()
        self._check_mixers_build()

    def _check_tasks_have_names(self) -> None:
        """A subclass with its parent's name and version would share run_ids with it."""
        for where, task in self.named_tasks():
            own = vars(type(task))
            if "name" not in own or "version" not in own:
                raise ValueError(
                    f"{where}: class {type(task).__name__} must set its own name and version"
                )

    def _check_tasks_fit_model(self) -> None:
        vocab_size = getattr(self.model, "vocab_size", None)
        seq_len = getattr(self.model, "seq_len", None)
        for where, task in self.named_tasks():
            if vocab_size is not None and task.vocab_size != vocab_size:
                raise ValueError(
                    f"{where}.vocab_size={task.vocab_size} must equal model.vocab_size={vocab_size}"
                )
            if isinstance(self.model, AnalyticConfig):
                self.model.build(task.public_layout())
            if seq_len is not None and task.seq_len > seq_len:
                raise ValueError(
                    f"{where}.seq_len={task.seq_len} must be at most model.seq_len={seq_len}"
                )

    def _check_mixers_build(self) -> None:
        """Fail now, and not after a sweep has started, where a mixer does not fit its width."""
        if isinstance(self.model, LanguageModelConfig):
            model = self.model
            try:
                for layer in range(model.n_layers):
                    model.mixer.build(model.d_model, model.seq_len, layer, model.n_layers)
            except (RuntimeError, MemoryError) as error:
                reason = " ".join(str(error).split())
                raise ValueError(
                    f"model.mixer cannot be built at d_model={model.d_model},"
                    f" seq_len={model.seq_len}: {reason}"
                ) from error

    def named_tasks(self) -> list[tuple[str, Task]]:
        """Every task of the run with the key that sets it."""
        mixture = [(f"mixture.{name}.task", part.task) for name, part in self.mixture.items()]
        evaluated = [(f"eval_tasks.{name}", task) for name, task in self.eval_tasks.items()]
        return [("task", self.task), *mixture, *evaluated]

    def evaluated_tasks(self) -> list[Task]:
        """The tasks whose rows are graded: ``eval_tasks``, or ``task``."""
        return list(self.eval_tasks.values()) or [self.task]
