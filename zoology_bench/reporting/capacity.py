"""How many pairs a model holds: K50 and K90 from a logistic fit of recall against load.

Recall is accuracy above the cell's ceiling of blind guessing, r = (accuracy - f) / (1 - f): at two
pairs a guesser is right half of the time, and that is no capacity.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import CHOICE, TRAINING, choose, summarise
from zoology_bench.reporting.columns import CELL
from zoology_bench.reporting.intervals import effective_n, student_t_quantile
from zoology_bench.reporting.tables import Row, format_quantity, markdown_table

LEVELS = {"k50": 0.5, "k90": 0.9}
_LEGEND = (
    "Pairs at which recall falls to .5 and .9 over cells that differ in nothing else, by a "
    "logistic fit with its 95 % interval; recall is accuracy above its floor, the content-blind "
    "ceiling or the best baseline, as a share of what is left above it. `>`: still higher at the "
    "largest load; `<`: lower at the smallest; `?`: the runs do not tell."
)
MIN_LOADS = 3
"""Numbers of pairs that a fit needs."""
_STEPS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """logit r = a - b log2 P, by quasi-likelihood."""

    a: float
    b: float
    covariance: np.ndarray
    """(2, 2), of a and b, overdispersion included."""
    df: int

    def recall(self, load: np.ndarray) -> np.ndarray:
        """r at the given numbers of pairs."""
        return 1 / (1 + np.exp(-(self.a - self.b * np.log2(load))))

    def load_at(self, recall: float) -> tuple[float, float, float]:
        """P at which r takes a value, and its 95 % interval by the delta method on log2 P."""
        target = math.log(recall / (1 - recall))
        x = (self.a - target) / self.b
        gradient = np.array([1 / self.b, -x / self.b])
        half = student_t_quantile(self.df) * math.sqrt(gradient @ self.covariance @ gradient)
        return _power(x), _power(x - half), _power(x + half)


def _power(x: float) -> float:
    return math.inf if x > 60 else 2.0**x


def fit_logistic(loads: np.ndarray, recall: np.ndarray, sizes: np.ndarray) -> Fit | None:
    """Iteratively reweighted least squares; None where recall does not fall with load.

    Args:
        loads: (N,) numbers of pairs.
        recall: (N,) shares; drawn in by half a trial, so that a jump from 1 to 0 has a fit.
        sizes: (N,) independent trials behind each.
    """
    x = np.stack([np.ones_like(loads), -np.log2(loads)], axis=1)
    y = np.clip(recall, 0.5 / sizes, 1 - 0.5 / sizes)
    beta = np.zeros(2)
    for _ in range(_STEPS):
        mean = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        weight = sizes * mean * (1 - mean)
        information = x.T @ (x * weight[:, None])
        step = np.linalg.solve(information + 1e-9 * np.eye(2), x.T @ (sizes * (y - mean)))
        beta = beta + step * min(1.0, 5 / max(1e-12, float(np.abs(step).max())))
        if float(np.abs(step).max()) < 1e-9:
            break
    if not (beta[1] > 1e-6 and np.isfinite(beta).all()):
        return None
    mean = np.clip(1 / (1 + np.exp(-np.clip(x @ beta, -30, 30))), 1e-9, 1 - 1e-9)
    df = len(y) - 2
    # Seeds differ by more than their rows: the spread around the curve says by how much.
    spread = float(np.sum(sizes * (y - mean) ** 2 / (mean * (1 - mean)))) / df
    weight = sizes * mean * (1 - mean)
    covariance = np.linalg.inv(x.T @ (x * weight[:, None])) * max(1.0, spread)
    return Fit(a=float(beta[0]), b=float(beta[1]), covariance=covariance, df=df)


def capacities(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[tuple[str, str, str], Fit]]:
    """K50 and K90 of every arm and width, over cells that differ in the number of pairs only.

    Returns:
        One line per arm, width and set of cells (named without P) with at least ``MIN_LOADS``
        loads: k50, k50_low, k50_high, k50_bound and the same for k90. The bound is ``>`` where
        recall never falls to the level within the loads that were run (k50 is then the largest),
        ``<`` where it never rises to it (the smallest), ``?`` where the fit puts it outside those
        loads or cannot tell it from any of them (k50 is then missing), empty for a fitted value.
        And the fits by (arm, width, cells).
    """
    lines, fits = [], {}
    for key, runs in _runs(frame).groupby(["arm", "width", "cells"], sort=False):
        assert isinstance(key, tuple)
        if runs.n_kv_pairs.nunique() < MIN_LOADS:
            continue
        fit, numbers = _capacity(runs)
        if fit is not None:
            fits[key] = fit
        names = dict(zip(("arm", "width", "cells"), key, strict=True))
        first = runs.iloc[0]
        facts = {"kind": first.kind, "d_model": first.d_model, "n_loads": runs.n_kv_pairs.nunique()}
        lines.append({**names, **facts, **numbers})
    return pd.DataFrame(lines), fits


_KEYS = [*TRAINING, *CHOICE, *CELL]


def _runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Report rows of the chosen runs, one a seed and cell, with names, recall and trials."""
    named = labels.named(summarise(frame))
    named = named.loc[(named.kind != "baseline") & named.accuracy.notna()]
    named = named.assign(cells=labels.load_names(named))[[*_KEYS, "arm", "width", "cells", "floor"]]
    chosen = choose(frame)
    overall = chosen.loc[(chosen.metric == "accuracy") & (chosen.slice_key == "")]
    rows = overall.loc[(overall.split == "report") & overall.value.notna()]
    rows = rows.merge(named, on=_KEYS, how="inner")
    recall = ((rows.value - rows.floor) / (1 - rows.floor)).clip(lower=0)
    measured = zip(rows.value, rows.se, rows.n, rows.n_rows, strict=True)
    return rows.assign(recall=recall, size=[effective_n(*cells) for cells in measured])


