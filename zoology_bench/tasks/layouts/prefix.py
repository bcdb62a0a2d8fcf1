"""Pairs first, then each pair's query at a distance of any law that fits behind them."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.random import lanes16, lanes32
from zoology_bench.tasks.distance import Fixed, LawTable, Uniform
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec, Placement
from zoology_bench.tasks.layouts.prefix_pairs import FIRST_FREE_STREAM, PairsFirst

_STREAM_DISTANCES = FIRST_FREE_STREAM
_STREAM_MOVED = FIRST_FREE_STREAM + 1
_STREAM_PARTNERS = FIRST_FREE_STREAM + 2
_STREAM_COIN = FIRST_FREE_STREAM + 3


class Prefix(Layout):
    """P pairs at positions 0..2P-1, queries anywhere after, distances iid from the law.

    Two queries collide when 2i + s_i = 2j + s_j. A collision is resolved by exchanging distances
    between keys of the row, never by drawing again, so that the row's multiset of distances, and
    with it the law, stays exactly as drawn: a colliding query, chosen uniformly, exchanges with a
    partner chosen uniformly among those that put both on free cells and, where there is a choice,
    raise or lower the correlation of distance and key index as a fair coin says (among all, if
    no partner puts both on free cells).
    A row that still collides after ``max_exchanges`` gets its distances in ascending order, which
    always fits, since 2i + s_i then strictly increases.
    """

    name = "prefix"

    def __init__(self, spec: LayoutSpec) -> None:
        nearest, farthest = 2 * spec.n_kv_pairs, spec.seq_len - 2 * spec.n_kv_pairs + 1
        if nearest > farthest:
            raise ValueError(
                f"task.seq_len={spec.seq_len} is too short for task.n_kv_pairs={spec.n_kv_pairs}: "
                f"task.layout=prefix needs seq_len >= {4 * spec.n_kv_pairs - 1}"
            )
        lattice = np.arange(nearest, farthest + 1)
        law = spec.distance or Uniform(lo=nearest, hi=farthest)
        self.spec = spec
        self._law = law.table(lattice)
        if isinstance(law, Fixed):
            _check_never_collides(self._law, spec)
        self.max_exchanges = 16 + 8 * spec.n_queries
        self._pairs = PairsFirst(spec)

    @property
    def distances(self) -> LawTable:
        return self._law

    def place(self, keys: Tensor) -> Placement:
        asked, key_id = self._pairs(keys)
        n_queries = self.spec.n_queries
        distance = self._law.sample(lanes32(keys, _STREAM_DISTANCES, n_queries))
        pair = torch.arange(n_queries, device=keys.device) if asked is None else asked
        key_pos = (2 * pair).expand_as(distance)
        self._separate(keys, distance, key_pos)
        query_pos = key_pos + distance
        return Placement(pair_pos=None, query_pos=query_pos, asked=asked, key_id=key_id)

    def _separate(self, keys: Tensor, distance: Tensor, key_pos: Tensor) -> None:
        """Exchange distances (B, Q) within rows, in place, until no two queries share a cell."""
        crowded = self._crowded(key_pos + distance)
        rows = torch.nonzero(crowded.any(1))[:, 0]
        for attempt in range(self.max_exchanges):
            if not rows.numel():
                return
            exchanged = self._exchange(keys[rows], distance[rows], key_pos[rows], attempt)
            distance[rows] = exchanged
            rows = rows[self._crowded(key_pos[rows] + exchanged).any(1)]
        distance[rows] = torch.sort(distance[rows], dim=1).values

    def _crowded(self, cell: Tensor) -> Tensor:
        """(B, Q) bool: another query stands on the same cell."""
        return self._occupancy(cell).gather(1, cell) > 1

    def _occupancy(self, cell: Tensor) -> Tensor:
        """(B, T) int16 number of queries on each cell."""
        count = torch.zeros(len(cell), self.spec.seq_len, dtype=torch.int16, device=cell.device)
        return count.scatter_add_(1, cell, torch.ones_like(cell, dtype=torch.int16))

    def _exchange(self, keys: Tensor, distance: Tensor, key_pos: Tensor, attempt: int) -> Tensor:
        """One exchange in each row: a crowded query moves, its partner takes its distance."""
        cell = key_pos + distance
        count = self._occupancy(cell)
        moved = _choose(keys, _STREAM_MOVED, attempt, count.gather(1, cell) > 1)
        own, own_key = distance.gather(1, moved), key_pos.gather(1, moved)
        here, there = own_key + distance, key_pos + own
        free = (count.gather(1, here) == 0) & (count.gather(1, there) == 0) & (here != there)
        # Long distances fit late keys more often: a fair coin for the exchange's effect on the
        # correlation of distance and key index halves the correlation that remains.
        raises = (own_key - key_pos) * (distance - own) > 0
        fair = free & (raises == (lanes16(keys, _STREAM_COIN, 1, attempt) < 0))
        allowed = torch.where(fair.any(1, keepdim=True), fair, free)
        allowed |= ~free.any(1, keepdim=True)
        partner = _choose(keys, _STREAM_PARTNERS, attempt, allowed)
        theirs = distance.gather(1, partner)
        return distance.scatter(1, moved, theirs).scatter(1, partner, own)


def _choose(keys: Tensor, stream: int, attempt: int, among: Tensor) -> Tensor:
    """(B, 1) a column where ``among`` (B, Q) holds, uniformly up to ties of 15 bits."""
    n = among.shape[1]
    column = torch.arange(n, device=among.device)
    priority = (lanes16(keys, stream, n, attempt) & 0x7FFF).long() * n + column
    return priority.masked_fill(~among, -1).amax(1, keepdim=True) % n


def _check_never_collides(law: LawTable, spec: LayoutSpec) -> None:
    """A fixed set must leave distance and key index independent, hence never collide."""
    if spec.n_queries == 1:
        return
    widest = 2 * (spec.n_kv_pairs - 1)
    values = law.support.tolist()
    for i, low in enumerate(values):
        for high in values[i + 1 :]:
            if (high - low) % 2 == 0 and high - low <= widest:
                raise ValueError(
                    f"task.distance.values={values} contains {low} and {high}: two values that "
                    f"differ by an even number up to 2 * (task.n_kv_pairs - 1) = {widest} "
                    f"tie distance to the key's index in task.layout=prefix"
                )
