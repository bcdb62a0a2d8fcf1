"""The result row: one table that says what every column is called, holds and means.

A result is a long-form frame, one row per run x evaluated cell x slice x metric. ``COLUMNS`` is the
only definition: frames, CSV files, their validation and docs/results_schema.md all follow from it.
"""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zoology_bench.validation import unknown_name

SCHEMA_VERSION = 1
KINDS = ("trained", "untrained", "baseline")
STATUSES = ("finished", "failed")
SPLITS = ("train", "select", "report")
UNBOUNDED_METRICS = ("loss",)
"""Metrics that are not shares of the queries."""

_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the result row."""

    name: str
    dtype: str
    """str, int, float or bool; a trailing ``?`` says that the cell may be empty."""
    meaning: str
    default: Any = _REQUIRED

    @property
    def required(self) -> bool:
        """Whether every row must set it."""
        return self.default is _REQUIRED

    @property
    def pandas_dtype(self) -> str:
        """The dtype this column has in a frame."""
        return _PANDAS[self.dtype]


_PANDAS = {
    "str": "str",
    "int": "int64",
    "int?": "Int64",
    "float": "float64",
    "float?": "float64",
    "bool": "bool",
}

COLUMNS: tuple[Column, ...] = (
    Column("schema_version", "int", "version of this table", SCHEMA_VERSION),
    Column("experiment", "str", "name of the experiment the run belongs to"),
    Column("run_id", "str", "content hash of the full config and the task version"),
    Column("status", "str", f"{' or '.join(STATUSES)}"),
    Column("stop_reason", "str", "why training ended; empty where nothing is trained", ""),
    Column("fail_reason", "str", "one line; empty unless status is failed", ""),
    Column("budget_limited", "bool", "the curve still rose when the budget ended", False),
    Column("config_path", "str", "config.json of the run, relative to the output folder", ""),
    Column("kind", "str", f"{', '.join(KINDS)}: how the numbers came about"),
    Column("model", "str", "the label a table shows (attention, base_conv, best_slot, ...)"),
    Column("mixer", "str", "label of the mixer with its variant", ""),
    Column("init", "str", "named initialisation; empty where nothing is trained", ""),
    Column("causal", "bool", "False where an output may depend on later tokens", True),
    Column("d_model", "int?", "width; empty where the model has none", None),
    Column("n_layers", "int?", "blocks; empty where the model has none", None),
    Column("n_params_total", "int?", "trainable parameters, tied tensors counted once", None),
    Column("n_params_non_embedding", "int?", "the same without token and position tables", None),
    Column("n_params_mixer", "int?", "the same, mixers only", None),
    Column("state_bytes", "int?", "bytes that survive between decode steps at seq_len", None),
    Column("model_id", "str", "content hash of the model config without vocab_size, seq_len", ""),
    Column("train_id", "str", "content hash of what it was trained on (task or mixture)", ""),
    Column("trainer_id", "str", "content hash of the trainer config with its lr; no seed", ""),
    Column("task", "str", "task of the evaluated cell"),
    Column("task_version", "int", "rises when any row of the task can change"),
    Column("data_hash", "str", "sha256 of report rows 0..999 of the evaluated cell"),
    Column("vocab_size", "int", "V"),
    Column("seq_len", "int", "T"),
    Column("n_kv_pairs", "int", "P, pairs written"),
    Column("n_queries", "int", "Q, keys asked per row"),
    Column("layout", "str", "where pairs and queries stand", ""),
    Column("distance_law", "str", "law of the interaction distance with its numbers", ""),
    Column("filler", "str", "what stands at all other positions", ""),
    Column("floor_vocab", "float", "1/V"),
    Column("floor_pairs", "float", "1/P"),
    Column("floor_ceiling", "float?", "best score of a predictor blind to token identity", None),
    Column("ceiling_se", "float?", "standard error of floor_ceiling; 0 where exact", None),
    Column("ceiling_method", "str", "exact or simulated", ""),
    Column("lr", "float?", "peak learning rate; empty where nothing is trained", None),
    Column("seed", "int", "initialisation and train rows"),
    Column("data_seed", "int", "select and report rows", 0),
    Column("split", "str", "train, select (choices are made on it) or report (tables use it)"),
    Column("slice_key", "str", "what the slice fixes (distance, ...); empty: all queries", ""),
    Column("slice_value", "str", "its value or lo-hi range, ends included; empty: all queries", ""),
    Column("metric", "str", "accuracy, an error share (misbinding, ...), or loss in nats"),
    Column("value", "float?", "hits / n; empty only where a failed run has no number", None),
    Column("hits", "float", "count or sum behind value; expected count for baselines", 0.0),
    Column("n", "int", "queries counted", 0),
    Column("n_rows", "int", "rows they come from (the clusters of se)", 0),
    Column("se", "float?", "standard error of value within the seed, rows as clusters", None),
    Column("steps", "int", "optimiser steps taken", 0),
    Column("examples", "int", "train rows consumed", 0),
    Column("wall_s", "float", "seconds of training only", 0.0),
    Column("peak_mem_bytes", "int?", "peak memory of the run", None),
    Column("threads", "int?", "CPU threads of the run", None),
    Column("git_sha", "str", "commit of the code", ""),
    Column("dirty", "bool", "the work tree differed from that commit", False),
    Column("versions", "str", "Python and package versions, name=version with blanks", ""),
    Column("hardware", "str", "CPU or GPU name", ""),
    Column("timestamp", "str", "UTC end of the run, ISO 8601", ""),
)
NAMES: tuple[str, ...] = tuple(c.name for c in COLUMNS)

CELL = (
    *("task", "task_version", "layout", "distance_law", "filler", "vocab_size", "seq_len"),
    *("n_kv_pairs", "n_queries", "data_hash"),
)
"""Columns that say which rows a number was measured on."""
KEY = ("run_id", "model", "split", *CELL, "slice_key", "slice_value", "metric")
"""Columns that identify a row: two rows equal here measure the same thing."""


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


def cast_column(
    column: Column, cells: Iterable[object], source: str, lines: Sequence[int]
) -> pd.Series:
    """Turn Python values into this column's dtype.

    Raises:
        ValueError: the first cell that breaks the column's rule, with its source and line.
    """
    out = []
    known: dict[object, Any] = {}  # most columns repeat a few values over many rows
    for line, cell in zip(lines, cells, strict=True):
        key = (type(cell), cell) if isinstance(cell, str | int) else None
        if key is not None and key in known:
            out.append(known[key])
            continue
        try:
            value = _cast(column, cell)
        except _BadCell as bad:
            shown = "" if _is_null(cell) else str(cell)
            raise ValueError(f"{source}:{line}: {column.name}={shown} {bad}") from None
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
    for name in ("floor_vocab", "floor_pairs", "floor_ceiling"):
        yield name, (frame[name] < 0) | (frame[name] > 1), "must lie in [0, 1]"
    share = ~frame.metric.isin(UNBOUNDED_METRICS)
    yield "hits", share & (frame.hits > frame.n * (1 + 1e-9)), "must be at most n"
    finished = frame.status == "finished"
    yield "value", frame.value.isna() & (finished | (frame.n > 0)), "must not be empty"
    yield "n", frame.value.notna() & (frame.n == 0), "must be positive where value is set"
    mean = frame.hits / frame.n.where(frame.n > 0)
    yield "value", (frame.value - mean).abs() > 1e-9 * mean.clip(lower=1), "must be hits / n"


def validate(frame: pd.DataFrame, source: str, lines: Sequence[int] | None = None) -> pd.DataFrame:
    """Return ``frame`` with this table's columns, order and dtypes, or refuse it.

    Args:
        frame: rows from anywhere; any column order and any dtype that holds the right values.
        source: what to call it in an error, usually a file path.
        lines: line of each row in ``source``; by default as in a CSV file (header on line 1).

    Raises:
        ValueError: one line ``source:line: column=value rule``.
    """
    if missing := [name for name in NAMES if name not in frame.columns]:
        raise ValueError(f"{source}:1: not a results file of zoology-bench: no column {missing[0]}")
    if unknown := [str(name) for name in frame.columns if name not in NAMES]:
        raise ValueError(f"{source}:1: {unknown_name('column', unknown[0], NAMES)}")
    lines = range(2, len(frame) + 2) if lines is None else lines
    cast = {c.name: cast_column(c, frame[c.name].tolist(), source, lines) for c in COLUMNS}
    out = pd.DataFrame(cast, columns=list(NAMES))
    for name, bad, rule in _bad_rows(out):
        hits = np.flatnonzero(bad.to_numpy(dtype=bool, na_value=False))
        if hits.size:
            cell = out[name].iloc[hits[0]]
            shown = "" if _is_null(cell) else cell
            raise ValueError(f"{source}:{lines[hits[0]]}: {name}={shown} {rule}")
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
    return validate(pd.DataFrame(filled), source, range(len(rows)))


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


def to_markdown() -> str:
    """The table as the page docs/results_schema.md."""
    lines = [
        "# The result row",
        "",
        "Long form: one row per run x evaluated cell x slice x metric. Generated from",
        f"`zoology_bench/reporting/schema.py` (schema_version {SCHEMA_VERSION});",
        "a test keeps it so. `?` marks columns that may be empty. A row is identified by",
        f"{', '.join(KEY)}.",
        "",
        "| column | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for c in COLUMNS:
        default = "required" if c.required else {None: "empty", "": '""'}.get(c.default, c.default)
        lines.append(f"| {c.name} | {c.dtype} | {default} | {c.meaning} |")
    return "\n".join(lines) + "\n"
