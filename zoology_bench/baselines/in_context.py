"""Guess any value seen so far."""

import torch
from torch import Tensor

from zoology_bench.baselines.base import Baseline, present, values_before
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import Vocabulary


class InContext(Baseline):
    """Uniform over the distinct values that stand before the query: usually 1/P.

    Stale values of re-bound keys count among them, as do values among random filler. The absent
    token is no value, so absent queries are always missed.

    Args:
        vocabulary: which tokens are values.
    """

    label = "uniform over values in context"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def hit_probability(self, batch: Batch) -> Tensor:
        """(B, Q) float64, one over the number of distinct values before the query."""
        n_values = values_before(batch, self.vocabulary).clamp_min(1)
        return torch.where(present(batch), 1 / n_values.double(), 0.0)
