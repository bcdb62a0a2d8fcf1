"""How large a drop of a mean over seeds is by chance: variances, p-values, detectable drops.

All seeds of a cell are scored on the same rows, before and after. What differs by chance is the
training, seen as the variance across seeds; with few seeds that is a poor estimate, so cells lend
each other strength (Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004), article 3): each variance, in
units of what its row counts alone would give, is drawn towards the value that is common to all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from zoology_bench.reporting.intervals import (
    effective_n,
    student_t_cdf_two_sided,
    student_t_quantile,
)

POWER = 0.8
"""Probability with which a drop of the detectable size is found."""
MAX_PRIOR_DF = 100
"""Degrees of freedom that other cells can lend; more would change no quantile by 2 %."""
OUTLIER = 3.0
"""A variance this many times the common one is not drawn towards it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The seeds of one cell in baseline and candidate."""

    baseline: Sequence[float]
    """Accuracy of each seed."""
    candidate: Sequence[float]
    row_variance: float
    """Variance of one seed's accuracy that the row counts alone would give."""

    @property
    def df(self) -> int:
        """Degrees of freedom of the variance across seeds; 0 for one seed on either side."""
        return len(self.baseline) + len(self.candidate) - 2

    @property
    def seed_variance(self) -> float:
        """Variance across seeds, pooled over both sides; nan without degrees of freedom."""
        if self.df == 0:
            return math.nan
        sides = [values for values in (self.baseline, self.candidate) if len(values) > 1]
        return sum(variance(values) * (len(values) - 1) for values in sides) / self.df

    @property
    def drop(self) -> float:
        """How much lower the candidate's mean is; negative where it is higher."""
        return fmean(self.baseline) - fmean(self.candidate)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Standard error of a drop with its degrees of freedom (None: as good as known)."""

    se: float
    df: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """What the variances of all cells say about one: common ratio and how firmly."""

    ratio: float
    df: int


def row_variance(value: float, se: float | None, n: int, n_rows: int) -> float:
    """Variance of one seed's accuracy from its row counts, positive also at 0 and 1.

    The standard error's independent queries, at the accuracy that Laplace's rule of succession
    gives: a cell that was solved in 1,000 rows is not known to be solved in all.
    """
    size = effective_n(value, se, n, n_rows)
    share = (value * size + 1) / (size + 2)
    return share * (1 - share) / size


def spreads(samples: Sequence[Sample]) -> list[Spread]:
    """The standard error of each cell's drop."""
    prior = fit_prior(samples)
    return [_spread(sample, prior) for sample in samples]


def _spread(sample: Sample, prior: Prior) -> Spread:
    ratio, df = prior.ratio, prior.df
    if sample.df:
        own = sample.seed_variance / sample.row_variance
        if prior.df and own <= OUTLIER * prior.ratio:
            df = prior.df + sample.df
            ratio = (prior.df * prior.ratio + sample.df * own) / df
        else:
            ratio, df = own, sample.df
    # Seeds that agree by chance are no evidence of a variance below that of counting rows.
    per_seed = max(1.0, ratio) * sample.row_variance
    counts = 1 / len(sample.baseline) + 1 / len(sample.candidate)
    return Spread(se=math.sqrt(per_seed * counts), df=df or None)


def fit_prior(samples: Sequence[Sample]) -> Prior:
    """Common ratio of seed to row variance and the degrees of freedom it is worth, by moments.

    Smyth (2004), section 6.2, on the logarithms. Cells without two seeds or without any spread say
    nothing; fewer than three that do lend nothing.
    """
    known = [s for s in samples if s.df and s.seed_variance > 0]
    if len(known) < 3:
        return Prior(ratio=1.0, df=0)
    logs = [
        math.log(s.seed_variance / s.row_variance) - digamma(s.df / 2) + math.log(s.df / 2)
        for s in known
    ]
    excess = variance(logs) - fmean(trigamma(s.df / 2) for s in known)
    half = trigamma_inverse(excess) if excess > 0 else math.inf
    if half < 0.5:
        return Prior(ratio=1.0, df=0)
    shift = 0.0 if math.isinf(half) else digamma(half) - math.log(half)
    df = MAX_PRIOR_DF if math.isinf(half) else min(MAX_PRIOR_DF, math.floor(2 * half))
    return Prior(ratio=math.exp(fmean(logs) + shift), df=df)


def p_value(drop: float, spread: Spread) -> float:
    """Probability of a drop at least this large where nothing changed, one-sided."""
    t = drop / spread.se
    if spread.df is None:
        return 1 - NormalDist().cdf(t)
    tail = (1 - student_t_cdf_two_sided(abs(t), spread.df)) / 2
    return tail if t > 0 else 1 - tail


def tolerance(spread: Spread, level: float) -> float:
    """The smallest observed drop with a p-value of ``level``."""
    return _quantile(1 - level, spread.df) * spread.se


def detectable(spread: Spread, level: float) -> float:
    """The true drop that is found at ``level`` with probability ``POWER``."""
    return tolerance(spread, level) + _quantile(POWER, spread.df) * spread.se


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: rejecting those <= level errs anywhere with probability <= level.

    Holm, Scand. J. Stat. 6 (1979).
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, running = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def _quantile(p: float, df: int | None) -> float:
    """Quantile above the median, one-sided."""
    return NormalDist().inv_cdf(p) if df is None else student_t_quantile(df, 2 * p - 1)


def digamma(x: float) -> float:
    """Derivative of log gamma for x > 0: recurrence 6.3.5 and series 6.3.18 of Abramowitz-Stegun.

    Accurate to 1e-12.
    """
    shift = 0.0
    while x < 10:
        shift -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return shift + math.log(x) - 0.5 / x - series


def trigamma(x: float) -> float:
    """Derivative of ``digamma`` for x > 0: 6.4.6 and 6.4.12 of Abramowitz and Stegun."""
    shift = 0.0
    while x < 10:
        shift += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    series = 1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * 5 / 66)))
    return shift + 1 / x + y / 2 + y / x * series


def trigamma_inverse(value: float) -> float:
    """x > 0 with trigamma(x) = value > 0, by bisection: trigamma falls."""
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > value else (low, middle)
    return math.sqrt(low * high)
