"""Pairing of baseline and candidate: one entry per model and cell, with the seeds of both sides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import ARM, choose
from zoology_bench.reporting.columns import CELL
from zoology_bench.reporting.gate_statistics import row_variance

_MEASURED = (
    *("kind", "model", "mixer", "init", "causal", "n_layers", "d_model"),
    *(name for name in CELL if name not in ("data_hash", "task_version")),
)
"""What a number measures. Hashes of code and configuration are left out: a gate compares across
their changes."""
_TELL_APART = ("experiment", "train_id", "model_id")
"""Added one by one only where a file holds several runs of one seed that measure the same."""

CONFIGURED = {
    "model_id": "model settings differ",
    "train_id": "training data differ",
    "trainer_id": "trainer settings differ",
}
"""Hashes of a run's configuration, and what it means if a gate finds them changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One model on one cell in one of the two files."""

    values: dict[int, float]
    """Accuracy on report rows by seed; 0 for a run that failed without a number."""
    n_failed: int
    n_rows: int
    """Fewest rows that a seed was graded on."""
    row_variances: list[float]
    """Of each seed with a number."""
    data: tuple[str, ...]
    """Hash and task version of the rows."""
    logits: tuple[str, ...]
    """Distinct frozen logits."""
    hardware: tuple[str, ...]
    threads: tuple[str, ...]
    versions: tuple[str, ...]
    configured: dict[str, tuple[str, ...]]
    """Hashes of the configuration by column, of ``CONFIGURED``."""

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return fmean(self.values.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One model on one cell in both files; a side is None where the file has no such run."""

    name: str
    kind: str
    measured: dict[str, Any]
    baseline: Side | None
    candidate: Side | None


def pair_up(baseline: pd.DataFrame, candidate: pd.DataFrame) -> list[Pair]:
    """Match the chosen runs of two results by what they measure.

    Raises:
        ValueError: runs of one file that no column tells apart, or a choice that select rows
            cannot make.
    """
    sides = {"baseline": _runs(baseline), "candidate": _runs(candidate)}
    keys = _identity(sides)
    found = {
        where: {
            tuple(map(str, key)): group
            for key, group in runs.groupby(keys, dropna=False, sort=False)
            if isinstance(key, tuple)
        }
        for where, runs in sides.items()
    }
    names = list(dict.fromkeys([*found["baseline"], *found["candidate"]]))
    firsts = [(found["baseline"].get(name, found["candidate"].get(name)), name) for name in names]
    heads = pd.concat([group.iloc[:1] for group, _ in firsts if group is not None])
    said = labels.named(heads.reset_index(drop=True)).to_dict("records")
    return [
        Pair(
            name=f"{head['arm']}{head['width']}, {head['cell']}",
            kind=head["kind"],
            measured={key: None if pd.isna(head[key]) else head[key] for key in keys},
            baseline=_side(found["baseline"].get(name)),
            candidate=_side(found["candidate"].get(name)),
        )
        for head, name in zip(said, names, strict=True)
    ]


def _runs(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per run and cell: its accuracy on report rows, or none where it failed without."""
    overall = choose(frame.loc[(frame.metric == "accuracy") & (frame.slice_key == "")])
    blind = overall.loc[(overall.status == "failed") & overall.value.isna()]
    report = pd.concat([overall.loc[overall.split == "report"], blind])
    report = report.drop_duplicates(["run_id", *ARM, *CELL])
    if report.empty:
        raise ValueError("no accuracy on report rows to compare")
    return report


def _identity(sides: dict[str, pd.DataFrame]) -> list[str]:
    """The fewest columns under which no file holds two runs of one seed."""
    keys = list(_MEASURED)
    for extra in (None, *_TELL_APART):
        keys = keys if extra is None else [*keys, extra]
        twice = [runs.loc[runs.duplicated([*keys, "seed"], keep=False)] for runs in sides.values()]
        if all(rows.empty for rows in twice):
            return keys
    rows = next(rows for rows in twice if len(rows))
    one, other = rows.sort_values([*keys, "seed"], kind="stable").run_id.iloc[:2]
    raise ValueError(f"runs {one} and {other} have the same seed and no column tells them apart")


_READ = (
    *("seed", "status", "value", "se", "n", "n_rows", "data_hash", "task_version"),
    *("frozen_logits", "hardware", "threads", "versions", *CONFIGURED),
)


def _side(runs: pd.DataFrame | None) -> Side | None:
    if runs is None:
        return None
    rows = runs.loc[:, list(_READ)].to_dict("records")
    graded = [row for row in rows if not math.isnan(row["value"])]
    return Side(
        values={row["seed"]: 0.0 if math.isnan(row["value"]) else row["value"] for row in rows},
        n_failed=sum(row["status"] == "failed" for row in rows),
        n_rows=min((row["n_rows"] for row in graded), default=0),
        row_variances=[
            row_variance(row["value"], row["se"], row["n"], row["n_rows"]) for row in graded
        ],
        data=_distinct(f"{row['data_hash']} v{row['task_version']}" for row in rows),
        logits=_distinct(row["frozen_logits"] for row in rows),
        hardware=_distinct(row["hardware"] for row in rows),
        threads=_distinct("" if pd.isna(row["threads"]) else str(row["threads"]) for row in rows),
        versions=_distinct(row["versions"] for row in rows),
        configured={name: _distinct(row[name] for row in rows) for name in CONFIGURED},
    )


def _distinct(texts: Any) -> tuple[str, ...]:
    found: Sequence[str] = sorted({text for text in texts if text})
    return tuple(found)
