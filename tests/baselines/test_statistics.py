import numpy as np
import pytest
from scipy import stats

from zoology_bench.baselines.statistics import (
    chi_square,
    correlation,
    mean_over_rows,
    quintile_shares,
)


def test_mean_over_rows_counts_a_row_of_copies_once():
    once = np.array([[0.0], [1.0], [1.0], [0.0]])
    copied = mean_over_rows(np.repeat(once, 50, axis=1))
    assert (copied.value, copied.se) == (mean_over_rows(once).value, mean_over_rows(once).se)


def test_correlation_is_pearsons_with_the_large_sample_error():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    y = 0.5 * x + rng.normal(size=4000)
    found = correlation(x, y, np.arange(4000))
    r = stats.pearsonr(x, y).statistic
    assert found.value == pytest.approx(r)
    assert found.se == pytest.approx((1 - r**2) / np.sqrt(4000), rel=0.1)


def test_correlation_error_widens_where_rows_repeat_themselves():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000))
    single = correlation(x, y, np.arange(1000))
    fourfold = correlation(np.tile(x, 4), np.tile(y, 4), np.tile(np.arange(1000), 4))
    assert fourfold.se == pytest.approx(single.se)


def test_correlation_of_a_constant_is_zero():
    assert correlation(np.ones(5), np.arange(5.0), np.arange(5)).value == 0.0


def test_chi_square_agrees_with_scipy():
    observed = np.array([30, 55, 41, 74])
    law = np.array([0.2, 0.25, 0.2, 0.35])
    expected = stats.chisquare(observed, law * 200)
    found = chi_square(observed, law)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue)


def test_chi_square_merges_thin_bins_and_keeps_the_tail():
    found = chi_square(np.array([30, 5, 15, 40, 9, 1]), np.array([0.3, 0.1, 0.1, 0.4, 0.09, 0.01]))
    assert found.n_bins == 3  # 30, 5 + 15, 40 + 9 + 1


def test_chi_square_of_an_impossible_count_is_zero():
    assert chi_square(np.array([50, 50, 1]), np.array([0.5, 0.5, 0.0])).p == 0.0


def test_quintile_shares_split_ties_in_proportion():
    group = np.array([0, 1] * 50)
    shares = quintile_shares(group, np.ones(100), 2)
    np.testing.assert_allclose(shares, 0.2)


def test_quintile_shares_show_a_dependence():
    value = np.arange(100)
    shares = quintile_shares((value >= 60).astype(int), value, 2)
    np.testing.assert_allclose(shares, [[1 / 3, 1 / 3, 1 / 3, 0, 0], [0, 0, 0, 0.5, 0.5]])
