"""Files that are either whole or absent: atomic writes, and CSV that round-trips bit for bit."""

import csv
import io
import os
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from zoology_bench.reporting.columns import COLUMNS
from zoology_bench.reporting.schema import sort_rows, validate


class OutputError(ValueError):
    """A folder cannot be written; the message is one line that names it and what set it."""


def output_error(
    root: Path, error: OSError, path: Path | None = None, field: str = "output_dir"
) -> OutputError:
    """Turn an operating-system error below ``root``, which ``field`` set, into one line."""
    where = "" if path is None or path == root else f" ({path.relative_to(root)})"
    return OutputError(f"{field}={root} cannot be written: {error.strerror or error}{where}")


def atomic_write(path: Path, data: bytes, root: Path, field: str = "output_dir") -> None:
    """Write ``data`` so that ``path`` is at every moment the old file, the new file or absent.

    The bytes reach the disk before the name does, so that a crash cannot leave an empty file.

    Raises:
        OutputError: no space, no permission, ...; names ``field`` and ``root``; ``path`` is left
            as it was.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise output_error(root, error, path, field) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut, where the file system can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems refuse to sync a folder; the rename stands
        pass
    finally:
        os.close(handle)


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Encode a frame as CSV: UTF-8, ``\\n``, floats by repr (read back bit for bit)."""
    return frame.to_csv(index=False, lineterminator="\n").encode("utf-8")


def save_results(frame: pd.DataFrame, path: str | Path) -> Path:
    """Write result rows as CSV or Parquet, by the suffix of ``path``, whole or not at all.

    Raises:
        ValueError: rows that the schema refuses, another suffix, or Parquet without pyarrow.
        OutputError: the folder cannot be written.
    """
    target = Path(path)
    rows = sort_rows(validate(frame, str(target)))
    if target.suffix == ".csv":
        data = csv_bytes(rows)
    elif target.suffix == ".parquet":
        check_parquet(target)
        buffer = io.BytesIO()
        rows.to_parquet(buffer, engine="pyarrow", index=False)
        data = buffer.getvalue()
    else:
        raise ValueError(f"{target}: results are written as .csv or .parquet")
    atomic_write(target, data, target.parent, "folder")
    return target


def check_parquet(path: Path) -> None:
    """Raise a one-line ``ValueError`` unless pyarrow is installed."""
    if find_spec("pyarrow") is None:
        raise ValueError(f"{path}: Parquet needs pyarrow: pip install 'zoology-bench[parquet]'")


def _parse_bool(text: str) -> object:
    return {"True": True, "False": False}.get(text, text)


def _parse_number(convert: Callable[[str], Any]) -> Callable[[str], object]:
    def parse(text: str) -> object:
        if text == "":
            return None
        try:
            return convert(text)
        except ValueError:
            return text  # left for validate, which names file, line and rule

    return parse


_PARSE_DTYPE: dict[str, Callable[[str], object]] = {
    "str": str,
    "bool": _parse_bool,
    "int": _parse_number(int),
    "float": _parse_number(float),
}
_PARSERS = {column.name: _PARSE_DTYPE[column.dtype.rstrip("?")] for column in COLUMNS}


def _parse(name: str, texts: Sequence[str]) -> pd.Series:
    parse = _PARSERS.get(name, str)
    values = {text: parse(text) for text in set(texts)}
    return pd.Series([values[text] for text in texts], dtype=object)


def _records(text: str, source: str) -> tuple[list[str], list[list[str]], list[str]]:
    """Split CSV text into header, records and the place of each record."""
    records, places = [], []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader)
        for record in reader:
            records.append(record)
            places.append(f"{source}:{reader.line_num}")
            if len(record) != len(header):
                raise ValueError(f"{places[-1]}: {len(record)} cells, the header has {len(header)}")
    except csv.Error as error:
        raise ValueError(f"{source}:{reader.line_num}: {error}") from None
    if not text.endswith("\n"):
        raise ValueError(f"{source}:{reader.line_num}: the last line is cut short")
    return header, records, places


def parse_csv(
    text: str, source: str, places: Sequence[str] | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Read results from CSV text.

    Args:
        text: header and lines.
        source: what to call it in an error.
        places: where each row stands, if not at its line of ``source``.

    Returns:
        The validated frame and the place of each row.

    Raises:
        ValueError: foreign, torn or partial text; one line that names the place and the column.
    """
    if not text:
        raise ValueError(f"{source}:1: the file is empty")
    header, records, lines = _records(text, source)
    known = list(lines if places is None else places)
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"{source}:1: column {twice} stands twice")
    columns = zip(*records, strict=True) if records else ((),) * len(header)
    frame = pd.DataFrame(
        {name: _parse(name, texts) for name, texts in zip(header, columns, strict=True)}
    )
    return validate(frame, source, known), known


def read_csv(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Read a results file; see ``parse_csv``."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a CSV file: {error.reason} at byte {error.start}") from None
    return parse_csv(text, str(path))
