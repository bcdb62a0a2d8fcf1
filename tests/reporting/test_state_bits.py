"""Fano's bound is the known one, its inverse undoes it, an impossible state raises the alarm."""

import math
from itertools import pairwise

import pytest

from tests.reporting.frames import row
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.schema import to_frame
from zoology_bench.reporting.state_bits import (
    accuracy_bound,
    bits_per_answer,
    bound_curve,
    state_bits,
    state_markdown,
)


def summary_of(**changes):
    report = row(**{"vocab_size": 130, "n_kv_pairs": 4, "n_queries": 4, **changes})
    return summarise(to_frame([report, {**report, "split": "select"}]))


def test_bits_of_perfect_random_and_binary_answers():
    assert bits_per_answer(1.0, 64) == 6.0
    assert bits_per_answer(1 / 64, 64) == 0.0
    assert bits_per_answer(0.9, 2) == pytest.approx(1 - 0.4689956, abs=1e-6)


@pytest.mark.parametrize("n_values", [2, 63, 4096])
def test_the_bound_grows_with_accuracy_and_its_inverse_undoes_it(n_values):
    grid = [1 / n_values + (1 - 1 / n_values) * k / 50 for k in range(51)]
    bits = [bits_per_answer(a, n_values) for a in grid]
    assert all(a < b for a, b in pairwise(bits))
    for accuracy, held in zip(grid[1:-1], bits[1:-1], strict=True):
        assert accuracy_bound(8 * held, 8, n_values) == pytest.approx(accuracy, abs=1e-6)
    assert accuracy_bound(8 * math.log2(n_values), 8, n_values) == 1.0


def test_a_state_smaller_than_what_was_recalled_raises_the_alarm():
    # 3,990 of 4,000 right over 62 values: nearly 4 x 5.95 bits, more than 2 bytes hold.
    honest = summary_of(hits=3990.0, state_bytes=32768)
    impossible = summary_of(hits=3990.0, state_bytes=2)
    assert state_bits(honest).alarm.tolist() == [False]
    assert state_bits(impossible).alarm.tolist() == [True]
    assert 22 < state_bits(impossible).recalled_bits.iloc[0] < 4 * math.log2(62)
    assert "ALARM" in state_markdown(impossible) and "ALARM" not in state_markdown(honest)


def test_chance_is_no_recall_and_other_layouts_are_not_judged():
    assert state_bits(summary_of(hits=40.0, state_bytes=2)).recalled_bits.tolist() == [0.0]
    assert state_markdown(summary_of(layout="stream", state_bytes=2)) == ""
    assert state_markdown(summary_of(state_bytes=None)) == ""


def test_the_bound_curve_ends_where_a_state_holds_all_answers():
    size, best = bound_curve(130, 4)
    assert size[-1] == pytest.approx(4 * math.log2(62) / 8)
    assert best[-1] == pytest.approx(1.0) and best[0] < 0.2
    assert (best[1:] >= best[:-1]).all()
