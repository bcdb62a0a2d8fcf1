"""Frames of result rows: built from dicts, checked against the columns, put in order."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from zoology_bench.reporting.columns import (
    COLUMNS,
    KINDS,
    NAMES,
    SCHEMA_VERSION,
    SPLITS,
    STATUSES,
    UNBOUNDED_METRICS,
    Column,
    names_at,
)
from zoology_bench.validation import unknown_name


class _BadCell(Exception):
    """A cell that breaks its column's rule; caught here and turned into one line for the user."""


def _is_null(cell: object) -> bool:
    return cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell))


def _one_line(text: str) -> str:
    """One row is one line of a file, and any text must be writable as UTF-8."""
    return " ".join(text.split()).encode("utf-8", "backslashreplace").decode("utf-8")


def _as_str(cell: object) -> str:
    if not isinstance(cell, str):
        raise _BadCell("must be text")
    return _one_line(cell)


def _as_bool(cell: object) -> bool:
    if not isinstance(cell, bool | np.bool_):
        raise _BadCell("must be True or False")
    return bool(cell)


def _as_int(cell: object) -> int:
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, numbers.Integral):
        raise _BadCell("must be an integer")
    if not -(2**63) <= int(cell) < 2**63:
        raise _BadCell("must fit in 64 bits")
    return int(cell)


def _as_float(cell: object) -> float:
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, numbers.Real):
        raise _BadCell("must be a number")
    if not math.isfinite(float(cell)):
        raise _BadCell("must be finite")
    return float(cell)


_CASTS: dict[str, Callable[[object], Any]] = {
    "str": _as_str,
    "bool": _as_bool,
    "int": _as_int,
    "float": _as_float,
}


def _cast(column: Column, cell: object) -> Any:
    if _is_null(cell):
        if column.dtype.endswith("?"):
            return None
        raise _BadCell("must not be empty")
    return _CASTS[column.dtype.rstrip("?")](cell)


def cast_column(column: Column, cells: Iterable[object], places: Sequence[str]) -> pd.Series:
    """Turn Python values into this column's dtype.

    Raises:
        ValueError: the first cell that breaks the column's rule, with its place.
    """
    out = []
    known: dict[object, Any] = {}  # most columns repeat a few values over many rows
    for place, cell in zip(places, cells, strict=True):
        key = (type(cell), cell) if isinstance(cell, str | int) else None
        if key is not None and key in known:
            out.append(known[key])
            continue
        try:
            value = _cast(column, cell)
        except _BadCell as bad:
            shown = "" if _is_null(cell) else str(cell)
            raise ValueError(f"{place}: {column.name}={shown} {bad}") from None
        if key is not None:
            known[key] = value
        out.append(value)
    return pd.Series(out, dtype=column.pandas_dtype, name=column.name)


def _bad_rows(frame: pd.DataFrame) -> Iterable[tuple[str, Any, str]]:
    """Yield (column, rows that break the rule, rule) for every rule that spans rows or columns."""
    yield (
        "schema_version",
        frame.schema_version != SCHEMA_VERSION,
        (f"is another version of the table; this zoology-bench reads {SCHEMA_VERSION}"),
    )
    for name, known in (("kind", KINDS), ("status", STATUSES), ("split", SPLITS)):
        yield name, ~frame[name].isin(known), f"must be one of {', '.join(known)}"
    for name in ("experiment", "run_id", "model", "task", "data_hash", "metric"):
        yield name, frame[name] == "", "must not be empty"
    for name in ("value", "hits", "n", "n_rows", "steps", "examples", "wall_s"):
        yield name, frame[name] < 0, "must not be negative"
    for name in ("vocab_size", "seq_len", "n_kv_pairs", "d_model", "n_layers", "threads"):
        yield name, frame[name] < 1, "must be at least 1"
    for name in ("floor_vocab", "floor_pairs", "floor_ceiling"):
        yield name, (frame[name] < 0) | (frame[name] > 1), "must lie in [0, 1]"
    share = ~frame.metric.isin(UNBOUNDED_METRICS)
    yield "hits", share & (frame.hits > frame.n * (1 + 1e-9)), "must be at most n"
    finished = frame.status == "finished"
    yield "value", frame.value.isna() & (finished | (frame.n > 0)), "must not be empty"
    yield "n", frame.value.notna() & (frame.n == 0), "must be positive where value is set"
    mean = frame.hits / frame.n.where(frame.n > 0)
    yield "value", (frame.value - mean).abs() > 1e-9 * mean.clip(lower=1), "must be hits / n"


