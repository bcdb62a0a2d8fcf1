import math

import numpy as np
import pytest
from scipy import special, stats

from zoology_bench.reporting.gate_statistics import (
    MAX_PRIOR_DF,
    Sample,
    Spread,
    detectable,
    digamma,
    fit_prior,
    holm,
    p_value,
    row_variance,
    spreads,
    tolerance,
    trigamma,
    trigamma_inverse,
)


@pytest.mark.parametrize("x", [0.05, 0.5, 1.0, 2.5, 9.99, 10.0, 50.0])
def test_special_functions_are_scipys(x):
    assert digamma(x) == pytest.approx(special.digamma(x), rel=1e-11, abs=1e-11)
    assert trigamma(x) == pytest.approx(special.polygamma(1, x), rel=1e-10)
    assert trigamma_inverse(trigamma(x)) == pytest.approx(x, rel=1e-9)


@pytest.mark.parametrize("df", [1, 4, 8, 108, None])
@pytest.mark.parametrize("drop", [-0.03, 0.0, 0.002, 0.03])
def test_p_values_are_one_sided_students(df, drop):
    law = stats.norm() if df is None else stats.t(df)
    assert p_value(drop, Spread(se=0.01, df=df)) == pytest.approx(law.sf(drop / 0.01), abs=1e-12)


def test_a_drop_of_the_tolerance_has_a_p_value_of_the_level():
    for df in (3, 8, None):
        spread = Spread(se=0.01, df=df)
        assert p_value(tolerance(spread, 0.004), spread) == pytest.approx(0.004, rel=1e-6)


def test_a_detectable_drop_is_found_with_probability_point_eight():
    spread, rng = Spread(se=0.01, df=None), np.random.default_rng(0)
    found = detectable(spread, 0.01) + 0.01 * rng.normal(size=20_000) >= tolerance(spread, 0.01)
    assert found.mean() == pytest.approx(0.8, abs=0.01)


def test_holm_multiplies_the_smallest_most_and_keeps_the_order():
    assert holm([0.04, 0.01, 0.5]) == [0.08, 0.03, 0.5]
    assert holm([0.02, 0.021]) == [0.04, 0.04]
    assert holm([]) == []


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_perfect_score_still_has_a_row_variance(value):
    assert 0 < row_variance(value, 0.0, 4000, 1000) < 1e-5


def test_row_variance_is_the_clustered_one_in_between():
    assert row_variance(0.9, 0.01, 4000, 1000) == pytest.approx(1e-4, rel=0.01)


def sample(rng, sd, n=5, row=1e-4):
    baseline, candidate = (0.5 + sd * rng.normal(size=(2, n))).tolist()
    return Sample(baseline=baseline, candidate=candidate, row_variance=row)


def test_cells_alike_lend_each_other_degrees_of_freedom_and_others_do_not():
    rng = np.random.default_rng(0)
    alike = fit_prior([sample(rng, 0.02) for _ in range(40)])
    assert alike.ratio == pytest.approx(4.0, rel=0.2)
    assert alike.df > 30
    apart = fit_prior([sample(rng, 0.001 * 2**i) for i in range(12)])
    assert apart.df < 4
    assert alike.df <= MAX_PRIOR_DF


def test_an_unstable_cell_is_judged_by_its_own_spread():
    rng = np.random.default_rng(0)
    wild = Sample(baseline=[0.9, 0.9, 0.3], candidate=[0.9, 0.2, 0.9], row_variance=1e-4)
    got = spreads([sample(rng, 0.01) for _ in range(30)] + [wild])[-1]
    assert got.df == wild.df
    assert got.se == pytest.approx(math.sqrt(wild.seed_variance * 2 / 3))


def test_seeds_that_agree_by_chance_leave_the_row_counts():
    agreeing = Sample(baseline=[0.9, 0.9], candidate=[0.9, 0.9], row_variance=1e-4)
    (got,) = spreads([agreeing])
    assert got.se == pytest.approx(0.01)
    single = Sample(baseline=[0.9], candidate=[0.9], row_variance=1e-4)
    assert spreads([single]) == [Spread(se=pytest.approx(math.sqrt(2e-4)), df=None)]
