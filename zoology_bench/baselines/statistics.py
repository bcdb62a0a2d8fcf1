"""Estimates with errors that respect rows: the queries of one row are not independent."""

import math
from dataclasses import dataclass

import numpy as np
import torch

Z = 3.2905
"""Half width of a 99.9 % normal interval, in standard errors."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its row-clustered standard error."""

    value: float
    se: float

    @property
    def low(self) -> float:
        """Lower end of the 99.9 % interval."""
        return self.value - Z * self.se

    @property
    def high(self) -> float:
        """Upper end of the 99.9 % interval."""
        return self.value + Z * self.se


def mean_over_rows(per_query: np.ndarray) -> Estimate:
    """Mean of (n, Q) numbers, n >= 2 rows as clusters."""
    per_row = per_query.mean(axis=1)
    return Estimate(float(per_row.mean()), float(per_row.std(ddof=1) / math.sqrt(len(per_row))))


def correlation(x: np.ndarray, y: np.ndarray, row: np.ndarray) -> Estimate:
    """Pearson correlation of (m,) pairs; 0 where x or y is constant.

    The error is that of its linearisation, x' y' - r (x'^2 + y'^2) / 2 summed within rows, where x'
    and y' are standardised.

    Args:
        x: (m,).
        y: (m,).
        row: (m,) which row each pair comes from.
    """
    if len(x) < 2 or x.std() == 0 or y.std() == 0:
        return Estimate(0.0, 0.0)
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    r = float((x * y).mean())
    influence = x * y - r * (x * x + y * y) / 2
    per_row = np.bincount(row, weights=influence)
    return Estimate(r, float(math.sqrt((per_row**2).sum()) / len(x)))


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """Pearson's test of counts against a law."""

    statistic: float
    n_bins: int
    p: float


def chi_square(
    observed: np.ndarray, probabilities: np.ndarray, least_expected: float = 20.0
) -> ChiSquare:
    """Test (n,) counts against (n,) probabilities; neighbours merge until each bin expects enough.

    Counts where the law gives nothing make p zero.
    """
    expected = probabilities * observed.sum()
    if observed[probabilities == 0].any():
        return ChiSquare(math.inf, len(observed), 0.0)
    bins = _bins(expected, least_expected)
    seen = np.bincount(bins, weights=observed)
    wanted = np.bincount(bins, weights=expected)
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    if len(wanted) < 2:
        return ChiSquare(statistic, len(wanted), 1.0)
    half_freedom = torch.tensor((len(wanted) - 1) / 2, dtype=torch.float64)
    half_statistic = torch.tensor(statistic / 2, dtype=torch.float64)
    p = float(torch.special.gammaincc(half_freedom, half_statistic))
    return ChiSquare(statistic, len(wanted), p)


def _bins(expected: np.ndarray, least: float) -> np.ndarray:
    """(n,) bin numbers of merged neighbours; what is left at the end joins the last full bin."""
    bins, current, total = np.empty(len(expected), dtype=np.int64), 0, 0.0
    for i, value in enumerate(expected):
        bins[i] = current
        total += value
        if total >= least:
            current, total = current + 1, 0.0
    if current > 0:
        bins[bins == current] = current - 1
    return bins


def quintile_shares(group: np.ndarray, value: np.ndarray, n_groups: int) -> np.ndarray:
    """(n_groups, 5) share of each group's values in each quintile of all values.

    Equal values that straddle the border of two quintiles count for both in proportion, so that
    every row is .2 throughout if values do not depend on the group. A group without values gets 0.

    Args:
        group: (m,) integers below n_groups.
        value: (m,).
        n_groups: number of groups.
    """
    _, inverse, count = np.unique(value, return_inverse=True, return_counts=True)
    upper = np.cumsum(count) / max(1, len(value))
    lower = upper - count / max(1, len(value))
    edges = np.arange(6) / 5
    overlap = np.minimum(upper[:, None], edges[1:]) - np.maximum(lower[:, None], edges[:-1])
    share = np.maximum(overlap, 0) / (upper - lower)[:, None]
    columns = [np.bincount(group, weights=part, minlength=n_groups) for part in share[inverse].T]
    table = np.stack(columns, axis=1)
    total = table.sum(axis=1, keepdims=True)
    return np.divide(table, total, out=np.zeros_like(table), where=total > 0)
