"""What a run tells and whom: the logger's contract, and the local file that always exists."""

import abc
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInfo:
    """What a logger knows of its run before it starts."""

    name: str
    """What a dashboard shows."""
    config: dict[str, Any]
    """The run's configuration as nested plain dicts."""
    job_type: str = "trained"
    """How the numbers come about, or what else the run is."""
    tags: Sequence[str] = ()
    """Words to find it by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conclusion:
    """What a run has to show for itself, beside its result file."""

    summary: Mapping[str, float | str] = field(default_factory=dict)
    """Final numbers, such as the accuracies on the report split."""
    tables: Mapping[str, tuple[list[str], list[list[Any]]]] = field(default_factory=dict)
    """Columns and rows by name."""
    images: Mapping[str, Path] = field(default_factory=dict)
    """PNG files by name."""


class Logger(Protocol):
    """Told what happens in one run."""

    remote: bool
    """Whether anybody but the local file listens: only then are tables and figures made."""

    def start(self, step: int) -> None:
        """The run begins after ``step`` updates: forget what an earlier process logged later."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Numbers after ``step`` updates; steps ascend."""

    def conclude(self, conclusion: Conclusion) -> None:
        """The run's rows are stored; this is what they say."""

    def close(self, failed: bool = False) -> None:
        """Nothing more will come."""


class NullLogger:
    """Forgets everything."""

    remote = False

    def start(self, step: int) -> None:
        """Nothing to forget."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep nothing."""

    def conclude(self, conclusion: Conclusion) -> None:
        """Keep nothing."""

    def close(self, failed: bool = False) -> None:
        """Nothing to close."""


class LocalLogger:
    """One JSON object per line in ``metrics.jsonl``; non-finite numbers become null."""

    remote = False

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

    def conclude(self, conclusion: Conclusion) -> None:
        """Everything stands in the run's result file."""

    def close(self, failed: bool = False) -> None:
        """Every line is already written."""


def _step_of(line: str) -> float:
    """Step of a line; infinite for one that is not whole."""
    try:
        return json.loads(line)["step"] if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


@dataclass(kw_only=True, slots=True)
class LoggerConfig(abc.ABC):
    """Base of the loggers' configurations."""

    name: ClassVar[str]
    """The key in LOGGERS."""

    @abc.abstractmethod
    def build(self, run_dir: Path, info: RunInfo) -> Logger:
        """A logger for one run; nothing is opened before its ``start``.

        Args:
            run_dir: the run's own folder.
            info: what is known of the run.
        """


@dataclass(kw_only=True, slots=True)
class LocalLoggerConfig(LoggerConfig):
    """``metrics.jsonl`` in the run's folder."""

    name: ClassVar[str] = "local"

    def build(self, run_dir: Path, info: RunInfo) -> Logger:
        """See ``LoggerConfig.build``."""
        return LocalLogger(run_dir)
