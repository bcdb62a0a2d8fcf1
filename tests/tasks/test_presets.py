"""Shipped presets: rows pinned by hash, splits apart, distance free of the key's index."""

import json

import numpy as np
import pytest

from tests.tasks.presets import GOLDEN_HASHES, preset, preset_names
from tests.tasks.test_laws import MAX_CORRELATION, correlation

N_TRAIN = 100_000
N_HELD_OUT = 3_000
N_QUERIES = 1_000_000


@pytest.mark.parametrize("name", preset_names())
def test_rows_of_a_preset_never_change(name):
    assert preset(name).data_hash() == json.loads(GOLDEN_HASHES.read_text())[name]


def test_every_hash_belongs_to_a_preset():
    assert sorted(json.loads(GOLDEN_HASHES.read_text())) == preset_names()


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_select_and_report_rows_are_not_trained_on(name):
    task = preset(name)
    factors = np.random.default_rng(0).integers(1, 1 << 62, task.seq_len) * 2 + 1

    def fingerprints(split: str, seed: int, n: int) -> np.ndarray:
        blocks = [
            task.rows(split, seed, i, min(i + 4000, n)).inputs.numpy() @ factors
            for i in range(0, n, 4000)
        ]
        return np.concatenate(blocks)

    train = fingerprints("train", 0, N_TRAIN)
    for split in ("select", "report"):
        held_out = fingerprints(split, task.data_seed, N_HELD_OUT)
        assert not np.isin(held_out, train).any()
        assert len(np.unique(held_out)) == N_HELD_OUT


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in preset_names() if preset(n).layout == "prefix"])
def test_distance_and_key_index_hardly_correlate(name):
    assert abs(correlation(preset(name), N_QUERIES)) < MAX_CORRELATION
