import math

import numpy as np
import pytest

from zoology_bench.reporting.intervals import (
    effective_n,
    student_t_quantile,
    t_interval,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("df", "expected"),  # two-sided 95 %, from printed tables
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)],
)
def test_t_quantiles_equal_the_printed_tables(df, expected):
    assert student_t_quantile(df) == pytest.approx(expected, abs=5e-4)


def test_t_quantiles_equal_scipy():
    scipy_stats = pytest.importorskip("scipy.stats")
    for df in range(1, 40):
        expected = scipy_stats.t.ppf(0.975, df)
        assert student_t_quantile(df) == pytest.approx(expected, rel=1e-9)


def brute_force_wilson(p, n, z=1.959963984540054):
    """All shares q whose normal test at q does not reject p: what Wilson's formula solves."""
    grid = np.linspace(0, 1, 2_000_001)
    kept = grid[(p - grid) ** 2 <= z * z * grid * (1 - grid) / n]
    return kept.min(), kept.max()


@pytest.mark.parametrize("n", [1.0, 7.5, 1000.0])
@pytest.mark.parametrize("p", [0.0, 0.01, 0.3, 0.999, 1.0])
def test_wilson_equals_the_inverted_test(p, n):
    assert wilson_interval(p, n) == pytest.approx(brute_force_wilson(p, n), abs=2e-6)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_perfect_or_void_score_keeps_its_bound_and_an_uncertain_other_end(p):
    low, high = wilson_interval(p, 1000)
    assert p in (low, high)
    assert high - low == pytest.approx(1.96**2 / (1000 + 1.96**2), rel=1e-3)


def test_wilson_of_nothing_is_everything():
    assert wilson_interval(0.5, 0) == (0.0, 1.0)
    assert wilson_interval(0.3, math.inf) == (0.3, 0.3)


def test_effective_n_undoes_the_design_effect():
    """Four perfectly correlated queries a row are worth one: 1000 rows, not 4000 queries."""
    rng = np.random.default_rng(0)
    rows = (rng.random(1000) < 0.7).astype(float)
    p = rows.mean()
    se = rows.std(ddof=1) / math.sqrt(1000)
    assert effective_n(p, se, 4000, 1000) == pytest.approx(999, abs=0.5)


@pytest.mark.parametrize(
    ("p", "se", "counted", "expected"),
    [
        pytest.param(1.0, 0.0, True, 100.0, id="perfect: rows"),
        pytest.param(0.0, 0.0, True, 100.0, id="void: rows"),
        pytest.param(0.5, None, True, 100.0, id="unknown se: rows"),
        pytest.param(0.5, math.nan, True, 100.0, id="nan se: rows"),
        pytest.param(0.5, 0.001, True, 400.0, id="never more than the queries"),
        pytest.param(0.5, 0.0, True, 400.0, id="equal rows: the queries"),
        pytest.param(0.5, 0.0, False, math.inf, id="an exact expectation"),
        pytest.param(0.5, 0.001, False, 250_000.0, id="expected hits vary less"),
    ],
)
def test_effective_n_at_its_edges(p, se, counted, expected):
    assert effective_n(p, se, 400, 100, counted=counted) == pytest.approx(expected)


def test_t_interval_by_hand():
    # 0.90, 0.94, 0.98: mean 0.94, sd 0.04, t(2) = 4.303
    half = 4.302653 * 0.04 / math.sqrt(3)
    assert t_interval([0.5, 0.54, 0.58]) == pytest.approx((0.54 - half, 0.54 + half), abs=1e-6)
    assert t_interval([0.90, 0.94, 0.98]) == pytest.approx((0.94 - half, 1.0), abs=1e-6)
    assert all(math.isnan(bound) for bound in t_interval([0.9]))


def test_t_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for values in rng.normal(0.5, 0.05, (2000, 3)):
        low, high = t_interval(values.tolist())
        covered += low <= 0.5 <= high
    assert abs(covered / 2000 - 0.95) < 0.015