def _capacity(runs: pd.DataFrame) -> tuple[Fit | None, dict[str, float | str]]:
    means = runs.groupby("n_kv_pairs").recall.mean()
    fit = fit_logistic(
        runs.n_kv_pairs.to_numpy(dtype=float),
        runs.recall.to_numpy(dtype=float),
        runs["size"].to_numpy(dtype=float),
    )
    loads = means.index.to_numpy(dtype=float)
    numbers: dict[str, float | str] = {}
    for name, level in LEVELS.items():
        bound, ends = _crossing(loads, means.to_numpy(dtype=float), fit, level)
        numbers |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
        numbers[f"{name}_bound"] = bound
    return fit, numbers


def _crossing(
    loads: np.ndarray, recall: np.ndarray, fit: Fit | None, level: float
) -> tuple[str, tuple[float, float, float]]:
    """The bound's sign, and the load where mean recall (by load) falls to ``level``."""
    least, most = loads.min(), loads.max()
    if recall.min() > level:
        return ">", (most, math.nan, math.nan)
    if recall.max() < level:
        return "<", (least, math.nan, math.nan)
    if fit is not None:
        value, low, high = fit.load_at(level)
        if least <= value <= most and (low >= least or high <= most):
            return "", (value, low, high)
    return "?", (math.nan, math.nan, math.nan)


def capacity_markdown(lines: pd.DataFrame) -> str:
    """The section of table.md: ``11 [10, 12]``, ``> 64`` or ``< 4`` pairs; empty for none."""
    if lines.empty:
        return ""
    body = [
        [f"{row['arm']}{row['width']}", row["cells"], *(_text(row, name) for name in LEVELS)]
        for row in lines.to_dict("records")
    ]
    table = markdown_table(["model", "cells", *(name.upper() for name in LEVELS)], body)
    return f"## Capacity\n\n{_LEGEND}\n\n{table}"


def _text(row: Row, name: str) -> str:
    bound = row[f"{name}_bound"]
    if bound:
        return bound if bound == "?" else f"{bound} {row[name]:g}"
    value, low, high = (format_quantity(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return f"{value} [{low}, {high}]"
