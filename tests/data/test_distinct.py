"""Lists without replacement are exact: every ordered tuple equally likely, in each regime."""

from itertools import permutations

import numpy as np
import pytest
import torch

from tests.helpers import chi_square_p, count_tuples, holm
from zoology_bench.data.distinct import Distinct
from zoology_bench.data.random import row_keys

N_LISTS = 200_000
CASES = [(1, 3), (2, 4), (3, 5), (4, 4), (2, 9), (3, 6)]


def keys(n: int) -> torch.Tensor:
    return row_keys("distinct", "train", 0, torch.arange(n))


def tuple_p_value(lists: torch.Tensor, k: int, m: int) -> float:
    tuples = list(permutations(range(m), k))
    observed = count_tuples(lists.numpy(), tuples)
    return chi_square_p(observed, np.full(len(tuples), len(lists) / len(tuples)))


def test_every_ordered_tuple_is_equally_likely():
    p_values = {
        f"{k} of {m}": tuple_p_value(Distinct(k, m, 7)(keys(N_LISTS)), k, m) for k, m in CASES
    }
    assert min(holm(p_values).values()) > 1e-3, p_values


def test_a_sampler_that_sorts_its_lists_fails_the_same_test():
    lists = Distinct(3, 5, 7)(keys(N_LISTS)).sort(1).values
    assert tuple_p_value(lists, 3, 5) < 1e-6


@pytest.mark.parametrize(
    ("k", "m"),
    [(4, 4095), (64, 4095), (256, 4095), (40, 50), (256, 256), (9, 32_768), (5, 70_000)],
    ids=lambda v: str(v),
)
def test_lists_hold_distinct_values_in_range(k, m):
    lists = Distinct(k, m, 7)(keys(200)).long().sort(1).values
    assert lists.shape == (200, k)
    assert lists.min() >= 0 and lists.max() < m
    assert (lists[:, 1:] > lists[:, :-1]).all()


@pytest.mark.parametrize(("k", "m"), [(4, 4095), (40, 50)], ids=["whole-lists", "first-k"])
def test_a_list_depends_on_its_row_alone(k, m):
    sampler, rows = Distinct(k, m, 7), keys(3000)
    assert torch.equal(sampler(rows)[2000:2003], sampler(rows[2000:2003]))


def test_lists_that_run_out_of_draws_continue_the_same_draws():
    """With too few draws per attempt the fallback decides most lists, and stays exact."""
    starved = Distinct(3, 4, 7)
    assert not starved._whole_lists
    starved._n_draws, starved._pos_bits = 4, 2
    lists = starved(keys(4000))
    assert lists[:200].tolist() == [starved._keep_drawing(key[None]) for key in keys(200)]
    assert tuple_p_value(lists, 3, 4) > 1e-3
