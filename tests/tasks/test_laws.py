"""Realised laws of the official and prefix layouts, and what independence remains in prefix."""

from itertools import permutations

import numpy as np
import pytest
import torch

from tests.helpers import MIN_P, N_DRAWS, chi_square_p, count_tuples, holm, law_p_value
from zoology_bench.data.random import bounded, lanes32, row_keys
from zoology_bench.tasks.distance import (
    DistanceLaw,
    Empirical,
    Fixed,
    LawTable,
    LogUniform,
    PowerLaw,
    Uniform,
)
from zoology_bench.tasks.layouts.slot_law import slot_law
from zoology_bench.tasks.mqar import MQAR

MAX_CORRELATION = 0.02


def prefix(seq_len: int, n_kv_pairs: int, distance: DistanceLaw | None = None, **more) -> MQAR:
    return MQAR(seq_len=seq_len, n_kv_pairs=n_kv_pairs, distance=distance, **more)


def realised(task: MQAR, n_draws: int = N_DRAWS) -> np.ndarray:
    return task.rows("train", 0, 0, n_draws // task.queries_per_row).distance.numpy()


def test_prefix_distances_follow_their_law(tmp_path):
    histogram = tmp_path / "histogram.csv"
    histogram.write_text("distance,count\n16,5\n17,1\n20,9\n31,3\n")
    tasks = {
        "uniform": prefix(256, 32),
        "log_uniform": prefix(256, 16, LogUniform(lo=32, hi=224)),
        "power_law": prefix(128, 8, PowerLaw(lo=16, hi=113, alpha=2.5)),
        "fixed": prefix(64, 4, Fixed(values=[8, 15, 40])),
        "empirical": prefix(64, 8, Empirical(path=str(histogram))),
        "crowded": prefix(80, 16, Uniform(lo=32, hi=49)),
        "re-bound": prefix(128, 16, rebind_rate=0.25),
    }
    p_values = {
        name: law_p_value(realised(task), task.placement.distances) for name, task in tasks.items()
    }
    assert min(holm(p_values).values()) > MIN_P, p_values


def test_a_generator_that_redraws_on_collision_fails_the_same_test():
    law = Uniform(lo=64, hi=193).table(np.arange(64, 194))
    assert law_p_value(_redrawing_prefix(law, n_pairs=32, seq_len=256), law) < 1e-6


def _redrawing_prefix(law: LawTable, n_pairs: int, seq_len: int) -> np.ndarray:
    """(rows, P) distances of a generator that draws again where a query is in the way."""
    n_rows = N_DRAWS // n_pairs
    keys = row_keys("mutant", "train", 0, torch.arange(n_rows))
    taken = torch.zeros(n_rows, seq_len, dtype=torch.bool)
    distances = torch.empty(n_rows, n_pairs, dtype=torch.int64)
    for pair in range(n_pairs):
        rows, attempt = torch.arange(n_rows), 0
        while rows.numel():
            drawn = law.sample(lanes32(keys[rows], pair, 1, attempt))[:, 0]
            free = ~taken[rows, 2 * pair + drawn]
            distances[rows[free], pair] = drawn[free]
            taken[rows[free], 2 * pair + drawn[free]] = True
            rows, attempt = rows[~free], attempt + 1
    return distances.numpy()


def test_official_slots_follow_the_published_law_in_drawing_order():
    p_values = {}
    for power_a in (0.01, 1.0, 2.5):
        task = MQAR(layout="official", seq_len=16, n_kv_pairs=3, vocab_size=16, power_a=power_a)
        slots = (task.rows("train", 0, 0, N_DRAWS).query_pos.numpy() - 6) // 2
        orders = list(permutations(range(5), 3))
        weight = np.arange(1.0, 6) ** (power_a - 1)
        law = [_order_probability(order, weight) for order in orders]
        p_values[f"a={power_a}"] = chi_square_p(
            count_tuples(slots, orders), np.array(law) * N_DRAWS
        )
    assert min(holm(p_values).values()) > MIN_P, p_values


def _order_probability(order: tuple[int, ...], weight: np.ndarray) -> float:
    left, probability = weight.sum(), 1.0
    for slot in order:
        probability *= weight[slot] / left
        left -= weight[slot]
    return probability


def test_official_law_at_a_published_cell():
    """At (64, 4), pair by pair, against exact probabilities of each pair's slot."""
    task = MQAR(layout="official", seq_len=64, n_kv_pairs=4)
    batch = task.rows("train", 0, 0, N_DRAWS // 4)
    slots = (batch.query_pos.numpy() - 8) // 2
    p_values = {
        f"pair {i}": chi_square_p(np.bincount(slots[:, i], minlength=28), law * len(slots))
        for i, law in enumerate(slot_law(28, 4, 0.99))
    }
    assert min(holm(p_values).values()) > MIN_P, p_values


def test_official_distance_law_mixes_the_pairs():
    task = MQAR(layout="official", seq_len=64, n_kv_pairs=4, n_queries=2)
    law = task.placement.distances
    distances = realised(task, 60_000)
    observed = np.bincount(distances.ravel(), minlength=64)[law.support]
    assert observed.sum() == distances.size
    assert np.abs(observed / distances.size - law.probabilities).max() < 0.005


def test_official_orders_of_slots_are_not_symmetric():
    """The near slot comes first more often: a generator that sorts or shuffles slots would fail."""
    task = MQAR(layout="official", seq_len=16, n_kv_pairs=3, vocab_size=16)
    slots = (task.rows("train", 0, 0, 50_000).query_pos.numpy() - 6) // 2
    shuffled = np.random.default_rng(0).permuted(slots, axis=1)
    orders = list(permutations(range(5), 3))
    weight = np.arange(1.0, 6) ** -0.99
    expected = np.array([_order_probability(order, weight) for order in orders]) * len(slots)
    assert chi_square_p(count_tuples(slots, orders), expected) > MIN_P
    for mutant in (shuffled, np.sort(slots, axis=1)):
        assert chi_square_p(count_tuples(mutant, orders), expected) < 1e-6


@pytest.mark.parametrize(
    "task",
    [
        prefix(32, 4),
        prefix(64, 4),
        prefix(80, 16),
        prefix(256, 16, LogUniform(lo=32, hi=224)),
        prefix(256, 32),
        prefix(128, 16, rebind_rate=0.25, absent_rate=0.17),
    ],
    ids=["32-4", "64-4", "80-16", "256-16-log", "256-32", "128-16-rebind"],
)
def test_distance_and_key_index_hardly_correlate_in_prefix(task):
    assert abs(correlation(task, 200_000)) < MAX_CORRELATION


def test_exchanges_that_are_not_repaid_would_fail_at_80_16(monkeypatch):
    task = prefix(80, 16)
    monkeypatch.setattr(task.placement, "max_repayments", 0)
    assert correlation(task, 200_000) > 2 * MAX_CORRELATION


def test_sorted_distances_would_fail_the_correlation_test(monkeypatch):
    task = prefix(64, 4)
    monkeypatch.setattr(task.placement, "max_exchanges", 0)
    monkeypatch.setattr(task.placement, "max_repayments", 0)
    assert correlation(task, 200_000) > MAX_CORRELATION


def test_distance_and_key_index_are_exactly_independent_for_fixed_sets():
    task = prefix(64, 4, Fixed(values=[8, 15, 40]))
    batch = task.rows("train", 0, 0, N_DRAWS // 4)
    p_values = {
        f"pair {i}": law_p_value(batch.distance[:, i].numpy(), task.placement.distances)
        for i in range(4)
    }
    assert min(holm(p_values).values()) > MIN_P, p_values


def correlation(task: MQAR, n_queries: int) -> float:
    """Of distance and key index over present queries, in blocks of bounded memory."""
    n_rows = n_queries // task.queries_per_row
    pairs = []
    for start in range(0, n_rows, 20_000):
        batch = task.rows("train", 0, start, min(start + 20_000, n_rows))
        present = batch.key_pos >= 0
        pairs.append(torch.stack([batch.distance[present], batch.key_pos[present]]))
    return float(np.corrcoef(torch.cat(pairs, 1).numpy())[0, 1])


def test_bounded_draws_choose_re_bound_keys_uniformly():
    """Each re-binding pair takes each distinct key before it equally often."""
    task = prefix(64, 4, rebind_rate=0.25, n_queries=1)
    written = task.rows("train", 0, 0, 30_000).inputs[:, 0:8:2]
    last_is_new = (written[:, 3:] != written[:, :3]).all(1)
    parents = (written[:, 3:] == written[:, :3])[~last_is_new].long().argmax(1)
    observed = torch.bincount(parents, minlength=3).numpy()
    assert chi_square_p(observed, np.full(3, len(parents) / 3)) > MIN_P
    assert bounded(torch.tensor([-1], dtype=torch.int32), 3).item() == 2
