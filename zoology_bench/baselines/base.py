"""What every content-blind predictor is, and the facts about a row that they share."""

from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.tasks.layouts.base import Layout


class Baseline(Protocol):
    """A guesser whose chance of being right is known, so that its score has no noise of its own."""

    label: ClassVar[str]
    """What to call it in a table."""

    def hit_probability(self, batch: Batch) -> Tensor:
        """(B, Q) float64 chance of answering each query right.

        A guesser that is torn between k equally good answers scores 1/k where one of them is
        right. Queries for absent keys are answered right only by naming the absent token.
        """
        ...


class Written:
    """Reads off a batch where its pairs stand and which of them each query asks.

    Args:
        layout: the task's layout.
        vocabulary: which tokens are keys and values.
    """

    def __init__(self, layout: Layout, vocabulary: Vocabulary) -> None:
        self._n_pairs = layout.spec.n_kv_pairs
        # Where pairs come first, random filler may look like further pairs.
        self._pairs_first = layout.name in ("official", "prefix")
        self._vocabulary = vocabulary

    def __call__(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """(B, P) ascending positions of written keys, and (B, Q) asked pairs, P for absent keys."""
        pair_pos = self._pair_pos(batch.inputs)
        asked = torch.searchsorted(pair_pos, batch.key_pos.contiguous())
        return pair_pos.numpy(), torch.where(present(batch), asked, self._n_pairs).numpy()

    def _pair_pos(self, tokens: Tensor) -> Tensor:
        if self._pairs_first:
            return torch.arange(0, 2 * self._n_pairs, 2).repeat(len(tokens), 1)
        key, value = self._vocabulary.is_key(tokens), self._vocabulary.is_value(tokens)
        written = key[:, :-1] & value[:, 1:]
        return torch.nonzero(written)[:, 1].view(len(tokens), self._n_pairs)


def values_before(batch: Batch, vocabulary: Vocabulary) -> Tensor:
    """(B, Q) int64 number of distinct value tokens in the row before each query."""
    tokens, order = torch.sort(batch.inputs, dim=1, stable=True)
    first = torch.ones_like(tokens, dtype=torch.bool)
    first[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    fresh = torch.zeros_like(tokens)
    fresh.scatter_(1, order, (first & vocabulary.is_value(tokens)).long())
    return fresh.cumsum(1).gather(1, batch.query_pos)


def present(batch: Batch) -> Tensor:
    """(B, Q) bool: the asked key was written."""
    return batch.key_pos >= 0
