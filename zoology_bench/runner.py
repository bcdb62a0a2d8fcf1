"""run(cfg) -> RunResult: the only file that knows all the parts."""

import errno
import logging
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from zoology_bench.baselines import BaselinesConfig
from zoology_bench.conclusions import conclude, run_info
from zoology_bench.data.batch import Batch
from zoology_bench.grading import (
    Described,
    columns_of,
    failed_rows,
    frozen_logits,
    frozen_model,
    grade_analytic,
    grade_baselines,
    graded,
    select_score,
    with_frozen_logits,
)
from zoology_bench.models import LanguageModel
from zoology_bench.plain import to_plain
from zoology_bench.provenance import provenance
from zoology_bench.reporting.files import output_error
from zoology_bench.reporting.store import Claim, RunBusy, RunStore
from zoology_bench.result_rows import (
    NOT_IDENTITY,
    ModelFields,
    TrainingFields,
    kind_of,
    run_fields,
    run_id_of,
    task_fields,
)
from zoology_bench.run_config import RunConfig
from zoology_bench.tasks.base import Task
from zoology_bench.training import seeding
from zoology_bench.training.checkpoint import CheckpointStore, ForeignCheckpoint
from zoology_bench.training.loggers import Logger
from zoology_bench.training.loop import train
from zoology_bench.training.mixture import Mixture, mixed_batches

_log = logging.getLogger(__name__)

_BUSY_POLL_S = 0.2
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """What one run left behind."""

    run_id: str
    rows: pd.DataFrame
    """Long-form result rows (docs/results_schema.md)."""
    status: str
    """finished, failed, or skipped where a finished result was stored already."""
    reason: str
    """Why it failed, one line; empty otherwise."""
    wall_s: float
    """Seconds of training only."""
    output_dir: Path


def run(
    cfg: RunConfig,
    output_dir: str | Path | None = None,
    force: bool = False,
    *,
    progress_bar: bool = False,
    command: str = "",
) -> RunResult:
    """Train or build one model, grade it on every evaluated task, and store the rows.

    A run that breaks is a result too: status failed, with its reason; only what concerns the
    output folder or the user's interrupt is raised.

    Args:
        cfg: what to run, from ``zoology_bench.config.compose``.
        output_dir: overrides ``cfg.output_dir``.
        force: run again, from step 0, although a finished result is stored.
        progress_bar: show the steps on stderr.
        command: the command line that starts this run alone, kept in its rows.

    Raises:
        OutputError: the folder cannot be written, or another process is writing this run.
        ValueError: a device that this machine lacks; a stored checkpoint of another config.
    """
    check_device(cfg.device)
    store = RunStore(cfg.output_dir if output_dir is None else output_dir)
    run_id = run_id_of(cfg)
    force = force or cfg.force
    if not force and _is_settled(store, run_id, cfg):
        return _result(store, run_id, status="skipped")
    claim = _claim(store, run_id, cfg)
    if claim is None:
        return _result(store, run_id, status="skipped")
    with claim, seeding.pinned_threads(cfg.threads):
        checkpoints = CheckpointStore(store.folder(run_id) / "checkpoint.pt", _frozen(cfg))
        if force:
            checkpoints.remove()
        logger = cfg.logger.build(store.folder(run_id), run_info(cfg))
        status = "failed"
        try:
            try:
                rows, reason = _attempt(cfg, checkpoints, logger, progress_bar)
            except OSError as error:
                raise output_error(store.output_dir, error) from error
            status = "failed" if reason else "finished"
            stored = _write(cfg, store, rows, reason, command)
            if status == "finished" and not cfg.keep_checkpoint:
                checkpoints.remove()
            if logger.remote:  # the rows are safe: whatever happens to a dashboard costs none
                logger.conclude(conclude(stored, store.folder(run_id)))
        finally:
            logger.close(failed=status == "failed")
    return _result(store, run_id, status=status)


def record_death(cfg: RunConfig, reason: str, command: str) -> None:
    """Store the failure of a run whose process died before it could.

    Raises:
        OutputError: the folder cannot be written, or a living process is writing this run.
    """
    store = RunStore(cfg.output_dir)
    described = [(task, task_fields(task)) for task in cfg.evaluated_tasks()]
    with store.claim(run_id_of(cfg), to_plain(cfg)):
        rows = failed_rows(cfg, described, TrainingFields(lr=_lr_of(cfg)), reason)
        _write(cfg, store, rows, reason, command)


def _write(
    cfg: RunConfig, store: RunStore, rows: list[dict[str, Any]], reason: str, command: str
) -> pd.DataFrame:
    """Store the rows of a run that ended, well or (with a reason) badly."""
    common = {**run_fields(cfg), **provenance(cfg.device), "command": command}
    common |= {"status": "failed" if reason else "finished", "fail_reason": reason}
    return store.write_result(run_id_of(cfg), [{**common, **row} for row in rows])


def check_device(device: str) -> None:
    """Raise ``ValueError`` for a CUDA device that this machine does not have."""
    if device.startswith("cuda"):
        n_devices = torch.cuda.device_count()
        if int(device.partition(":")[2] or 0) >= n_devices:
            raise ValueError(f"device={device!r} is not on this machine: {n_devices} CUDA devices")


def _is_settled(store: RunStore, run_id: str, cfg: RunConfig) -> bool:
    if cfg.retry_failed:
        return store.is_finished(run_id)
    return store.has_result(run_id)


