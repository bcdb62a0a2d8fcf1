"""Confidence intervals for accuracies: within one seed from rows, across seeds from runs."""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist, fmean, stdev

LEVEL = 0.95
"""Two-sided confidence of every interval printed or drawn."""

Interval = tuple[float, float]


def effective_n(p: float, se: float | None, n: int, n_rows: int, *, counted: bool = True) -> float:
    """Independent queries that would give ``p`` the standard error ``se``: p (1 - p) / se^2.

    At p = 0 or 1 the standard error is 0 and says nothing; the rows are counted then, which is
    right at the strongest correlation that queries of one row can have.

    Args:
        p: the accuracy.
        se: its row-clustered standard error; None or nan where unknown.
        n: queries.
        n_rows: rows they come from.
        counted: False for expected hits, which may vary less than 0/1 outcomes; outcomes are never
            credited with more than n independent queries.
    """
    if se is None or math.isnan(se) or p <= 0 or p >= 1:
        return float(n_rows)
    if se == 0:
        return float(n) if counted else math.inf
    size = p * (1 - p) / se**2
    return min(size, float(n)) if counted else size


def wilson_interval(p: float, n: float, level: float = LEVEL) -> Interval:
    """Wilson score interval of a share ``p`` of ``n`` (real-valued) independent trials.

    Wilson, JASA 22 (1927). n = inf gives the point, n = 0 gives (0, 1).
    """
    if n <= 0:
        return 0.0, 1.0
    if math.isinf(n):
        return p, p
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    center = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # The exact bounds at the edges, free of rounding.
    low = 0.0 if p <= 0 else max(0.0, center - half)
    high = 1.0 if p >= 1 else min(1.0, center + half)
    return low, high


def student_t_cdf_two_sided(t: float, df: int) -> float:
    """P(|T| < t) for Student's T with integer ``df``.

    Finite sums 26.7.3 (odd) and 26.7.4 (even) of Abramowitz and Stegun.
    """
    theta = math.atan(t / math.sqrt(df))
    cos2 = math.cos(theta) ** 2
    odd = df % 2 == 1
    term = math.cos(theta) if odd else 1.0
    total = 0.0
    for k in range(2 + odd, df + 1, 2):  # the terms are cos^(k - 2) with their coefficients
        total += term
        term *= cos2 * (k - 1) / k
    if odd:
        return 2 / math.pi * (theta + math.sin(theta) * total)
    return math.sin(theta) * total


@lru_cache
def student_t_quantile(df: int, level: float = LEVEL) -> float:
    """t such that P(|T| < t) = level for Student's T with integer ``df`` >= 1."""
    low, high = 0.0, 1.0
    while student_t_cdf_two_sided(high, df) < level:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if student_t_cdf_two_sided(middle, df) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Student's t interval of the mean over seeds, cut to [0, 1]; (nan, nan) for one value."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    half = student_t_quantile(n - 1, level) * stdev(values) / math.sqrt(n)
    mean = fmean(values)
    return max(0.0, mean - half), min(1.0, mean + half)
