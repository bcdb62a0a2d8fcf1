"""Guess from where the query stands."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.baselines.base import Baseline, Written
from zoology_bench.baselines.choice import named, with_absent
from zoology_bench.baselines.posterior import TablePosterior, posterior_of
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.tasks.layouts.base import Layout

_BLOCK_BELIEFS = 1 << 22
"""Beliefs held at once (8 bytes each)."""


class BestSlot(Baseline):
    """The value of the pair most probable given the query's position and those of all pairs.

    It knows the layout and its law, and no token. Of a re-bound key only the last write counts as
    right, and the posterior knows how often a pair is one. It names the absent token wherever that
    is likelier than every pair.

    Args:
        layout: the task's layout, bound to its numbers.
        vocabulary: which tokens are keys and values.
        absent_share: share of the queries that ask an absent key.
    """

    label = "best slot"

    def __init__(self, layout: Layout, vocabulary: Vocabulary, absent_share: float) -> None:
        self.posterior = posterior_of(layout)
        self.absent_share = absent_share
        self._written = Written(layout, vocabulary)
        self._table = None
        if isinstance(self.posterior, TablePosterior):
            cells = np.arange(layout.spec.seq_len)[None]
            self._table = named(self.beliefs(np.empty((1, 0), np.int64), cells)[0])

    def hit_probability(self, batch: Batch) -> Tensor:
        """(B, Q) float64."""
        pair_pos, asked = self._written(batch)
        return torch.from_numpy(self.chance_named(pair_pos, batch.query_pos.numpy(), asked))

    def beliefs(self, pair_pos: np.ndarray, query_pos: np.ndarray) -> np.ndarray:
        """(n, Q, P + 1) probability of each pair and, last, of an absent key."""
        return with_absent(self.posterior(pair_pos, query_pos), self.absent_share)

    def chance_named(
        self, pair_pos: np.ndarray, query_pos: np.ndarray, answer: np.ndarray
    ) -> np.ndarray:
        """(n, Q) chance that the guesser names ``answer`` (n, Q): a pair's index, P for absent."""
        if self._table is not None:
            return self._table[query_pos, answer]
        size = max(1, _BLOCK_BELIEFS // (query_pos.shape[1] * pair_pos.shape[1]))
        chance = np.empty(query_pos.shape)
        for i in range(0, len(query_pos), size):
            rows = slice(i, i + size)
            choice = named(self.beliefs(pair_pos[rows], query_pos[rows]))
            chance[rows] = np.take_along_axis(choice, answer[rows, :, None], axis=2)[:, :, 0]
        return chance