def _claim(store: RunStore, run_id: str, cfg: RunConfig) -> Claim | None:
    """The right to write the run; None where another process has just finished it.

    The seeds of a sweep share one run of an untrained model, so its workers meet here: whoever
    comes second waits the seconds that it takes. A training is never waited for.
    """
    while True:
        try:
            return store.claim(run_id, to_plain(cfg))
        except RunBusy:
            if kind_of(cfg) == "trained":
                raise
        time.sleep(_BUSY_POLL_S)
        if store.is_finished(run_id):
            return None


def _result(store: RunStore, run_id: str, status: str) -> RunResult:
    rows = store.read_result(run_id).rows
    return RunResult(
        run_id=run_id,
        rows=rows,
        status=status,
        reason=str(rows.fail_reason.iloc[0]),
        wall_s=float(rows.wall_s.max()),
        output_dir=store.output_dir,
    )


def _frozen(cfg: RunConfig) -> dict[str, Any]:
    """What a checkpoint insists on: everything that can change a result."""
    return {k: v for k, v in to_plain(cfg).items() if k not in NOT_IDENTITY}


def _attempt(
    cfg: RunConfig, checkpoints: CheckpointStore, logger: Logger, progress_bar: bool
) -> tuple[list[dict[str, Any]], str]:
    """The run's rows, and why it failed (empty if it did not)."""
    described = [(task, task_fields(task)) for task in cfg.evaluated_tasks()]
    try:
        if kind_of(cfg) != "trained" and logger.remote:
            logger.start(0)
        if isinstance(cfg.model, BaselinesConfig):
            return grade_baselines(cfg, described), ""
        if kind_of(cfg) == "untrained":
            return grade_analytic(cfg, described), ""
        return _train_and_grade(cfg, described, checkpoints, logger, progress_bar)
    except Exception as error:
        if isinstance(error, ForeignCheckpoint) or _is_about_the_disk(error):
            raise
        _log.debug("run failed", exc_info=True)
        reason = f"{type(error).__name__}: {error}"
        return failed_rows(cfg, described, TrainingFields(lr=_lr_of(cfg)), reason), reason


def _lr_of(cfg: RunConfig) -> float | None:
    """The peak learning rate of a training, the mixer's own where none is set."""
    if kind_of(cfg) != "trained":
        return None
    return cfg.model.mixer.recipe_lr if cfg.trainer.lr is None else cfg.trainer.lr


def _is_about_the_disk(error: Exception) -> bool:
    """No space or no permission: the user's folder, not the run, is what must change."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


def _train_and_grade(
    cfg: RunConfig,
    described: Described,
    checkpoints: CheckpointStore,
    logger: Logger,
    progress_bar: bool,
) -> tuple[list[dict[str, Any]], str]:
    device = torch.device(cfg.device)
    model = cfg.model.build(seeding.generator(cfg.seed, "init")).to(device)
    lr = _lr_of(cfg)
    assert lr is not None
    with ExitStack() as stack:
        result = train(
            model,
            cfg.trainer,
            lr=lr,
            seed=cfg.seed,
            batches=_train_batches(cfg, stack),
            select=select_score(cfg),
            clock=time.perf_counter,
            device=device,
            store=checkpoints,
            logger=logger,
            progress_bar=progress_bar,
        )
    training = TrainingFields.of(result, lr)
    if result.status == "failed":
        return failed_rows(cfg, described, training, result.reason), result.reason
    rows, frozen = [], frozen_model(cfg)
    for task, fields in described:
        columns = {**fields, **columns_of(_trained_fields(cfg, model)), **columns_of(training)}
        columns["state_bytes"] = model.state_bytes(task.seq_len)
        rows += graded(cfg, model, task, "select", columns)
        report = graded(cfg, model, task, "report", columns)
        rows += with_frozen_logits(report, frozen_logits(frozen, task, cfg.device))
    if not all(math.isfinite(row["value"]) for row in rows):
        # Training looks at the loss before each update: nobody has seen what the last one did.
        reason = f"loss on graded rows is not finite after step {result.steps}"
        return failed_rows(cfg, described, replace(training, stop_reason="nan"), reason), reason
    return rows, ""


def _trained_fields(cfg: RunConfig, model: LanguageModel) -> ModelFields:
    count = model.n_params()
    return ModelFields(
        kind="trained",
        model=cfg.model.label,
        mixer=cfg.model.mixer.label,
        init=cfg.model.init_label,
        causal=True,
        d_model=cfg.model.d_model,
        n_layers=cfg.model.n_layers,
        n_params_total=count.total,
        n_params_non_embedding=count.non_embedding,
        n_params_mixer=count.mixer,
    )


def _train_batches(cfg: RunConfig, stack: ExitStack) -> Callable[[int], Batch]:
    """Rows of each training step; their block streams are closed with ``stack``."""

    def stream(task: Task) -> Callable[[int], Batch]:
        blocks = task.stream(cfg.seed, cfg.trainer.batch_size)
        stack.callback(blocks.close)
        return blocks.batch

    if not cfg.mixture:
        return stream(cfg.task)
    parts = list(cfg.mixture.values())
    mixture = Mixture([part.weight for part in parts], cfg.seed, cfg.trainer.max_steps)
    return mixed_batches([stream(part.task) for part in parts], mixture)
