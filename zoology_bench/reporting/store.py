"""The run store: one folder per run, a run is finished when its result exists.

``<output_dir>/runs/<run_id>/`` holds config.json, metrics.jsonl, checkpoint.pt and, written last
and by rename, result.json. ``<output_dir>/results.csv`` is derived and can be rebuilt at will.
"""

import json
import logging
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pandas as pd

from zoology_bench.reporting.columns import NAMES, SCHEMA_VERSION, STATUSES, names_at
from zoology_bench.reporting.files import (
    OutputError,
    atomic_write,
    csv_bytes,
    output_error,
    parse_csv,
)
from zoology_bench.reporting.schema import sort_rows, to_frame, validate

try:
    import fcntl
except ImportError:  # no POSIX locks on Windows: claims are then not exclusive
    fcntl = None

log = logging.getLogger(__name__)

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What result.json holds."""

    rows: pd.DataFrame
    meta: dict[str, Any]

    @property
    def status(self) -> str:
        """finished, or failed if any row is."""
        return _status(self.rows)


class RunBusy(OutputError):
    """Another live process is writing this run."""


class Claim:
    """The exclusive right to write one run's folder; freed by ``release``, ``with`` or death."""

    def __init__(self, folder: Path, lock: IO[str] | None) -> None:
        self.folder = folder
        self._lock = lock

    @property
    def exclusive(self) -> bool:
        """False where the system has no file locks."""
        return self._lock is not None

    def release(self) -> None:
        """Let others claim the run (calling it twice does nothing)."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class RunStore:
    """All runs below one output folder; many processes on many machines may share it."""

    def __init__(self, output_dir: str | Path) -> None:
        self.output_dir = Path(output_dir)

    def folder(self, run_id: str) -> Path:
        """Where one run's files live (the folder may not exist yet)."""
        if not _RUN_ID.fullmatch(run_id):
            raise ValueError(f"run_id={run_id!r} must match {_RUN_ID.pattern}")
        return self.output_dir / "runs" / run_id

    def check_writable(self) -> None:
        """Raise ``OutputError`` unless a file can be written in the output folder now."""
        probe = self.output_dir / "write-probe"
        atomic_write(probe, b"\0" * 4096, self.output_dir)
        probe.unlink(missing_ok=True)

    def claim(self, run_id: str, config: Mapping[str, Any]) -> Claim:
        """Take a run before working on it, and write its config.json.

        The claim is a kernel lock: it dies with its process, so that a killed run can be resumed.

        Raises:
            RunBusy: another live process holds the run.
            OutputError: the folder cannot be written.
        """
        folder = self.folder(run_id)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            claim = Claim(folder, _lock(folder / "lock", self.output_dir))
            for leftover in folder.glob(".*.tmp") if claim.exclusive else ():
                leftover.unlink(missing_ok=True)  # of a writer that was killed
        except OSError as error:
            raise output_error(self.output_dir, error, folder) from error
        text = json.dumps(config, indent=2, sort_keys=True, default=str) + "\n"
        try:
            atomic_write(folder / "config.json", text.encode(), self.output_dir)
        except OutputError:
            claim.release()
            raise
        return claim

    def has_result(self, run_id: str) -> bool:
        """Whether the run ended, well or badly."""
        return (self.folder(run_id) / "result.json").exists()

    def is_finished(self, run_id: str) -> bool:
        """Whether the run has a result that is not a failure (a failed run may be tried again).

        Raises:
            ValueError: the result is not ours.
        """
        path = self.folder(run_id) / "result.json"
        return path.exists() and _read_record(path)["status"] == "finished"

    def write_result(
        self,
        run_id: str,
        rows: pd.DataFrame | Sequence[Mapping[str, Any]],
        meta: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Finish a run: store its rows (replacing an earlier result) and whatever ``meta`` says.

        Returns:
            The rows as stored: validated and sorted.

        Raises:
            ValueError: rows that the schema refuses, or rows of another run.
            OutputError: the folder cannot be written; an earlier result is left as it was.
        """
        path = self.folder(run_id) / "result.json"
        frame = validate(rows, str(path)) if isinstance(rows, pd.DataFrame) else to_frame(rows)
        if frame.empty or set(frame.run_id) != {run_id}:
            raise ValueError(f"run_id={run_id!r} needs rows of that run, and only of it")
        frame = sort_rows(frame)
        atomic_write(path, _encode(frame, dict(meta or {})), self.output_dir)
        return frame

    def read_result(self, run_id: str) -> StoredResult:
        """Read a finished or failed run back.

        Raises:
            ValueError: no such result, or a file that is not ours.
        """
        return _read_result(self.folder(run_id) / "result.json")

    def read_all(self) -> tuple[pd.DataFrame, list[str]]:
        """Rows of every stored result, by run_id, and the place of each; no rows if there is none.

        Raises:
            ValueError: a result that is not ours; names it.
        """
        lines = self._lines()
        text = "".join(line + "\n" for line in [_HEADER, *(line for _, line in lines)])
        return parse_csv(text, str(self.output_dir), [place for place, _ in lines])

    def write_results_csv(self) -> Path:
        """Rebuild ``results.csv`` from every stored result; safe under concurrent writers.

        A writer that was overtaken would put an older state in place, so that each looks again
        after its own rename: whoever renames last has seen all.
        """
        path = self.output_dir / "results.csv"
        seen = None
        while (now := self._fingerprint()) != seen:
            seen = now
            text = "".join(line + "\n" for line in [_HEADER, *(line for _, line in self._lines())])
            atomic_write(path, text.encode("utf-8"), self.output_dir)
        return path

    def _lines(self) -> list[tuple[str, str]]:
        """Place and text of every stored row."""
        return [
            (f"{path}:{number}", line)
            for path in self._result_files()
            for number, line in enumerate(_current_rows(_read_record(path), path), start=1)
        ]

    def _result_files(self) -> list[Path]:
        return sorted(self.output_dir.glob("runs/*/result.json"))

    def _fingerprint(self) -> list[tuple[str, int, int, int]]:
        stats = [(str(path), path.stat()) for path in self._result_files()]
        return [(name, s.st_ino, s.st_size, s.st_mtime_ns) for name, s in stats]


def _lock(path: Path, root: Path) -> IO[str] | None:
    """Open ``path`` under an exclusive lock that the kernel frees when the process ends."""
    if fcntl is None:
        return None
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - the claim closes it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise RunBusy(
            f"output_dir={root} run {path.parent.name} is being written by {holder}"
        ) from None
    except OSError as error:
        log.warning("%s: no locks on this file system (%s); run it once only", root, error.strerror)
        file.close()
        return None
    file.truncate(0)
    file.write(f"{socket.gethostname()} pid {os.getpid()}\n")
    file.flush()
    return file


def _status(rows: pd.DataFrame) -> str:
    return "failed" if "failed" in set(rows.status) else "finished"


_HEADER = ",".join(NAMES)
_HEADERS = {version: ",".join(names_at(version)) for version in range(1, SCHEMA_VERSION + 1)}
_RECORD = {"schema_version", "status", "meta", "columns", "rows"}


def _encode(frame: pd.DataFrame, meta: dict[str, Any]) -> bytes:
    """Rows are kept as lines of CSV, so that results.csv is rebuilt by joining them."""
    header, *rows = _csv_lines(frame)
    record = {
        "schema_version": SCHEMA_VERSION,
        "status": _status(frame),
        "meta": meta,
        "columns": header,
        "rows": rows,
    }
    return (json.dumps(record, indent=1, allow_nan=False) + "\n").encode("utf-8")


def _csv_lines(frame: pd.DataFrame) -> list[str]:
    return csv_bytes(frame).decode("utf-8").removesuffix("\n").split("\n")


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path}: no such result") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a result of zoology-bench: {error}") from None
    if not isinstance(record, dict) or set(record) != _RECORD:
        known = ", ".join(sorted(_RECORD))
        raise ValueError(f"{path}: not a result of zoology-bench: needs {known}")
    version = record["schema_version"]
    if not isinstance(version, int) or record["columns"] != _HEADERS.get(version):
        raise ValueError(
            f"{path}: schema_version={version} is another version of the table; "
            f"this zoology-bench reads {', '.join(map(str, _HEADERS))}"
        )
    rows = record["rows"]
    if not (isinstance(rows, list) and rows and all(isinstance(row, str) for row in rows)):
        raise ValueError(f"{path}: not a result of zoology-bench: rows must be lines of text")
    if record["status"] not in STATUSES or not isinstance(record["meta"], dict):
        raise ValueError(f"{path}: not a result of zoology-bench: status or meta is none of ours")
    return record


def _current_rows(record: dict[str, Any], path: Path) -> list[str]:
    """Rows of a record as lines of this version's CSV."""
    if record["schema_version"] == SCHEMA_VERSION:
        return record["rows"]
    return _csv_lines(_parse_rows(record, path))[1:]


def _parse_rows(record: dict[str, Any], path: Path) -> pd.DataFrame:
    text = "".join(line + "\n" for line in [record["columns"], *record["rows"]])
    places = [f"{path}:{number}" for number in range(1, len(record["rows"]) + 1)]
    return parse_csv(text, str(path), places)[0]


def _read_result(path: Path) -> StoredResult:
    record = _read_record(path)
    return StoredResult(_parse_rows(record, path), record["meta"])
