"""Known answers for the counter-based bits, and equality of the NumPy and the torch path."""

import numpy as np
import pytest
import torch

from zoology_bench.data import random
from zoology_bench.data.random import (
    bounded,
    column_keys,
    draws,
    lanes16,
    lanes32,
    mix,
    mix_torch,
    row_keys,
    sort_rows,
)

GOLDEN = 0x9E3779B97F4A7C15
# First outputs of splitmix64 seeded with 0, as published with the algorithm.
SPLITMIX64 = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]


def as_int64(words: list[int]) -> torch.Tensor:
    return torch.from_numpy(np.array(words, dtype=np.uint64).view(np.int64))


@pytest.mark.parametrize("mixer", [mix, mix_torch], ids=["numpy", "torch"])
def test_mix_is_the_finaliser_of_splitmix64(mixer):
    counter = as_int64([(i + 1) * GOLDEN % 2**64 for i in range(4)])
    assert torch.equal(mixer(counter), as_int64(SPLITMIX64))


def test_int64_multiplication_wraps_around():
    product = torch.tensor([0x7FFFFFFFFFFFFFFF, -3]) * 0x1E3779B97F4A7C15
    expected = [v * 0x1E3779B97F4A7C15 % 2**64 for v in (0x7FFFFFFFFFFFFFFF, -3)]
    assert torch.equal(product, as_int64(expected))


def test_mix_does_not_depend_on_how_many_words_are_mixed():
    words = torch.arange(100_000)
    assert torch.equal(mix(words.clone())[70_000:70_010], mix(words[70_000:70_010].clone()))


def test_numpy_and_torch_paths_give_the_same_bits(monkeypatch):
    def sample():
        keys = row_keys("tag", "train", 5, torch.arange(300))
        return draws(keys, 3, 33, attempt=2), sort_rows(lanes32(keys, 4, 65)), lanes16(keys, 5, 7)

    with_numpy = sample()
    monkeypatch.setattr(random, "_NUMPY_ON_CPU", False)
    column_keys.cache_clear()
    assert all(torch.equal(a, b) for a, b in zip(with_numpy, sample(), strict=True))


def test_row_keys_differ_between_rows_splits_seeds_and_tags():
    rows = torch.arange(1000)
    keys = [
        row_keys(tag, split, seed, rows)
        for tag in ("a", "b")
        for split in ("train", "select", "report")
        for seed in (0, 1)
    ]
    assert torch.unique(torch.cat(keys)).numel() == 12_000


def test_a_draw_depends_on_its_row_stream_attempt_and_column_alone():
    keys = row_keys("tag", "train", 0, torch.arange(50))
    many, few = draws(keys, 7, 20, attempt=1), draws(keys[10:12], 7, 3, attempt=1)
    assert torch.equal(many[10:12, :3], few)
    others = [draws(keys, 8, 20, 1), draws(keys, 7, 20, 2)]
    assert not any((many == other).any() for other in others)


def test_bits_of_neighbouring_rows_are_unrelated():
    """Each of 64 bits is balanced, and differs between neighbours, within 5 standard deviations."""
    bits = draws(row_keys("tag", "train", 0, torch.arange(4097)), 1, 16)
    for words in (bits[:-1], bits[:-1] ^ bits[1:]):
        ones = torch.stack([(words >> i & 1).sum() for i in range(64)])
        n = words.numel()
        assert ((ones - n / 2).abs() < 5 * (n / 4) ** 0.5).all()


def test_bounded_covers_its_range_evenly():
    bits = lanes32(row_keys("tag", "train", 0, torch.arange(2000)), 2, 50)
    counts = torch.bincount(bounded(bits, 10).flatten(), minlength=10)
    assert len(counts) == 10 and ((counts - 10_000).abs() < 500).all()


def test_stream_and_attempt_out_of_range_are_refused():
    with pytest.raises(ValueError, match="stream"):
        column_keys(1 << 15, 0, 4)
    with pytest.raises(ValueError, match="attempt"):
        column_keys(0, 1 << 16, 4)
