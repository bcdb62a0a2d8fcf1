"""The training loop: fresh rows every step, loss at the queries, stops, checkpoints, guards."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from zoology_bench.data.batch import Batch
from zoology_bench.training import seeding
from zoology_bench.training.checkpoint import CheckpointStore
from zoology_bench.training.config import TrainerConfig
from zoology_bench.training.loggers import Logger, NullLogger
from zoology_bench.training.memory import peak_bytes, reset_peak
from zoology_bench.training.optim import build_optimizer, lr_at, set_lr
from zoology_bench.training.result import Evaluation, Progress, TrainResult


class Stopwatch:
    """Seconds of training only: stopped while the run evaluates or saves."""

    def __init__(self, clock: Callable[[], float], device: torch.device, elapsed: float) -> None:
        self._clock, self._device, self._elapsed = clock, device, elapsed
        self._started = clock()

    @property
    def elapsed(self) -> float:
        """Seconds so far; only while running."""
        return self._elapsed + self._clock() - self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the enclosed work out of the time."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._elapsed = self.elapsed
        yield
        self._started = self._clock()


def train(
    model: nn.Module,
    config: TrainerConfig,
    *,
    lr: float,
    seed: int,
    batches: Callable[[int], Batch],
    select: Callable[[nn.Module], float],
    clock: Callable[[], float],
    device: torch.device | str = "cpu",
    store: CheckpointStore | None = None,
    logger: Logger | None = None,
    progress_bar: bool = False,
) -> TrainResult:
    """Train ``model`` in place until its budget or its threshold is reached, or a number breaks.

    With a ``store`` that holds a checkpoint the run continues from there, bit for bit on CPU in
    fp32 with the same versions and number of threads. An interrupt is passed on and leaves the
    last checkpoint as it was.

    Args:
        model: ``forward(tokens (B, T), positions (B, Q)) -> (B, Q, V)``, already on ``device``.
        config: budget and optimiser.
        lr: peak learning rate, whatever ``config.lr`` says.
        seed: the run's seed; dropout at step n depends on (seed, n) only.
        batches: rows of training step n, a pure function of n.
        select: accuracy of a model on the select split.
        clock: seconds from any origin, such as ``time.perf_counter``.
        device: where the model lives.
        store: where to keep checkpoints; None keeps none.
        logger: told every evaluation; None tells nobody.
        progress_bar: show one on stderr.

    Raises:
        ValueError: the stored checkpoint belongs to another config.
        OSError: a checkpoint cannot be written.
    """
    run = _Run(model, config, lr, seed, torch.device(device), store, logger or NullLogger())
    reset_peak(run.device)
    run.restore()
    bar = tqdm(
        total=config.max_steps, initial=run.progress.step, disable=not progress_bar, unit="step"
    )
    with bar, seeding.preserved_global_state(run.device):
        watch = Stopwatch(clock, run.device, run.progress.wall_s)
        while run.progress.stop_reason is None:
            run.step(batches(run.progress.step))
            bar.update()
            run.progress.wall_s = watch.elapsed
            with watch.paused():
                run.after_step(select, bar)
    return run.progress.result(peak_bytes(run.device))


class _Run:
    """A model, its optimiser and how far they have come."""

    def __init__(
        self,
        model: nn.Module,
        config: TrainerConfig,
        lr: float,
        seed: int,
        device: torch.device,
        store: CheckpointStore | None,
        logger: Logger,
    ) -> None:
        self.model, self.config, self.lr, self.seed = model, config, lr, seed
        self.device, self.store, self.logger = device, store, logger
        self.optimizer = build_optimizer(model, config, lr)
        self.progress = Progress(history=[])
        self._forward = torch.compile(model) if config.compile else model
        self._parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self._clip_norm = math.inf if config.clip_norm is None else config.clip_norm

    def restore(self) -> None:
        """Continue from the stored checkpoint, if there is one; forget what was logged after it."""
        state = None if self.store is None else self.store.load(self.device)
        if state is not None:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.progress = Progress.from_dict(state["progress"])
        self.logger.start(self.progress.step)

    def step(self, batch: Batch) -> None:
        """One update, or none and ``stop_reason = "nan"`` where the loss or gradient is not finite.

        The check comes before the update, so the weights a broken run ends with are those of its
        last good step and no copy of them has to be kept. It costs one number read back per step,
        which a GPU pays by not running ahead of Python.
        """
        inputs, positions, answers = (
            tensor.to(self.device, non_blocking=True)
            for tensor in (batch.inputs, batch.query_pos, batch.answers)
        )
        step = self.progress.step
        self.model.train()
        seeding.seed_global(seeding.derive_seed(self.seed, "dropout", step), self.device)
        with self._autocast():
            logits = self._forward(inputs, positions)
        loss = F.cross_entropy(logits.float().flatten(0, 1), answers.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        loss_value, norm_value = torch.stack((loss.detach(), norm)).tolist()
        if not (math.isfinite(loss_value) and math.isfinite(norm_value)):
            self.progress.stop_reason = "nan"
            self.progress.failure = (
                f"loss {loss_value:g}, gradient norm {norm_value:g} at step {step}"
            )
            return
        set_lr(self.optimizer, self._lr_at(step))
        self.optimizer.step()
        self.progress.step += 1
        self.progress.examples += len(batch)
        self.progress.tokens += batch.inputs.numel()
        self.progress.loss_sum += loss_value
        self.progress.n_losses += 1

    def after_step(self, select: Callable[[nn.Module], float], bar: tqdm) -> None:
        """Evaluate, decide whether to stop, save: whatever is due."""
        progress, config = self.progress, self.config
        if progress.stop_reason is None:
            if progress.step >= config.max_steps:
                progress.stop_reason = "max_steps"
            elif config.max_seconds is not None and progress.wall_s >= config.max_seconds:
                progress.stop_reason = "max_seconds"
            if progress.step % config.eval_every == 0 or progress.stop_reason is not None:
                self._evaluate(select, bar)
        due = config.checkpoint_every > 0 and progress.step % config.checkpoint_every == 0
        if due or progress.stop_reason is not None:
            self._save()

    def _evaluate(self, select: Callable[[nn.Module], float], bar: tqdm) -> None:
        progress = self.progress
        point = Evaluation(
            step=progress.step,
            select_accuracy=select(self.model),
            train_loss=progress.loss_sum / progress.n_losses,
        )
        progress.history.append(point)
        progress.loss_sum, progress.n_losses = 0.0, 0
        if self.config.stop_at is not None and point.select_accuracy >= self.config.stop_at:
            progress.stop_reason = "threshold"
        bar.set_postfix(select=f"{point.select_accuracy:.3f}", refresh=False)
        self.logger.log(
            point.step,
            {
                "select/accuracy": point.select_accuracy,
                "train/loss": point.train_loss,
                "train/lr": self._lr_at(point.step - 1),
                "train/examples": progress.examples,
                "train/tokens": progress.tokens,
                "train/wall_s": progress.wall_s,
            },
        )

    def _save(self) -> None:
        if self.store is not None:
            self.store.save(
                {
                    "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "progress": self.progress.to_dict(),
                }
            )

    def _lr_at(self, step: int) -> float:
        return lr_at(
            step,
            peak=self.lr,
            warmup_steps=self.config.warmup_steps,
            total_steps=self.config.max_steps,
            final_fraction=self.config.final_lr_fraction,
        )

    def _autocast(self) -> AbstractContextManager:
        if self.config.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)
