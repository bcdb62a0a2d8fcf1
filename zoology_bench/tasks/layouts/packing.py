"""Put shapes on the cells of a row one at a time, each uniformly over the starts that still fit.

A shape covers its start, the cells ``beside`` it (fixed offsets) and one far cell, start + span.
Two layouts are packings: in stream a question is the shape {a, a + 1, a + s}; in triples it is
{w, M + w + g}, the asked pair on one half of 2M cells and the asking triple on the other.
"""

import torch
from torch import Tensor

from zoology_bench.data.random import bounded, lanes32, sort_rows

FIRST_PACKING_STREAM = 64
"""The k-th shape of a row draws from stream FIRST_PACKING_STREAM + k."""

_FIRST_TRIES = 4
_MORE_TRIES = 16
_TIERS = 3


class Packer:
    """The cells of a block of rows while shapes are put on them.

    A start is tried uniformly at random, a few times for every row, more often for the rows where
    none fitted, and in what remains of those it is picked among all that fit. A try is taken if it
    fits, so each of the three gives the uniform law over the starts that fit, and so does their
    union, whatever the numbers of tries.

    Args:
        keys: (B,) row keys.
        n_cells: cells per row.
        beside: offsets, from the start, of the cells that every shape covers beside its start.
        attempt: all draws are fresh in a new attempt.
    """

    def __init__(self, keys: Tensor, n_cells: int, beside: tuple[int, ...], attempt: int) -> None:
        device = keys.device
        self.stuck = torch.zeros(len(keys), dtype=torch.bool, device=device)
        """(B,) rows where some shape had no start left; their later starts mean nothing."""
        self._keys, self._n_cells, self._beside, self._attempt = keys, n_cells, beside, attempt
        self._taken = torch.zeros(len(keys) * n_cells, dtype=torch.uint8, device=device)
        self._row = torch.arange(len(keys), device=device) * n_cells
        self._order = torch.arange(_MORE_TRIES, dtype=torch.uint8, device=device)
        self._n_shapes = 0

    def put(self, span: Tensor) -> Tensor:
        """(B,) int64 starts of one more shape per row, of spans (B,) int64."""
        start, fits = self._try(self._keys, self._row, span, _FIRST_TRIES, tier=0)
        rows = torch.nonzero(~(fits | self.stuck))[:, 0]
        if len(rows):
            keys, row, narrow = self._keys[rows], self._row[rows], span[rows]
            start[rows], fits = self._try(keys, row, narrow, _MORE_TRIES, tier=1)
            rows = rows[~fits]
        if len(rows):
            start[rows], fits = self._pick(rows, span[rows])
            self.stuck[rows[~fits]] = True
        self._take(self._row + start, span)
        self._n_shapes += 1
        return start

    def block(self, cells: Tensor) -> None:
        """Take the cells (B, n_cells) bool out of play."""
        self._taken |= cells.view(-1)

    def _take(self, cell: Tensor, span: Tensor) -> None:
        for offset in (0, *self._beside):
            self._taken.index_fill_(0, cell + offset, 1)
        self._taken.index_fill_(0, cell + span, 1)

    def _draw(self, keys: Tensor, n: int, tier: int) -> Tensor:
        stream = FIRST_PACKING_STREAM + self._n_shapes
        return lanes32(keys, stream, n, self._attempt * _TIERS + tier)

    def _try(
        self, keys: Tensor, row: Tensor, span: Tensor, n: int, tier: int
    ) -> tuple[Tensor, Tensor]:
        """The first of n random starts that fits, and whether one did (a start of any kind if not).

        Args:
            keys: (b,) row keys of some rows.
            row: (b,) their first cells.
            span: (b,) spans.
            n: tries.
            tier: addresses the draws.
        """
        start = bounded(self._draw(keys, n, tier), (self._n_cells - span)[:, None])
        cell = (start + row[:, None]).view(-1)
        taken = self._taken.index_select(0, cell)
        for offset in self._beside:
            taken |= self._taken.index_select(0, cell + offset)
        taken |= self._taken.index_select(0, (cell.view(-1, n) + span[:, None]).view(-1))
        # Least of (does not fit, number of the try): sought by value, since indices of ties differ
        # between devices.
        first = (taken.view(-1, n) * _MORE_TRIES + self._order[:n]).amin(1).long()
        chosen = start.gather(1, (first % _MORE_TRIES)[:, None])[:, 0]
        return chosen, first < _MORE_TRIES

    def _pick(self, rows: Tensor, span: Tensor) -> tuple[Tensor, Tensor]:
        """One of all the starts that fit, for some rows, and whether there is one (0 if not)."""
        taken = self._taken.view(-1, self._n_cells)[rows]
        bits = self._draw(self._keys[rows], 1, tier=2)[:, 0]
        return pick(starts_that_fit(taken, span, self._beside), bits)


def starts_that_fit(taken: Tensor, span: Tensor, beside: tuple[int, ...]) -> Tensor:
    """(b, n) bool: a shape may start here.

    Args:
        taken: (b, n) uint8, 0 where a cell is free.
        span: (b,) offset of the far cell.
        beside: offsets of the cells covered beside the start.
    """
    n_cells = taken.shape[1]
    cell = torch.arange(n_cells, device=taken.device)
    free = taken == 0
    fits = free.clone()
    for offset in beside:
        fits[:, :-offset] &= free[:, offset:]
    far = cell + span[:, None]
    return fits & free.gather(1, far.clamp(max=n_cells - 1)) & (far < n_cells)


def pick(among: Tensor, bits32: Tensor) -> tuple[Tensor, Tensor]:
    """A uniform column where ``among`` (b, n) holds, and whether there is one (column 0 if not)."""
    rank = torch.cumsum(among, 1, dtype=torch.int32)
    total = rank[:, -1].long()
    wanted = bounded(bits32, total).int() + 1
    column = torch.searchsorted(rank, wanted[:, None])[:, 0]
    found = total > 0
    return torch.where(found, column, 0), found


def in_order(values: Tensor, bound: int) -> tuple[Tensor, Tensor]:
    """(B, n) int64 values of 0..bound-1 in ascending order, and each column's rank in that order.

    Equal values rank by column.
    """
    n = values.shape[1]
    index_bits = (n - 1).bit_length()
    narrow = (bound << index_bits) <= 1 << 31
    column = torch.arange(n, device=values.device)
    packed = sort_rows(((values << index_bits) | column).to(torch.int32 if narrow else torch.int64))
    order = (packed & ((1 << index_bits) - 1)).long()
    rank = torch.empty_like(order).scatter_(1, order, column.expand_as(order))
    return (packed >> index_bits).long(), rank
