"""Guess the value written last."""

import torch
from torch import Tensor

from zoology_bench.baselines.base import Baseline, present
from zoology_bench.data.batch import Batch


class Recency(Baseline):
    """The value of the last pair before the query: right where no other pair stands between.

    Only pairs count, not values among random filler: the binding distance of the hit is 0. A
    re-bound key is hit by its last write only; absent queries are always missed.
    """

    label = "most recent value"

    def hit_probability(self, batch: Batch) -> Tensor:
        """(B, Q) float64, one or zero."""
        return (present(batch) & (batch.binding_distance == 0)).to(torch.float64)
