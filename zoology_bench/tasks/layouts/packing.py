"""Put shapes on the cells of rows, each uniformly over the starts that still fit.

A shape covers its start, the cells ``beside`` it (fixed offsets) and one far cell, start + span.
Two layouts are packings: in stream a question is the shape {a, a + 1, a + s}; in triples it is
{w, M + w + g}, the asked pair on one half of 2M cells and the asking triple on the other.
"""

import torch
from torch import Tensor

from zoology_bench.data.random import bounded, lanes32, sort_rows

FIRST_PACKING_STREAM = 64

_N_TURNS = 16
_N_STREAMS = _N_TURNS + 1


class Packer:
    """The cells of a block of rows while shapes are put on them.

    In a turn every shape that is still waiting, in order, tries one random start and takes it if it
    fits. What waits after the last turn picks, in order, among all starts that fit. Whether a try
    fits depends on how many starts do, not on which, so each shape is put down uniformly over the
    starts that fit at that moment, by a try as by a pick.

    Args:
        keys: (B,) row keys.
        n_cells: cells per row.
        beside: offsets, from the start, of the cells that every shape covers beside its start.
        attempt: all draws are fresh in a new attempt.
    """

    def __init__(self, keys: Tensor, n_cells: int, beside: tuple[int, ...], attempt: int) -> None:
        self._keys, self._n_cells, self._attempt = keys, n_cells, attempt
        self._near = (0, *beside)
        # Behind the last row come cells that are never free: there look columns with no shape.
        self._nowhere = len(keys) * n_cells
        behind = max(self._near) + 1
        self._free = torch.ones(self._nowhere + behind, dtype=torch.uint8, device=keys.device)
        self._free[self._nowhere :] = 0
        self._n_calls = 0

    def put(self, spans: Tensor) -> Tensor:
        """(B, K) int64 starts of K more shapes of spans (B, K) per row; -1 where nothing fits."""
        n_rows, n_shapes = spans.shape
        device = spans.device
        # What waits in a row: shape << span_bits | span, ascending, then columns with no shape.
        span_bits = self._n_cells.bit_length()
        nothing = n_shapes << span_bits
        narrow = nothing < 1 << 31
        shape = torch.arange(n_shapes, device=device)
        waiting = ((shape << span_bits) | spans).to(torch.int32 if narrow else torch.int64)
        rows = torch.arange(n_rows, device=device)
        starts = torch.empty(n_rows * (n_shapes + 1), dtype=torch.int64, device=device)
        for turn in range(_N_TURNS + 1):
            span = (waiting & ((1 << span_bits) - 1)).long()
            idle = waiting == nothing
            bits = self._draw(self._keys[rows], waiting.shape[1], turn)
            if turn < _N_TURNS:
                start = bounded(bits, self._n_cells - span)
                fits = self._try_in_order(rows, start, span, idle)
            else:
                start = self._pick_in_order(rows, span, idle, bits)
                fits = ~idle
            at = (waiting >> span_bits) + (rows * (n_shapes + 1))[:, None]
            starts.scatter_(0, at.view(-1), start.view(-1))
            waiting = sort_rows(waiting.masked_fill_(fits, nothing))
            some = waiting[:, 0] != nothing
            rows, waiting = rows[some], waiting[some]
            if not len(rows):
                break
            waiting = waiting[:, : int((waiting.amin(0) != nothing).sum())]
        self._n_calls += 1
        return starts.view(n_rows, n_shapes + 1)[:, :n_shapes]

    def block(self, cells: Tensor) -> None:
        """Take the cells (B, n_cells) bool out of play."""
        self._free[: self._nowhere].masked_fill_(cells.reshape(-1), 0)

    def _draw(self, keys: Tensor, n: int, turn: int) -> Tensor:
        stream = FIRST_PACKING_STREAM + self._n_calls * _N_STREAMS + turn
        return lanes32(keys, stream, n, self._attempt)

    def _try_in_order(self, rows: Tensor, start: Tensor, span: Tensor, idle: Tensor) -> Tensor:
        """(b, W) bool: which starts fitted and are taken now, column by column.

        Args:
            rows: (b,) indices of some rows.
            start: (b, W) one start for each waiting shape.
            span: (b, W) their spans, 0 where idle.
            idle: (b, W) bool, columns without a shape.
        """
        n_rows, n_columns = start.shape
        first = (start + (rows * self._n_cells)[:, None]).masked_fill_(idle, self._nowhere)
        cells = torch.empty(
            n_columns, len(self._near) + 1, n_rows, dtype=torch.int64, device=start.device
        )
        cells[:, 0] = first.t()
        cells[:, -1] = (first + span).t()
        for i, offset in enumerate(self._near[1:], start=1):
            torch.add(cells[:, 0], offset, out=cells[:, i])
        fits = torch.empty(n_columns, n_rows, dtype=torch.uint8, device=start.device)
        for cell, fit in zip(cells.view(n_columns, -1), fits, strict=True):
            free = self._free.index_select(0, cell).view(-1, n_rows)
            torch.amin(free, 0, out=fit)
            free -= fit
            self._free.scatter_(0, cell, free.view(-1))
        return fits.t().bool()

    def _pick_in_order(self, rows: Tensor, span: Tensor, idle: Tensor, bits: Tensor) -> Tensor:
        """(b, W) starts picked among all that fit, -1 where none does.

        Args:
            rows, span, idle: as in ``_try_in_order``.
            bits: (b, W) int32 random bits.
        """
        starts = torch.zeros_like(span)
        for column in range(span.shape[1]):
            some = torch.nonzero(~idle[:, column])[:, 0]
            row, reach = rows[some], span[some, column]
            free = self._free[: self._nowhere].view(-1, self._n_cells)[row]
            fits = starts_that_fit(free == 1, reach, self._near[1:])
            start, found = pick(fits, bits[some, column])
            starts[some, column] = start.masked_fill(~found, -1)
            row, start, reach = row[found], start[found], reach[found]
            first = start + row * self._n_cells
            for offset in (*self._near, reach):
                self._free.index_fill_(0, first + offset, 0)
        return starts


def starts_that_fit(free: Tensor, span: Tensor, beside: tuple[int, ...]) -> Tensor:
    """(b, n) bool: a shape may start here.

    Args:
        free: (b, n) bool, cells that nothing covers.
        span: (b,) offset of the far cell.
        beside: offsets of the cells covered beside the start.
    """
    n_cells = free.shape[1]
    cell = torch.arange(n_cells, device=free.device)
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
