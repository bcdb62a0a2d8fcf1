"""Rows as files for people who train elsewhere: .npz or .jsonl, described in docs/tasks.md."""

import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

import numpy as np
from torch import Tensor
from tqdm import tqdm

from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout, Vocabulary
from zoology_bench.plain import to_plain

FORMAT = "zoology-bench rows"
FORMAT_VERSION = 1

_BLOCK_TOKENS = 1 << 20
"""Tokens generated at a time; peak memory is a small multiple, whatever the number of rows."""


class RowSource(Protocol):
    """What an export needs of a task (a dataclass); every Task has it."""

    name: ClassVar[str]
    version: ClassVar[int]
    seq_len: int

    def rows(self, split: str, seed: int, start: int, stop: int, device: str = "cpu") -> Batch:
        """Rows start..stop-1."""
        ...

    def public_layout(self) -> PublicLayout:
        """Vocabulary and layout."""
        ...

    def data_hash(self) -> str:
        """Identity of the task's rows."""
        ...


def export_rows(
    task: RowSource, split: str, seed: int, start: int, stop: int, path: str | os.PathLike[str]
) -> Path:
    """Write rows start..stop-1 of a split to a new file; the suffix chooses the format.

    The file appears under its name only when it is complete. Equal arguments give equal bytes.

    Args:
        task: the task, a dataclass.
        split: train, select or report.
        seed: the training seed for train, ``task.data_seed`` for select and report.
        start: first row.
        stop: one past the last row.
        path: ends in .npz or .jsonl and does not exist yet.

    Returns:
        The path.

    Raises:
        ValueError: unknown suffix, missing folder, existing file, empty range, unknown split.
        OSError: no permission or no space; nothing is left behind.
    """
    target = Path(path)
    write = _WRITERS.get(target.suffix)
    if write is None:
        known = ", ".join(sorted(_WRITERS))
        raise ValueError(f"path={target} has suffix {target.suffix!r}; known: {known}")
    if not target.parent.is_dir():
        raise ValueError(f"path={target} is in folder {target.parent}, which does not exist")
    _refuse_existing(target)
    if not 0 <= start < stop:
        raise ValueError(f"start={start}, stop={stop} hold no rows: need 0 <= start < stop")
    header = _header(task, split, seed, start, stop)

    def blocks(what: str) -> Iterator[tuple[int, Batch]]:
        size = max(1, _BLOCK_TOKENS // task.seq_len)
        firsts = range(start, stop, size)
        for first in tqdm(firsts, desc=what, unit="block", delay=2, disable=None):
            yield first, task.rows(split, seed, first, min(first + size, stop))

    _write_atomically(target, lambda file: write(file, header, blocks))
    return target


def _header(task: RowSource, split: str, seed: int, start: int, stop: int) -> dict[str, Any]:
    task.rows(split, seed, start, start + 1)  # an unknown split fails before anything is written
    layout = task.public_layout()
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "task": task.name,
        "task_version": task.version,
        "config": to_plain(task),
        "layout": layout.name,
        "vocabulary": _plain_vocabulary(layout.vocabulary),
        "split": split,
        "seed": seed,
        "start": start,
        "stop": stop,
        "data_hash": task.data_hash(),
    }


def _plain_vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    ranges = {
        name: [getattr(vocabulary, name).start, getattr(vocabulary, name).stop]
        for name in ("keys", "values", "filler")
    }
    return {
        "size": vocabulary.size,
        **ranges,
        "blank": vocabulary.blank,
        "absent": vocabulary.absent,
    }


_Blocks = Callable[[str], Iterator[tuple[int, Batch]]]


def _write_npz(file: IO[bytes], header: dict[str, Any], blocks: _Blocks) -> None:
    # One pass over the rows per array: rows are cheaper to draw again than to hold.
    n_rows = header["stop"] - header["start"]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("header.npy", "w") as member:
            np.lib.format.write_array(member, np.array(json.dumps(header)), allow_pickle=False)
        for field in fields(Batch):
            with archive.open(f"{field.name}.npy", "w", force_zip64=True) as member:
                _write_array(
                    member, (getattr(b, field.name) for _, b in blocks(field.name)), n_rows
                )


def _write_array(member: IO[bytes], pieces: Iterator[Tensor], n_rows: int) -> None:
    for i, piece in enumerate(pieces):
        if i == 0:
            shape = {"shape": (n_rows, piece.shape[1]), "fortran_order": False, "descr": "<i8"}
            np.lib.format.write_array_header_1_0(member, shape)
        member.write(piece.contiguous().numpy().astype("<i8").tobytes())


def _write_jsonl(file: IO[bytes], header: dict[str, Any], blocks: _Blocks) -> None:
    file.write(_json_line(header))
    for first, batch in blocks("rows"):
        columns = {field.name: getattr(batch, field.name).tolist() for field in fields(Batch)}
        for i in range(len(batch)):
            row = {"row": first + i, **{name: values[i] for name, values in columns.items()}}
            file.write(_json_line(row))


def _json_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


_WRITERS = {".npz": _write_npz, ".jsonl": _write_jsonl}


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise ValueError(f"path={path} exists already; exports never overwrite a file")


def _write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
        # mkstemp makes files private; an export is meant to be passed on.
        os.chmod(name, 0o644)
        _refuse_existing(path)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
