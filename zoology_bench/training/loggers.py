"""Where a run's curves go: always a local file, and Weights & Biases where asked."""

import abc
import json
import logging
import math
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast

from zoology_bench.validation import check_name

METRICS_FILE = "metrics.jsonl"

WANDB_MODES = ("offline", "online", "disabled")

_log = logging.getLogger(__name__)


class Logger(Protocol):
    """Told what happens in one run."""

    def start(self, step: int) -> None:
        """The run begins after ``step`` updates: forget what an earlier process logged later."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Numbers after ``step`` updates; steps ascend."""

    def summarize(self, values: Mapping[str, float | str]) -> None:
        """Final numbers of the run, such as the accuracies on the report split."""

    def close(self, failed: bool = False) -> None:
        """Nothing more will come."""


class NullLogger:
    """Forgets everything."""

    def start(self, step: int) -> None:
        """Nothing to forget."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep nothing."""

    def summarize(self, values: Mapping[str, float | str]) -> None:
        """Keep nothing."""

    def close(self, failed: bool = False) -> None:
        """Nothing to close."""


class LocalLogger:
    """One JSON object per line in ``metrics.jsonl``; non-finite numbers become null."""

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / METRICS_FILE

    def start(self, step: int) -> None:
        """Drop the lines after ``step``, and a last line that a killed writer left unfinished."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        kept = [line for line in lines if _step_of(line) <= step] if step else []
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(kept))
        os.replace(temporary, self.path)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append one line; it is with the operating system when this returns."""
        finite = {k: v if math.isfinite(v) else None for k, v in metrics.items()}
        with self.path.open("a") as file:
            file.write(json.dumps({"step": step, **finite}) + "\n")

    def summarize(self, values: Mapping[str, float | str]) -> None:
        """Final numbers stand in the run's result file."""

    def close(self, failed: bool = False) -> None:
        """Every line is already written."""


def _step_of(line: str) -> float:
    """Step of a line; infinite for one that is not whole."""
    try:
        return json.loads(line)["step"] if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


class WandbLogger:
    """Weights & Biases beside the local file; its first failure is its last, with one warning."""

    def __init__(self, local: LocalLogger, run_dir: Path, init: Callable[[str], Any]) -> None:
        """Log locally and to the run that ``init(run id)`` opens once training starts."""
        self._local, self._id_file, self._init = local, run_dir / "wandb_id.txt", init
        self._run: Any = None

    def start(self, step: int) -> None:
        """Open the W&B run; a resumed training continues the one it left."""
        self._local.start(step)
        self._guarded("init", lambda: self._open(resumed=step > 0))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log to both."""
        self._local.log(step, metrics)
        self._if_open("log", lambda run: run.log(dict(metrics), step=step))

    def summarize(self, values: Mapping[str, float | str]) -> None:
        """Put the final numbers into the run's summary."""
        self._if_open("summary", lambda run: run.summary.update(dict(values)))

    def close(self, failed: bool = False) -> None:
        """Finish the run, waiting for a slow upload no longer than the configured time."""
        self._local.close(failed)
        self._if_open("finish", lambda run: run.finish(exit_code=int(failed)))
        self._run = None

    def _open(self, resumed: bool) -> None:
        if resumed and self._id_file.exists():
            run_id = self._id_file.read_text().strip()
        else:
            run_id = uuid.uuid4().hex
            self._id_file.write_text(run_id)
        self._run = self._init(run_id)

    def _if_open(self, what: str, call: Callable[[Any], object]) -> None:
        if self._run is not None:
            run = self._run
            self._guarded(what, lambda: call(run))

    def _guarded(self, what: str, call: Callable[[], object]) -> None:
        try:
            call()
        # Whatever a network service or its client throws must not cost a training run.
        except Exception as error:
            self._run = None
            message = str(error).strip().splitlines() or [type(error).__name__]
            _log.warning(
                "wandb %s failed (%s); training goes on, metrics stay in %s",
                what,
                message[0],
                self._local.path,
            )


@dataclass(kw_only=True, slots=True)
class LoggerConfig(abc.ABC):
    """Base of the loggers' configurations."""

    name: ClassVar[str]
    """The key in LOGGERS."""

    @abc.abstractmethod
    def build(self, run_dir: Path, run_name: str, config: dict[str, Any]) -> Logger:
        """A logger for one run; nothing is opened before its ``start``.

        Args:
            run_dir: the run's own folder.
            run_name: what a dashboard shows.
            config: the run's configuration as nested plain dicts.
        """


@dataclass(kw_only=True, slots=True)
class LocalLoggerConfig(LoggerConfig):
    """``metrics.jsonl`` in the run's folder."""

    name: ClassVar[str] = "local"

    def build(self, run_dir: Path, run_name: str, config: dict[str, Any]) -> Logger:
        """See ``LoggerConfig.build``."""
        return LocalLogger(run_dir)


@dataclass(kw_only=True, slots=True)
class WandbLoggerConfig(LoggerConfig):
    """The local file and a W&B run, which stays in the run's folder unless mode is online."""

    name: ClassVar[str] = "wandb"

    mode: str = "offline"
    """offline writes files for ``wandb sync``; online sends; disabled leaves W&B out."""
    project: str = "zoology-bench"
    """W&B project."""
    entity: str | None = None
    """W&B team or user; None = your default one."""
    group: str | None = None
    """W&B group, such as the name of a sweep."""
    tags: list[str] = field(default_factory=list)
    """W&B tags."""
    timeout_s: float = 60.0
    """Seconds to wait for W&B at the start and at the end of a run before going on without it."""

    def __post_init__(self) -> None:
        check_name("logger.mode", self.mode, WANDB_MODES)
        if not self.timeout_s > 0:
            raise ValueError(f"logger.timeout_s={self.timeout_s} must be positive")

    def build(self, run_dir: Path, run_name: str, config: dict[str, Any]) -> Logger:
        """See ``LoggerConfig.build``."""
        local = LocalLogger(run_dir)
        if self.mode == "disabled":
            return local
        return WandbLogger(
            local, run_dir, lambda run_id: self._init(run_dir, run_name, config, run_id)
        )

    def _init(self, run_dir: Path, run_name: str, config: dict[str, Any], run_id: str) -> Any:
        import wandb

        # console=off: W&B would otherwise wrap stdout of every other run in this process.
        settings = wandb.Settings(
            console="off",
            silent=True,
            init_timeout=self.timeout_s,
            login_timeout=self.timeout_s,
        )
        # Offline there is no upload to wait for; the setting is younger than the oldest wandb
        # that the package accepts.
        if self.mode == "online" and hasattr(settings, "finish_timeout"):
            settings.finish_timeout = self.timeout_s
        return wandb.init(
            id=run_id,
            name=run_name,
            config=config,
            dir=run_dir,
            mode=cast(Literal["offline", "online"], self.mode),  # as checked above
            project=self.project,
            entity=self.entity,
            group=self.group,
            tags=self.tags,
            resume="allow",
            reinit="create_new",
            settings=settings,
        )


LOGGERS: dict[str, type[LoggerConfig]] = {
    config.name: config for config in (LocalLoggerConfig, WandbLoggerConfig)
}
