"""Weighted drawing without replacement: the exact law in drawing order, and machine-free tables."""

import hashlib
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import torch

from tests.helpers import chi_square_p, count_tuples, holm
from zoology_bench.data.logarithm import (
    LOG2_BITS,
    NEG_LOG_BITS,
    log2_fixed,
    neg_log_survival,
)
from zoology_bench.data.race import Race, _log2_exponential
from zoology_bench.data.random import row_keys

N_ROWS = 200_000
CASES = [(5, 3, "0.99"), (4, 4, "0.99"), (6, 2, "2"), (5, 2, "-1"), (4, 3, "0")]


def keys(n: int) -> torch.Tensor:
    return row_keys("race", "train", 0, torch.arange(n))


def order_law(n: int, k: int, exponent: float) -> dict[tuple[int, ...], float]:
    """Probability of each ordered outcome, multiplied out draw by draw."""
    weight = np.arange(1.0, n + 1) ** -exponent
    law = {}
    for order in permutations(range(n), k):
        left, probability = weight.sum(), 1.0
        for item in order:
            probability *= weight[item] / left
            left -= weight[item]
        law[order] = probability
    return law


def order_p_value(drawn: torch.Tensor, law: dict[tuple[int, ...], float]) -> float:
    observed = count_tuples(drawn.numpy(), list(law))
    return chi_square_p(observed, np.array(list(law.values())) * len(drawn))


def test_outcomes_follow_the_exact_law_in_drawing_order():
    p_values = {}
    for n, k, exponent in CASES:
        drawn = Race(n, k, Fraction(exponent), 3)(keys(N_ROWS))
        p_values[f"{k} of {n}, {exponent}"] = order_p_value(drawn, order_law(n, k, float(exponent)))
    assert min(holm(p_values).values()) > 1e-3, p_values


def test_a_race_read_backwards_fails_the_same_test():
    drawn = Race(5, 3, Fraction("0.99"), 3)(keys(N_ROWS)).flip(1)
    assert order_p_value(drawn, order_law(5, 3, 0.99)) < 1e-6


@pytest.mark.parametrize(
    ("n", "n_rows"),
    [(28, N_ROWS), (1024, 10_000), (5000, 3000)],
    ids=["int32", "int32-coarse", "int64"],
)
def test_first_drawn_follows_the_weights(n, n_rows):
    drawn = Race(n, 2, Fraction("0.99"), 3)(keys(n_rows))
    weight = np.arange(1.0, n + 1) ** -0.99
    observed = np.bincount(drawn[:, 0].numpy(), minlength=n)
    assert chi_square_p(observed, weight / weight.sum() * n_rows) > 1e-3
    assert (drawn[:, 0] != drawn[:, 1]).all()


def test_logarithms_agree_with_the_math_library():
    x = np.array([1, 2, 3, 7, 1000, 2**31 - 1, 2**40 + 12_345, 2**62 + 1], dtype=np.int64)
    assert np.abs(log2_fixed(x) / 2**LOG2_BITS - np.log2(x)).max() < 2**-27
    i = np.arange(1, 1 << 16)
    relative = neg_log_survival(16)[1:] / 2.0**NEG_LOG_BITS / -np.log1p(-i / 2.0**16) - 1
    assert np.abs(relative).max() < 1e-11


def test_tables_are_the_same_on_every_machine():
    """They are built in integers; another hash means other rows, so raise BIT_STREAM_VERSION."""
    table = _log2_exponential().astype("<i8").tobytes()
    assert hashlib.sha256(table).hexdigest() == (
        "0fa1fbfbd2b2ba0da2e16f7912166631c6819ae8efc1998525770c8005a24fc1"
    )
