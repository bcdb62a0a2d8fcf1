"""Lift the shapes of a row one after the other and put each down again wherever it fits.

The uniform law over all placements of a row is stationary under this, so stirring undoes the
crowding that stops shapes from being put down one by one. It needs a pass over the cells for every
shape: slow, and meant for the few rows that got stuck.
"""

import torch
from torch import Tensor

from zoology_bench.tasks.layouts.packing import pick, starts_that_fit


def uncovered(starts: Tensor, spans: Tensor, beside: tuple[int, ...], n_cells: int) -> Tensor:
    """(b, n_cells) bool, the cells under no shape.

    Args:
        starts: (b, K) int64, -1 for shapes that do not stand.
        spans: (b, K) their spans.
        beside: as in ``Packer``.
        n_cells: cells per row.
    """
    free = torch.ones(len(starts), n_cells + 1, dtype=torch.bool, device=starts.device)
    for offset in (*(0, *beside), spans):
        free.scatter_(1, (starts + offset).masked_fill(starts < 0, n_cells), False)
    return free[:, :n_cells].contiguous()


def stir(
    free: Tensor, starts: Tensor, spans: Tensor, beside: tuple[int, ...], bits32: Tensor
) -> None:
    """Lift each shape in turn, if it stands, and put it down uniformly where it fits, if it does.

    Args:
        free: (b, n) bool, updated.
        starts: (b, K) int64, -1 for shapes that do not stand; updated.
        spans: (b, K) their spans.
        beside: as in ``Packer``.
        bits32: (b, K) int32 random bits.
    """
    for k in range(starts.shape[1]):
        span = spans[:, k]
        _cover(free, starts[:, k], span, beside, False)
        start, found = pick(starts_that_fit(free, span, beside), bits32[:, k])
        starts[:, k] = start.masked_fill_(~found, -1)
        _cover(free, starts[:, k], span, beside, True)


def _cover(
    free: Tensor, start: Tensor, span: Tensor, beside: tuple[int, ...], covered: bool
) -> None:
    """Cover, or uncover, the cells of one shape per row, where it stands."""
    first = start.clamp(min=0)
    cells = torch.stack([first + offset for offset in (*(0, *beside), span)], 1)
    stands = (start >= 0)[:, None]
    now = free.gather(1, cells)
    free.scatter_(1, cells, now & ~stands if covered else now | stands)
