"""The result row: one table that says what every column is called, holds and means.

A result is a long-form frame, one row per run x evaluated cell x slice x metric. ``COLUMNS`` is the
only definition: frames, CSV files, their validation and docs/results_schema.md all follow from it.
"""

from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 2
KINDS = ("trained", "untrained", "baseline")
STATUSES = ("finished", "failed")
SPLITS = ("train", "select", "report")
COVERAGE = "coverage"
"""Metric of a construction: the share of queries that it is predicted to answer."""
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
    since: int = 1
    """The schema_version that brought it; rows of an earlier version get the default."""

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
    Column(
        "floor_ceiling",
        "float?",
        "score of the better of two guessers blind to token identity that judge one query at a "
        "time, by its position and those of all pairs, or by its rank; weighing all query "
        "positions at once can score a little more (docs/tasks.md prints how much)",
        None,
    ),
    Column("ceiling_se", "float?", "standard error of floor_ceiling; 0 where exact", None),
    Column("ceiling_method", "str", "exact or simulated", ""),
    Column("lr", "float?", "peak learning rate; empty where nothing is trained", None),
    Column("seed", "int", "initialisation and train rows"),
    Column("data_seed", "int", "select and report rows", 0),
    Column("split", "str", "train, select (choices are made on it) or report (tables use it)"),
    Column("slice_key", "str", "what the slice fixes (distance, ...); empty: all queries", ""),
    Column("slice_value", "str", "its value or lo-hi range, ends included; empty: all queries", ""),
    Column(
        "metric",
        "str",
        "accuracy, coverage (the accuracy predicted of a construction), an error share "
        "(misbinding, ...), or loss in nats",
    ),
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
    Column("command", "str", "command line of this run alone; empty if started from Python", "", 2),
    Column(
        "frozen_logits",
        "str",
        "base64 of 64 little-endian float32 logits of the model with its initial weights of seed 0 "
        "on report rows of the cell (docs/ci.md); in the overall accuracy row on report only",
        "",
        2,
    ),
)
NAMES: tuple[str, ...] = tuple(c.name for c in COLUMNS)


def names_at(version: int) -> tuple[str, ...]:
    """Columns of the table at an earlier ``schema_version``, in order."""
    return tuple(c.name for c in COLUMNS if c.since <= version)


CELL = (
    *("task", "task_version", "layout", "distance_law", "filler", "vocab_size", "seq_len"),
    *("n_kv_pairs", "n_queries", "data_hash"),
)
"""Columns that say which rows a number was measured on."""
KEY = ("run_id", "model", "split", *CELL, "slice_key", "slice_value", "metric")
"""Columns that identify a row: two rows equal here measure the same thing."""


def to_markdown() -> str:
    """The table as the page docs/results_schema.md."""
    lines = [
        "# The result row",
        "",
        "Long form: one row per run x evaluated cell x slice x metric. Generated from",
        f"`zoology_bench/reporting/columns.py` (schema_version {SCHEMA_VERSION});",
        "a test keeps it so. `?` marks columns that may be empty. A row is identified by",
        f"{', '.join(KEY)}.",
        "",
        "",
        "Files of an earlier schema_version are read as if each column that is newer (`since`)",
        "held its default; a file of a later one is refused. What is written has this version.",
        "",
        "| column | type | default | since | meaning |",
        "|---|---|---|---|---|",
    ]
    for c in COLUMNS:
        default = "required" if c.required else {None: "empty", "": '""'}.get(c.default, c.default)
        lines.append(f"| {c.name} | {c.dtype} | {default} | {c.since} | {c.meaning} |")
    return "\n".join(lines) + "\n"
