"""Why an answer is wrong: what the model answered with instead."""

import torch
from torch import Tensor

from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.data.random import sort_rows

ERROR_KINDS = ("misbinding", "stale_value", "out_of_row_value", "key_token", "other")
"""Kinds of wrong answers, disjoint and complete.

- misbinding: a value that the row bound to another key before the query.
- stale_value: a value that the row bound to the asked key before it re-bound it.
- out_of_row_value: any other value token, including one that the row writes only later.
- key_token: a key instead of a value.
- other: filler, the blank, no answer, or the absent token although the key was written.
"""


def classify_errors(predictions: Tensor, batch: Batch, vocabulary: Vocabulary) -> Tensor:
    """(B, Q) int64: 0 where the answer is right, else 1 + the index into ``ERROR_KINDS``.

    Pairs are read from the tokens (a key token directly before a value token, and not where the
    row asks), so filler that is drawn from the whole vocabulary can add accidental pairs.

    Args:
        predictions: (B, Q) int64 tokens or -1.
        batch: the rows, on the same device.
        vocabulary: which tokens are keys and values.
    """
    misbinding, stale, out_of_row, key, other = range(1, 1 + len(ERROR_KINDS))
    holder = _holder(predictions, batch, vocabulary)
    kinds = torch.full_like(predictions, other)
    kinds[vocabulary.is_key(predictions)] = key
    kinds[vocabulary.is_value(predictions)] = out_of_row
    kinds[holder >= 0] = misbinding
    kinds[holder == batch.query_tokens] = stale
    kinds[predictions == batch.answers] = 0
    return kinds


def _holder(predictions: Tensor, batch: Batch, vocabulary: Vocabulary) -> Tensor:
    """(B, Q) key that the predicted value was last bound to before the query; -1 for none.

    One sort of the written values per row and a binary search per query, where comparing every
    query with every position would cost B * Q * T.
    """
    inputs = batch.inputs
    seq_len = inputs.shape[1]
    position = torch.arange(seq_len, device=inputs.device)
    asked = torch.zeros_like(inputs, dtype=torch.bool).scatter_(1, batch.query_pos, True)
    starts = vocabulary.is_key(inputs[:, :-1]) & vocabulary.is_value(inputs[:, 1:])
    starts &= ~asked[:, :-1]
    # (value, position of its key) in one integer; -1 sorts below every real pair.
    packed = torch.where(starts, inputs[:, 1:] * seq_len + position[:-1], -1)
    packed = sort_rows(packed)
    # The last pair with this value that starts early enough to end before the query.
    wanted = predictions.clamp(min=0) * seq_len + batch.query_pos - 1
    found = torch.searchsorted(packed, wanted) - 1
    match = packed.gather(1, found.clamp(min=0))
    held = (found >= 0) & (match >= 0) & (match // seq_len == predictions)
    return torch.where(held, inputs.gather(1, match.clamp(min=0) % seq_len), -1)
