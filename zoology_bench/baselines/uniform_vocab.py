"""Guess any token of the vocabulary."""

import torch
from torch import Tensor

from zoology_bench.baselines.base import Baseline
from zoology_bench.data.batch import Batch


class UniformVocab(Baseline):
    """Uniform over all V tokens: right with probability 1/V, absent keys included.

    Args:
        vocab_size: V.
    """

    label = "uniform"

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def hit_probability(self, batch: Batch) -> Tensor:
        """(B, Q) float64, 1/V everywhere."""
        return torch.full_like(batch.query_pos, 1 / self.vocab_size, dtype=torch.float64)
