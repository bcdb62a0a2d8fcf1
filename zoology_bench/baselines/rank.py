"""Guess from the query's rank among the row's queries."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.baselines.base import Baseline, Written
from zoology_bench.baselines.choice import named, with_absent
from zoology_bench.baselines.ranks import RankLaw
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.tasks.layouts.base import Layout


class Rank(Baseline):
    """The r-th query of a row gets the value of the pair most often asked r-th.

    Pairs count in row order, queries too, absent ones included. Of a re-bound key only the last
    write counts as right. It names the absent token wherever that is likelier than every pair.

    Args:
        layout: the task's layout, bound to its numbers.
        vocabulary: which tokens are keys and values.
        absent_share: share of the queries that ask an absent key.
        law: joint law of rank and asked pair.
    """

    label = "rank"

    def __init__(
        self, layout: Layout, vocabulary: Vocabulary, absent_share: float, law: RankLaw
    ) -> None:
        self._written = Written(layout, vocabulary)
        asked = law.joint / law.joint.sum(axis=1, keepdims=True)
        self._table = named(with_absent(asked, absent_share))

    def hit_probability(self, batch: Batch) -> Tensor:
        """(B, Q) float64."""
        _, asked = self._written(batch)
        rank = batch.query_pos.argsort(1).argsort(1).numpy()
        return torch.from_numpy(self._table[rank, asked])

    def chance_named_in_order(self, answer: np.ndarray) -> np.ndarray:
        """(n, Q) chance that it names ``answer`` (n, Q), a pair or P, for the r-th query."""
        return self._table[np.arange(answer.shape[1]), answer]
