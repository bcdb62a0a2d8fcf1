"""The gate: does a candidate still score what the baseline scored, and if not, what moved.

Data, numerics and training are told apart: rows by their hash, numerics by the logits of a frozen
model, training by the accuracies that remain to be explained.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import pandas as pd

from zoology_bench.reporting.frozen import TOLERANCE, relative_difference
from zoology_bench.reporting.gate_cells import CONFIGURED, Pair, Side, pair_up
from zoology_bench.reporting.gate_statistics import (
    Sample,
    detectable,
    holm,
    p_value,
    spreads,
    tolerance,
)

LEVEL = 0.05
"""Probability of failing where nothing changed, over all cells together."""
FAILING = ("missing", "data changed", "runs failed", "numerics moved", "dropped")
"""Verdicts that fail the gate."""
_EXACT = 1e-9
"""Difference of accuracies that counts as none where nothing is random."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One model on one cell, compared."""

    name: str
    measured: dict[str, Any]
    baseline: float | None = None
    """Mean accuracy over seeds on report rows; None where the file lacks it."""
    candidate: float | None = None
    baseline_seeds: int = 0
    candidate_seeds: int = 0
    drop: float | None = None
    tolerance: float | None = None
    """An observed drop from here on fails."""
    detectable: float | None = None
    """The smallest true drop that is found with probability .8."""
    p: float | None = None
    """Adjusted p-value (Holm); None where nothing is random or the tolerance is given."""
    data_changed: bool = False
    numerics: float | None = None
    """Relative difference of the frozen logits; None where a file lacks them."""
    training_moved: bool = False
    """Some seed's accuracy differs although data and numerics are the same."""
    verdict: str = "ok"
    """ok, new, or one of FAILING."""

    @property
    def cause(self) -> str:
        """The first of data, numerics and training that moved; empty where nothing did."""
        if self.data_changed:
            return "data changed"
        if self.numerics is not None and self.numerics > TOLERANCE:
            return "numerics moved"
        return "training moved" if self.training_moved else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """All cells of two results, and whether the candidate passes."""

    cells: list[Cell]
    warnings: list[str]
    level: float
    fixed_tolerance: float | None

    @property
    def failures(self) -> list[Cell]:
        """Cells that fail the gate."""
        return [cell for cell in self.cells if cell.verdict in FAILING]

    @property
    def passed(self) -> bool:
        """Whether no cell fails."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        cells = [{**asdict(cell), "cause": cell.cause} for cell in self.cells]
        return {
            "passed": self.passed,
            "n_cells": len(cells),
            "n_failures": len(self.failures),
            "level": self.level,
            "tolerance": "auto" if self.fixed_tolerance is None else self.fixed_tolerance,
            "warnings": self.warnings,
            "cells": cells,
        }


def compare_results(
    baseline: pd.DataFrame,
    candidate: pd.DataFrame,
    *,
    tolerance: float | None = None,
    level: float = LEVEL,
    numerics_fail: bool = False,
) -> Comparison:
    """Compare two results cell by cell, one-sided: only drops fail.

    Args:
        baseline: validated rows (``load_results``).
        candidate: rows of the same experiment, measured later.
        tolerance: largest drop that passes in every cell; None takes it from the variance across
            seeds and the row counts, with Holm's correction over the cells.
        level: probability of failing where nothing changed, for tolerance=None.
        numerics_fail: whether frozen logits that moved fail a cell whose accuracy held.

    Raises:
        ValueError: a number out of range, or results that cannot be paired.
    """
    if tolerance is not None and not (0 <= tolerance < 1):
        raise ValueError(f"tolerance={tolerance} must be auto or lie in [0, 1)")
    if not 0 < level < 0.5:
        raise ValueError(f"level={level} must lie in (0, 0.5)")
    pairs = pair_up(baseline, candidate)
    cells = [_describe(pair) for pair in pairs]
    tested = [
        (index, _sample(pair))
        for index, (pair, cell) in enumerate(zip(pairs, cells, strict=True))
        if cell.verdict == "ok" and pair.kind == "trained"
    ]
    if tested:
        judged = judge([sample for _, sample in tested], tolerance, level)
        for (index, _), numbers in zip(tested, judged, strict=True):
            cells[index] = replace(cells[index], **numbers)
    if numerics_fail:
        cells = [
            replace(cell, verdict="numerics moved")
            if (cell.verdict, cell.cause) == ("ok", "numerics moved")
            else cell
            for cell in cells
        ]
    return Comparison(
        cells=cells, warnings=_warnings(pairs), level=level, fixed_tolerance=tolerance
    )


def _describe(pair: Pair) -> Cell:
    """What can be said without statistics."""
    a, b = pair.baseline, pair.candidate
    cell = Cell(
        name=pair.name,
        measured=pair.measured,
        baseline=a and a.mean,
        candidate=b and b.mean,
        baseline_seeds=len(a.values) if a else 0,
        candidate_seeds=len(b.values) if b else 0,
    )
    if a is None or b is None:
        return replace(cell, verdict="new" if a is None else "missing")
    if a.data != b.data:
        return replace(cell, data_changed=True, verdict="data changed")
    shared = set(a.values) & set(b.values)
    cell = replace(
        cell,
        drop=a.mean - b.mean,
        numerics=_moved(a, b),
        training_moved=any(abs(a.values[s] - b.values[s]) > _EXACT for s in shared),
    )
    if b.n_failed > a.n_failed:
        return replace(cell, verdict="runs failed")
    if pair.kind != "trained" and a.mean - b.mean > _EXACT:
        return replace(cell, verdict="dropped")
    return cell


def _moved(a: Side, b: Side) -> float | None:
    if not (a.logits and b.logits):
        return None
    return max(relative_difference(x, y) for x in a.logits for y in b.logits)


def _sample(pair: Pair) -> Sample:
    a, b = pair.baseline, pair.candidate
    assert a is not None and b is not None
    variances = [*a.row_variances, *b.row_variances]
    return Sample(
        baseline=list(a.values.values()),
        candidate=list(b.values.values()),
        # Where no run left a number there is nothing to count; 1/4 is the largest variance.
        row_variance=fmean(variances) if variances else 0.25,
    )


def judge(samples: list[Sample], fixed: float | None, level: float) -> list[dict[str, Any]]:
    """Tolerance, detectable drop, p-value and verdict of each tested cell."""
    known = spreads(samples)
    share = level / len(samples)
    drops = [sample.drop for sample in samples]
    adjusted = holm([p_value(drop, spread) for drop, spread in zip(drops, known, strict=True)])
    out = []
    for drop, spread, p in zip(drops, known, adjusted, strict=True):
        numbers: dict[str, Any] = {"detectable": detectable(spread, share)}
        if fixed is None:
            numbers |= {"tolerance": tolerance(spread, share), "p": p}
            failed = p <= level
        else:
            # The same float sum in another order must not decide.
            numbers |= {"tolerance": fixed}
            failed = drop > fixed + _EXACT
        out.append({**numbers, "verdict": "dropped" if failed else "ok"})
    return out


def _warnings(pairs: Sequence[Pair]) -> list[str]:
    """What makes the two results less comparable than their numbers look."""
    both = [(p, p.baseline, p.candidate) for p in pairs if p.baseline and p.candidate]
    lines: list[str] = []
    for name in ("hardware", "threads", "versions"):
        old = sorted({text for _, a, _ in both if a for text in getattr(a, name)})
        new = sorted({text for _, _, b in both if b for text in getattr(b, name)})
        if old != new:
            lines.append(f"{name} differ: {_said(old)} before, {_said(new)} now")
    trained = [(p, a, b) for p, a, b in both if p.kind == "trained" and a and b]
    for said, named in (
        *(
            (said, [p.name for p, a, b in trained if a.configured[name] != b.configured[name]])
            for name, said in CONFIGURED.items()
        ),
        ("rows differ in number", [p.name for p, a, b in trained if a.n_rows != b.n_rows]),
        (
            "fewer seeds than before",
            [p.name for p, a, b in trained if len(b.values) < len(a.values)],
        ),
        (
            "one seed on each side, so that the tolerance covers the rows but not the training",
            [p.name for p, a, b in trained if len(a.values) == len(b.values) == 1],
        ),
        (
            "no frozen logits on one side, so that numerics cannot be told from training",
            [p.name for p, a, b in trained if _moved(a, b) is None],
        ),
        ("numerics moved", [p.name for p, a, b in trained if (_moved(a, b) or 0.0) > TOLERANCE]),
        ("failed runs in the baseline", [p.name for p, a, _ in trained if a.n_failed]),
        (
            "changed without training, upwards",
            [
                p.name
                for p, a, b in both
                if p.kind != "trained" and a and b and a.data == b.data and b.mean - a.mean > _EXACT
            ],
        ),
    ):
        if named:
            lines.append(f"{said}: {_shortened(named)}")
    return lines


def _said(texts: Sequence[str]) -> str:
    return "; ".join(texts) or "not recorded"


def _shortened(names: Sequence[str], at_most: int = 3) -> str:
    rest = len(names) - at_most
    return "; ".join(names[:at_most]) + (f"; and {rest} more" if rest > 0 else "")
