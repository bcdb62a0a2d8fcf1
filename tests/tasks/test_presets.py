"""Shipped presets: rows pinned by hash, splits apart, distance free of the key's index."""

import json
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
import torch

from tests.helpers import MIN_P, holm, joint_p_value
from tests.tasks.presets import GOLDEN_HASHES, preset, preset_names
from tests.tasks.test_laws import MAX_CORRELATION, correlation
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.base import Task
from zoology_bench.tasks.distance import LawTable

N_TRAIN = 100_000
N_HELD_OUT = 3_000
N_QUERIES = 1_000_000
FEW_TOKENS = 1 << 18
"""Train tokens of the check that is short enough for every preset."""


@pytest.mark.parametrize("name", preset_names())
def test_rows_of_a_preset_never_change(name):
    assert preset(name).data_hash() == json.loads(GOLDEN_HASHES.read_text())[name]


def test_every_hash_belongs_to_a_preset():
    assert sorted(json.loads(GOLDEN_HASHES.read_text())) == preset_names()


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_select_and_report_rows_are_not_trained_on(name):
    check_splits_apart(preset(name), N_TRAIN, N_HELD_OUT)


@pytest.mark.parametrize("name", preset_names())
def test_no_row_is_shared_by_the_first_rows_of_each_split(name):
    task = preset(name)
    n_train = FEW_TOKENS // task.seq_len
    check_splits_apart(task, n_train, n_train // 4)


def test_held_out_rows_among_the_train_rows_would_be_found(monkeypatch):
    task, rows = preset("mqar_small_32_4"), MQAR.rows

    def mixed_up(self, split, *where):
        return rows(self, "train" if split == "report" else split, *where)

    monkeypatch.setattr(MQAR, "rows", mixed_up)
    with pytest.raises(AssertionError):
        check_splits_apart(task, 1000, 200)


def check_splits_apart(task: Task, n_train: int, n_held_out: int) -> None:
    factors = np.random.default_rng(0).integers(1, 1 << 62, task.seq_len) * 2 + 1

    def fingerprints(split: str, seed: int, n: int) -> np.ndarray:
        blocks = [
            task.rows(split, seed, i, min(i + 4000, n)).inputs.numpy() @ factors
            for i in range(0, n, 4000)
        ]
        return np.concatenate(blocks)

    train = fingerprints("train", 0, n_train)
    for split in ("select", "report"):
        held_out = fingerprints(split, task.data_seed, n_held_out)
        assert not np.isin(held_out, train).any()
        assert len(np.unique(held_out)) == n_held_out


def varies_in_prefix(task: MQAR) -> bool:
    """One distance alone correlates with nothing."""
    distances = task.public_layout()
    return task.layout == "prefix" and distances.min_distance < distances.max_distance


@pytest.mark.parametrize(
    "n_queries",
    [60_000, pytest.param(N_QUERIES, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
@pytest.mark.parametrize("name", [n for n in preset_names() if varies_in_prefix(preset(n))])
def test_distance_and_key_index_hardly_correlate(name, n_queries):
    assert abs(correlation(preset(name), n_queries)) < MAX_CORRELATION


def test_the_probe_preset_asks_at_independent_distances_bindings_and_keys():
    """Pair by pair, from the rows: the key's index counts the key tokens before it."""
    task = preset("mqar_probe")
    distance, binding, query, index = (
        np.concatenate(parts) for parts in zip(*_probe_columns(task, 50_000), strict=True)
    )
    layout = task.placement
    columns = {
        "distance": (distance, layout.distances),
        "binding": (binding, layout.binding_distances),
        "query": (query, uniform_on(np.unique(query))),
        "index": (index, uniform_on(np.arange(task.n_kv_pairs))),
    }
    assert np.array_equal(np.unique(query), np.arange(128 + 2 * 15, 256))
    p_values = {
        f"{a}, {b}": joint_p_value([columns[a][0], columns[b][0]], [columns[a][1], columns[b][1]])
        for a, b in combinations(columns, 2)
        if {a, b} != {"binding", "index"}  # one is P - 1 less the other
    }
    assert min(holm(p_values).values()) > MIN_P, p_values


def _probe_columns(task: MQAR, n_rows: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Distance, binding distance, query position and key index of report rows, in blocks."""
    cell = torch.arange(task.seq_len)
    for start in range(0, n_rows, 5_000):
        batch = task.rows("report", task.data_seed, start, start + 5_000)
        is_key = (batch.inputs >= task.vocabulary.keys.start) & (
            batch.inputs < task.vocabulary.keys.stop
        )
        index = (is_key & (cell < batch.key_pos)).sum(1, keepdim=True)
        columns = (batch.distance, batch.binding_distance, batch.query_pos, index)
        yield tuple(column[:, 0].numpy() for column in columns)


def uniform_on(values: np.ndarray) -> LawTable:
    return LawTable(values, [1] * len(values))
