import numpy as np
import pytest

from tests.baselines import oracles
from zoology_bench.baselines.asked import asked_law

CASES = [(3, 0, 3), (4, 0, 2), (4, 1, 3), (4, 1, 2), (4, 3, 1), (5, 2, 2), (5, 2, 3)]


@pytest.mark.parametrize(("n_pairs", "n_rebound", "n_queries"), CASES)
def test_asked_law_equals_enumeration(n_pairs, n_rebound, n_queries):
    law = asked_law(n_pairs, n_rebound, n_queries)
    np.testing.assert_allclose(law, oracles.asked_law(n_pairs, n_rebound, n_queries), atol=1e-12)


def test_every_pair_is_asked_equally_often_without_rebinding():
    np.testing.assert_allclose(asked_law(8, 0, 3).mean(axis=0), 1 / 8)


def test_early_pairs_are_asked_less_once_keys_rebind():
    shares = asked_law(8, 3, 5).mean(axis=0)
    assert np.all(np.diff(shares) > 0)
