"""Positions alone, drawn from a task's layout: what Monte Carlo over the law is made of."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from zoology_bench.data.random import row_keys
from zoology_bench.tasks.layouts.base import Layout

_BLOCK_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Positions:
    """Where the pairs and queries of n rows stand, and which pair each query asks."""

    pair_pos: np.ndarray
    """(n, P) ascending."""
    query_pos: np.ndarray
    """(n, Q)."""
    asked: np.ndarray
    """(n, Q) indices of pairs."""

    def by_rank(self) -> "Positions":
        """The same rows with their queries in order of position: column r holds the r-th."""
        order = np.argsort(self.query_pos, axis=1)
        return Positions(
            self.pair_pos,
            np.take_along_axis(self.query_pos, order, axis=1),
            np.take_along_axis(self.asked, order, axis=1),
        )


def sampled_positions(layout: Layout, start: int, stop: int) -> Iterator[Positions]:
    """Positions of rows start..stop-1, in blocks; the rows belong to no split of any task."""
    n_pairs, n_queries = layout.spec.n_kv_pairs, layout.spec.n_queries
    for first in range(start, stop, _BLOCK_ROWS):
        rows = torch.arange(first, min(first + _BLOCK_ROWS, stop))
        placed = layout.place(row_keys(f"{layout.name}|{layout.identity}", "law", 0, rows))
        pair_pos = torch.arange(0, 2 * n_pairs, 2) if placed.pair_pos is None else placed.pair_pos
        asked = torch.arange(n_queries) if placed.asked is None else placed.asked
        yield Positions(
            pair_pos.expand(len(rows), -1).numpy(),
            placed.query_pos.numpy(),
            asked.expand(len(rows), -1).numpy(),
        )


def layout_key(layout: Layout) -> str:
    """Equal for layouts that place equal rows."""
    return f"{layout.name}|{layout.spec}|{layout.identity}"
