"""Grade predictions that were made elsewhere on exported rows.

Two formats, described in docs/tasks.md. Both say which rows they answer: ``data_hash``, ``split``,
``seed``, ``start``, ``stop``, all found in the export's header. ``.npz`` holds an integer array
``predictions`` (stop - start, Q); ``.jsonl`` holds a header object and then one object
``{"row": i, "predictions": [...]}`` per row, in any order. -1 means no answer.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from zoology_bench.baselines import content_blind_ceiling
from zoology_bench.tasks.base import Task
from zoology_bench.training.metrics import NO_ANSWER, Tallies

ADDRESS = ("data_hash", "split", "seed", "start", "stop")
"""Fields of a predictions file that say which rows it answers."""

_BLOCK_TOKENS = 1 << 20
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,  # a damaged member
    RuntimeError,  # an encrypted archive, or (NotImplementedError) an unknown compression
)


@dataclass(frozen=True, slots=True)
class Predictions:
    """A checked file: every row of the range answered once, every answer a token or -1."""

    split: str
    seed: int
    start: int
    tokens: np.ndarray
    """(n, Q) int64."""


def score(
    predictions_path: str | os.PathLike[str],
    task: Task,
    split: str = "report",
    seed: int | None = None,
    start: int | None = None,
    stop: int | None = None,
) -> pd.DataFrame:
    """Count the right answers of a predictions file against the task's own rows.

    Args:
        predictions_path: .npz or .jsonl.
        task: the task that the rows were exported from.
        split: the split the file must answer.
        seed: the seed the file must answer; None: ``task.data_seed``.
        start: the row it must start at; None: whatever it says.
        stop: one past the row it must end at; None: whatever it says.

    Returns:
        One row per slice and metric: the fields of training.metrics.Tally, then which rows were
        graded and the floors 1/V, 1/P and the content-blind ceiling with its standard error.

    Raises:
        ValueError: no such file, not ours, other rows than asked for, an unanswered or repeated
            row, an answer outside -1..V-1; one line with file and field or line.
    """
    expected = {
        "data_hash": task.data_hash(),
        "split": split,
        "seed": task.data_seed if seed is None else seed,
        "start": start,
        "stop": stop,
    }
    given = _read(Path(predictions_path), task, expected)
    tallies = Tallies(task.public_layout().vocabulary)
    for offset, batch in _blocks(task, given):
        answers = given.tokens[offset : offset + len(batch)]
        tallies.add(batch, torch.from_numpy(answers))
    context = {
        "task": task.name,
        "task_version": task.version,
        "data_hash": expected["data_hash"],
        "split": given.split,
        "seed": given.seed,
        "start": given.start,
        "stop": given.start + len(given.tokens),
        **floors(task),
    }
    return pd.DataFrame([{**asdict(tally), **context} for tally in tallies.rows()])


def floors(task: Task) -> dict[str, Any]:
    """The columns that stand beside every accuracy of a task: 1/V, 1/P and the ceiling."""
    ceiling = content_blind_ceiling(task)
    return {
        "floor_vocab": 1 / task.vocab_size,
        "floor_pairs": 1 / int(task.cell()["n_kv_pairs"]),
        "floor_ceiling": ceiling.value,
        "ceiling_se": ceiling.se,
        "ceiling_method": ceiling.method,
    }


def _blocks(task: Task, given: Predictions) -> Iterator[tuple[int, Any]]:
    size = max(1, _BLOCK_TOKENS // task.seq_len)
    for offset in range(0, len(given.tokens), size):
        first, last = given.start + offset, given.start + min(offset + size, len(given.tokens))
        yield offset, task.rows(given.split, given.seed, first, last)


def _read(path: Path, task: Task, expected: Mapping[str, Any]) -> Predictions:
    reader = _READERS.get(path.suffix)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise ValueError(f"{path} has suffix {path.suffix!r}; predictions are {known}")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    n_queries = task.rows("report", task.data_seed, 0, 1).query_pos.shape[1]
    address, tokens = reader(path, expected, n_queries)
    _check_tokens(path, tokens, task.vocab_size, address["start"])
    tokens = tokens.astype(np.int64)
    return Predictions(address["split"], address["seed"], address["start"], tokens)


def _read_npz(
    path: Path, expected: Mapping[str, Any], n_queries: int
) -> tuple[dict[str, Any], np.ndarray]:
    try:
        with open(path, "rb") as file, np.lib.npyio.NpzFile(file) as archive:
            fields = {name: np.asarray(archive[name]) for name in archive.files}
    except _UNREADABLE as error:
        raise ValueError(f"{path}: not a readable .npz file ({type(error).__name__})") from None
    scalars = {name: value.item() for name, value in fields.items() if value.ndim == 0}
    address = _check_address(f"{path}", scalars, expected)
    if "predictions" not in fields:
        raise ValueError(f"{path}: no array 'predictions'; found {', '.join(sorted(fields))}")
    predictions = fields["predictions"]
    if predictions.dtype.kind not in "iu":
        raise ValueError(f"{path}: predictions have dtype {predictions.dtype}, not integers")
    shape = (address["stop"] - address["start"], n_queries)
    if predictions.shape != shape:
        raise ValueError(
            f"{path}: predictions have shape {predictions.shape}, but rows"
            f" {address['start']}..{address['stop'] - 1} ask {shape} (rows, queries)"
        )
    return address, predictions


def _read_jsonl(
    path: Path, expected: Mapping[str, Any], n_queries: int
) -> tuple[dict[str, Any], np.ndarray]:
    with path.open("rb") as file:
        address = _check_address(f"{path}:1", _json_object(f"{path}:1", file.readline()), expected)
        start, stop = address["start"], address["stop"]
        if stop - start > path.stat().st_size:  # a line takes more than a byte
            raise ValueError(f"{path}: answers fewer rows than start={start}, stop={stop} hold")
        tokens = np.full((stop - start, n_queries), NO_ANSWER, dtype=np.int64)
        seen = np.zeros(stop - start, dtype=bool)
        for number, line in enumerate(file, start=2):
            where = f"{path}:{number}"
            row, answers = _json_row(where, line, n_queries)
            if not start <= row < stop:
                raise ValueError(f"{where}: row={row} is outside start={start}, stop={stop}")
            if seen[row - start]:
                raise ValueError(f"{where}: row={row} is answered twice")
            seen[row - start] = True
            tokens[row - start] = answers
    if not seen.all():
        missing = start + int(np.flatnonzero(~seen)[0])
        raise ValueError(f"{path}: row={missing} is not answered ({(~seen).sum()} rows missing)")
    return address, tokens


def _json_row(where: str, line: bytes, n_queries: int) -> tuple[int, list[int]]:
    fields = _json_object(where, line)
    row, answers = fields.get("row"), fields.get("predictions")
    if not isinstance(row, int) or isinstance(row, bool):
        raise ValueError(f"{where}: row={row!r} must be an integer")
    if not isinstance(answers, list) or not all(_is_int(a) and abs(a) < 2**62 for a in answers):
        raise ValueError(f"{where}: predictions must be a list of integers")
    if len(answers) != n_queries:
        raise ValueError(f"{where}: {len(answers)} predictions for {n_queries} queries")
    return row, answers


def _json_object(where: str, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # brackets within brackets, a thousand deep
        raise ValueError(f"{where}: not a line of JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"{where}: not a JSON object")
    return value


def _check_address(
    where: str, fields: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, Any]:
    for name in ADDRESS:
        if name not in fields:
            raise ValueError(f"{where}: no field {name!r}; copy it from the export's header")
        if expected[name] is not None and fields[name] != expected[name]:
            raise ValueError(f"{where}: {name}={fields[name]!r} but expected {expected[name]!r}")
    for name in ("start", "stop"):
        if not _is_int(fields[name]):
            raise ValueError(f"{where}: {name}={fields[name]!r} must be an integer")
    if not 0 <= fields["start"] < fields["stop"]:
        raise ValueError(f"{where}: start={fields['start']}, stop={fields['stop']} hold no rows")
    return {name: fields[name] for name in ADDRESS}


def _check_tokens(path: Path, tokens: np.ndarray, vocab_size: int, start: int) -> None:
    wrong = np.argwhere((tokens < NO_ANSWER) | (tokens >= vocab_size))
    if len(wrong):
        row, query = (int(i) for i in wrong[0])
        raise ValueError(
            f"{path}: row={start + row} query={query}: prediction {tokens[row, query]} is no token"
            f" (need -1..{vocab_size - 1})"
        )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_READERS = {".npz": _read_npz, ".jsonl": _read_jsonl}