def migrate(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """Give rows of an earlier schema_version the columns that have come since, with defaults.

    Raises:
        ValueError: rows of several versions, or an earlier version with columns it never had.
    """
    cells = frame["schema_version"].tolist() if "schema_version" in frame.columns else []
    versions = list(dict.fromkeys(cells))
    whole = [int(v) for v in versions if isinstance(v, numbers.Integral)]
    earlier = [version for version in whole if 1 <= version < SCHEMA_VERSION]
    if not earlier:
        return frame
    if len(versions) > 1:
        shown = ", ".join(map(str, versions))
        raise ValueError(f"{source}: rows of several schema versions ({shown}) in one table")
    known = names_at(earlier[0])
    if unknown := [str(name) for name in frame.columns if name not in known]:
        raise ValueError(f"{source}:1: {unknown_name('column', unknown[0], known)}")
    added = {c.name: c.default for c in COLUMNS if c.name not in known}
    return frame.assign(schema_version=SCHEMA_VERSION, **added)


def validate(frame: pd.DataFrame, source: str, places: Sequence[str] | None = None) -> pd.DataFrame:
    """Return ``frame`` with this table's columns, order and dtypes, or refuse it.

    Rows of an earlier schema_version are migrated first.

    Args:
        frame: rows from anywhere; any column order and any dtype that holds the right values.
        source: what to call it in an error, usually a file path.
        places: where each row stands; by default ``source:line`` of a CSV file.

    Raises:
        ValueError: one line ``source:line: column=value rule``.
    """
    frame = migrate(frame, source)
    if missing := [name for name in NAMES if name not in frame.columns]:
        raise ValueError(f"{source}:1: not a results file of zoology-bench: no column {missing[0]}")
    if unknown := [str(name) for name in frame.columns if name not in NAMES]:
        raise ValueError(f"{source}:1: {unknown_name('column', unknown[0], NAMES)}")
    if places is None:
        places = [f"{source}:{line}" for line in range(2, len(frame) + 2)]
    cast = {c.name: cast_column(c, frame[c.name].tolist(), places) for c in COLUMNS}
    out = pd.DataFrame(cast, columns=list(NAMES))
    for name, bad, rule in _bad_rows(out):
        hits = np.flatnonzero(bad.to_numpy(dtype=bool, na_value=False))
        if hits.size:
            cell = out[name].iloc[hits[0]]
            shown = "" if _is_null(cell) else cell
            raise ValueError(f"{places[hits[0]]}: {name}={shown} {rule}")
    return out


def to_frame(rows: Sequence[Mapping[str, Any]], source: str = "rows") -> pd.DataFrame:
    """Build a validated frame from row dicts, with defaults filled in.

    Raises:
        ValueError: an unknown or missing key, or a value that breaks its column's rule.
    """
    for index, row in enumerate(rows):
        if unknown := [key for key in row if key not in NAMES]:
            raise ValueError(f"{source}:{index}: {unknown_name('column', unknown[0], NAMES)}")
        for column in COLUMNS:
            if column.required and column.name not in row:
                raise ValueError(f"{source}:{index}: {column.name} is required")
    filled = {
        c.name: pd.Series([row.get(c.name, c.default) for row in rows], dtype=object)
        for c in COLUMNS
    }
    return validate(pd.DataFrame(filled), source, [f"{source}:{i}" for i in range(len(rows))])


def sort_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Put rows in the one order files use: by experiment, cell, model, run, slice, metric."""
    first = frame.slice_value.str.extract(r"^(\d+)", expand=False).astype("float64")
    by = [
        *("experiment", "task", "layout", "filler", "seq_len", "n_kv_pairs", "vocab_size"),
        *("kind", "model", "mixer", "init", "d_model", "lr", "seed", "run_id"),
        *("task_version", "distance_law", "n_queries", "data_hash"),
        *("split", "slice_key", "_slice", "slice_value", "metric"),
    ]
    order = frame.assign(_slice=first).sort_values(by, kind="stable", na_position="first")
    return frame.loc[order.index].reset_index(drop=True)
