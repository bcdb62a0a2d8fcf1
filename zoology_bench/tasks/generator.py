"""Puts tokens on a layout's positions: rows from row keys, in cache-sized blocks."""

from collections.abc import Callable

import torch
from torch import Tensor

from zoology_bench.data.batch import IGNORE, Batch
from zoology_bench.data.distinct import Distinct
from zoology_bench.data.layout import Vocabulary
from zoology_bench.data.random import bounded, lanes16, lanes32, row_keys
from zoology_bench.tasks.layouts.base import TOKEN_STREAMS, Layout, StuckRow

_STREAM_KEYS = TOKEN_STREAMS
_STREAM_VALUES = TOKEN_STREAMS + 1
_STREAM_FILLER = TOKEN_STREAMS + 2
_STREAM_ABSENT = TOKEN_STREAMS + 3

_BLOCK_TOKENS = 1 << 19
"""Tokens per generated block: smaller ones pay for call overhead, larger ones leave the cache."""

Empty = Callable[[int, int], Tensor]
"""Allocates an uninitialised (rows, columns) int64 tensor."""


class RowGenerator:
    """One recall task bound to its layout, vocabulary and counts.

    Args:
        layout: places pairs and queries.
        vocabulary: token ranges of the roles.
        n_absent: how many of the Q queries ask a key that the row never writes.
        filler: tokens of the unoccupied cells, drawn uniformly; a single one is written as it is.
        tag: the task's identity, as text; rows of different tags are unrelated.
    """

    def __init__(
        self, layout: Layout, vocabulary: Vocabulary, n_absent: int, filler: range, tag: str
    ) -> None:
        assert n_absent == 0 or vocabulary.absent is not None
        spec = layout.spec
        self.layout, self.vocabulary = layout, vocabulary
        self._n_pairs, self._n_queries = spec.n_kv_pairs, spec.n_queries
        self._n_keys = spec.n_kv_pairs - spec.n_rebound
        self.n_absent = n_absent
        self._filler = filler
        self._tag = tag
        self._draw_keys = Distinct(self._n_keys + n_absent, len(vocabulary.keys), _STREAM_KEYS)
        self._draw_values = Distinct(spec.n_kv_pairs, len(vocabulary.values), _STREAM_VALUES)
        self._draw_absent = None
        if n_absent:
            self._draw_absent = Distinct(n_absent, spec.n_queries, _STREAM_ABSENT)

    def rows(
        self, split: str, seed: int, start: int, stop: int, device: torch.device, empty: Empty
    ) -> Batch:
        """Rows start..stop-1, written into tensors that ``empty`` allocates.

        Raises:
            StuckRow: names the row by its index, and its split and seed.
        """
        n, seq_len = stop - start, self.layout.spec.seq_len
        batch = Batch(
            inputs=empty(n, seq_len),
            targets=empty(n, seq_len),
            query_pos=empty(n, self._n_queries),
            key_pos=empty(n, self._n_queries),
            binding_distance=empty(n, self._n_queries),
        )
        block = max(64, _BLOCK_TOKENS // seq_len)
        for first in range(0, n, block):
            index = torch.arange(start + first, min(start + first + block, stop), device=device)
            keys = row_keys(self._tag, split, seed, index)
            try:
                self._write(keys, batch[first : first + block])
            except StuckRow as error:
                why = f"of split {split}, seed {seed}, {error.why}"
                raise StuckRow(start + first + error.row, why) from None
        return batch

    def _write(self, keys: Tensor, out: Batch) -> None:
        """Write one block of rows over everything in ``out``."""
        placed = self.layout.place(keys)
        fresh_keys = self._draw_keys(keys).long().add_(self.vocabulary.keys.start)
        values = self._draw_values(keys).long().add_(self.vocabulary.values.start)
        written = fresh_keys if placed.key_id is None else fresh_keys.gather(1, placed.key_id)
        written = written[:, : self._n_pairs]

        self._fill(keys, out.inputs)
        if placed.pair_pos is None:
            out.inputs[:, 0 : 2 * self._n_pairs : 2] = written
            out.inputs[:, 1 : 2 * self._n_pairs : 2] = values
        else:
            out.inputs.scatter_(1, placed.pair_pos, written)
            out.inputs.scatter_(1, placed.pair_pos + 1, values)

        out.query_pos.copy_(placed.query_pos)
        self._locate(placed.pair_pos, placed.asked, placed.query_pos, out)
        if placed.asked is not None:
            written, values = written.gather(1, placed.asked), values.gather(1, placed.asked)
        if self._draw_absent is not None and self.vocabulary.absent is not None:
            columns = self._draw_absent(keys).long()
            written = written.scatter(1, columns, fresh_keys[:, self._n_keys :])
            values = values.scatter(1, columns, self.vocabulary.absent)
            out.key_pos.scatter_(1, columns, -1)
            out.binding_distance.scatter_(1, columns, -1)
        out.inputs.scatter_(1, placed.query_pos, written)
        out.targets.fill_(IGNORE)
        out.targets.scatter_(1, placed.query_pos, values)

    def _locate(
        self, pair_pos: Tensor | None, asked: Tensor | None, query_pos: Tensor, out: Batch
    ) -> None:
        """Write key_pos and binding_distance as if every query were present."""
        if asked is None:
            asked = torch.arange(self._n_queries, device=query_pos.device).expand_as(query_pos)
        if pair_pos is None:
            torch.mul(asked, 2, out=out.key_pos)
            torch.sub(self._n_pairs - 1, asked, out=out.binding_distance)
        else:
            torch.gather(pair_pos, 1, asked, out=out.key_pos)
            n_before = torch.searchsorted(pair_pos.contiguous(), query_pos.contiguous())
            torch.sub(n_before - 1, asked, out=out.binding_distance)

    def _fill(self, keys: Tensor, inputs: Tensor) -> None:
        """Write filler over all of inputs (B, T)."""
        n, first = len(self._filler), self._filler.start
        if n == 1:
            inputs.fill_(first)
            return
        if n & (n - 1) == 0 and n <= 1 << 15:
            tokens = lanes16(keys, _STREAM_FILLER, inputs.shape[1]) & (n - 1)
        else:
            tokens = bounded(lanes32(keys, _STREAM_FILLER, inputs.shape[1]), n)
        inputs.copy_(tokens)
        if first:
            inputs += first
