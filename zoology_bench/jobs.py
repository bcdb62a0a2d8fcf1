"""Planned runs, started through Hydra: what a worker does, and what happens when one dies."""

import logging
import multiprocessing
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import to_absolute_path
from omegaconf import DictConfig

from zoology_bench.config import register_schemas, search_path, split_sweeps, to_run_config
from zoology_bench.exit_codes import INTERRUPTED, WRONG_INPUT
from zoology_bench.presets import config_dir
from zoology_bench.reporting.store import RunBusy, RunStore
from zoology_bench.run_config import RunConfig
from zoology_bench.runner import RunResult, record_death, run
from zoology_bench.user_errors import UserError, joined

_log = logging.getLogger("zoology_bench")

_PARENT_POLL_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One planned run."""

    config: RunConfig
    run_id: str
    overrides: list[str]
    """What starts it alone."""

    @property
    def store(self) -> RunStore:
        """Where its result goes."""
        return RunStore(self.config.output_dir)


def carry_out(
    jobs: Sequence[Job], overrides: Sequence[str], config_dirs: Sequence[str], *, multirun: bool
) -> None:
    """Start every job through Hydra's launcher.

    A worker that dies (killed, out of memory) takes the launcher's whole pool along, and nothing
    tells whose run it was. So each run that was under way is carried out in a process of its own,
    where a second death is a failed row, and the sweep goes on with the others.

    Raises:
        UserError: the launcher or the sweeper refused its settings.
        OutputError, ForeignCheckpoint: what ended a job that is no result of its own.
    """
    arguments = _hydra_arguments(overrides, config_dirs)
    while True:
        before = [_claimed(job) for job in jobs]
        try:
            _start(arguments, multirun=multirun)
            return
        except BrokenProcessPool as death:
            suspects = [
                job
                for job, earlier in zip(jobs, before, strict=True)
                if _claimed(job) != earlier and not job.store.has_result(job.run_id)
            ]
            if not suspects:
                raise UserError(
                    f"a worker died (killed, or out of memory): {joined(death)}; finished runs are"
                    " kept, start the same command again"
                ) from death
            _log.error(
                "a worker died (killed, or out of memory): %s; %d runs start again, each alone",
                joined(death),
                len(suspects),
            )
        for job in suspects:
            _carry_out_alone(job, config_dirs)
        # What has failed by now has had its try.
        arguments = [*arguments, "retry_failed=false"]


def _claimed(job: Job) -> tuple[int, int] | None:
    """Changes whenever a process claims the run."""
    path = job.store.folder(job.run_id) / "config.json"
    if not path.exists():
        return None
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns


def _carry_out_alone(job: Job, config_dirs: Sequence[str]) -> None:
    folders = [word for folder in config_dirs for word in ("--config-dir", folder)]
    words = ["run", *folders, *job.overrides]
    code = subprocess.run(
        [sys.executable, "-m", "zoology_bench", *words], stdout=subprocess.DEVNULL, check=False
    ).returncode
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code != WRONG_INPUT and not job.store.has_result(job.run_id):
        reason = f"its process died twice, the second time alone, with exit code {code}"
        record_death(job.config, reason, shlex.join(["zoology-bench", *words]))
        _log.error("run %s failed: %s", job.run_id, reason)


class _Ended(BaseException):
    """Carries what ended a job past Hydra, which would print it before it raises it again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="run")
def _job(raw: DictConfig) -> float:
    alone = HydraConfig.get().mode == RunMode.RUN
    if multiprocessing.parent_process() is not None:
        _end_with_parent()
    try:
        result = _run(raw, progress_bar=alone and sys.stderr.isatty())
    except RunBusy as busy:
        if alone:
            raise _Ended(busy) from None
        # Another sweep has it: between them, all runs get done.
        _log.error("%s", busy)
        return float("nan")
    except Exception as error:
        raise _Ended(error) from None
    if result.status == "failed":
        _log.error("run %s failed: %s", result.run_id, result.reason)
    return _select_accuracy(result)


def _run(raw: DictConfig, *, progress_bar: bool) -> RunResult:
    config = to_run_config(raw)
    # A job may have a working directory of its own (hydra.job.chdir).
    folder = to_absolute_path(config.output_dir) if HydraConfig.get().job.chdir else None
    return run(config, folder, progress_bar=progress_bar, command=_command())


@lru_cache(maxsize=1)
def _end_with_parent() -> None:
    """End this worker once its launcher is gone: it would train on, unseen, and hold its runs."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _command() -> str:
    """The command line that starts the current job alone."""
    given = HydraConfig.get().overrides
    presets = [word for word in given.hydra if word.startswith("hydra.searchpath=")]
    return shlex.join(["zoology-bench", "run", *presets, *given.task])


def _select_accuracy(result: RunResult) -> float:
    """What an optimising sweeper maximises: never the reported split."""
    rows = result.rows
    chosen = rows[(rows.split == "select") & (rows.metric == "accuracy") & (rows.slice_key == "")]
    return float(chosen.value.mean()) if len(chosen) else float("nan")


def _hydra_arguments(overrides: Sequence[str], config_dirs: Sequence[str]) -> list[str]:
    fixed, axes = split_sweeps(overrides, config_dirs)
    swept = [f"{key}={','.join(values)}" for key, values in axes.items()]
    return [*search_path(config_dirs), *fixed, *swept]


def _start(arguments: list[str], *, multirun: bool) -> None:
    register_schemas()
    GlobalHydra.instance().clear()
    saved_words, saved_full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = ["zoology-bench", *arguments, *(["--multirun"] if multirun else [])]
    # With full errors Hydra raises what went wrong instead of printing it and exiting with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        _job()
    except _Ended as ended:
        raise ended.error  # noqa: B904 - with a cause the chain would be a circle
    except BrokenProcessPool:
        raise
    except Exception as error:
        # No job let this out, and the runs' own settings were composed and checked before.
        raise UserError(f"Hydra could not start the runs: {joined(error)}") from error
    finally:
        sys.argv = saved_words
        os.environ.pop("HYDRA_FULL_ERROR")
        if saved_full is not None:
            os.environ["HYDRA_FULL_ERROR"] = saved_full
