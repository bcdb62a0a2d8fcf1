"""Pairs first, then each pair's query at a distance of any law that fits behind them."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.random import bounded, lanes16, lanes32
from zoology_bench.tasks.distance import Fixed, LawTable, Uniform
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec, Placement
from zoology_bench.tasks.layouts.prefix_pairs import FIRST_FREE_STREAM, PairsFirst

_STREAM_DISTANCES = FIRST_FREE_STREAM
_STREAM_MOVED = FIRST_FREE_STREAM + 1
_STREAM_PARTNERS = FIRST_FREE_STREAM + 2
_STREAM_REPAYING = FIRST_FREE_STREAM + 3
_STREAM_RECEIVING = FIRST_FREE_STREAM + 4
_STREAM_REPAID = FIRST_FREE_STREAM + 5


class Prefix(Layout):
    """P pairs at positions 0..2P-1, queries anywhere after, distances iid from the law.

    Two queries collide when 2i + s_i = 2j + s_j. That is resolved by exchanging distances between
    keys of the row, never by drawing again, so that the row's multiset of distances, and with it
    the law, stays exactly as drawn. A colliding query, chosen uniformly, exchanges with a partner
    chosen uniformly among those that put both on free cells (among all, if there is none). A row
    that still collides after ``max_exchanges`` gets its distances in ascending order, which always
    fits, since 2i + s_i then strictly increases.

    Late keys fit long distances more often, so these exchanges raise the correlation of distance
    and key index. Up to ``max_repayments`` further exchanges between free cells take back, in
    expectation, what they added: one that changes sum_i i s_i by g against a debt of d happens with
    probability min(1, |d / g|). What remains at T = 8P is below .004.
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
        self.max_repayments = 8
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
        rows = torch.nonzero(self._crowded(key_pos + distance).any(1))[:, 0]
        if not rows.numel():
            return
        separated = self._resolve(keys[rows], distance[rows], key_pos[rows])
        debt = (key_pos[rows] * (separated - distance[rows])).sum(1, keepdim=True)
        distance[rows] = self._repay(keys[rows], separated, key_pos[rows], debt)

    def _resolve(self, keys: Tensor, distance: Tensor, key_pos: Tensor) -> Tensor:
        """(B, Q) the same distances in another order, free of collisions."""
        distance = distance.clone()
        rows = torch.arange(len(keys), device=keys.device)
        for attempt in range(self.max_exchanges):
            before, at, row_keys = distance[rows], key_pos[rows], keys[rows]
            moved = _choose(row_keys, _STREAM_MOVED, attempt, self._crowded(at + before))
            free, _ = self._partners(before, at, moved)
            free |= ~free.any(1, keepdim=True)
            after = _swap(before, moved, _choose(row_keys, _STREAM_PARTNERS, attempt, free))
            distance[rows] = after
            rows = rows[self._crowded(at + after).any(1)]
            if not rows.numel():
                break
        distance[rows] = torch.sort(distance[rows], dim=1).values
        return distance

    def _repay(self, keys: Tensor, distance: Tensor, key_pos: Tensor, debt: Tensor) -> Tensor:
        """(B, Q) the same distances; lowers the mean of sum(key_pos * distance) by debt (B, 1)."""
        distance, debt = distance.clone(), debt.clone()
        rows = torch.nonzero(debt[:, 0])[:, 0]
        for attempt in range(self.max_repayments):
            if not rows.numel():
                break
            before, row_keys, owed = distance[rows], keys[rows], debt[rows]
            anyone = torch.ones_like(before, dtype=torch.bool)
            moved = _choose(row_keys, _STREAM_REPAYING, attempt, anyone)
            free, gain = self._partners(before, key_pos[rows], moved)
            free &= (gain > 0) != (owed > 0)
            partner = _choose(row_keys, _STREAM_RECEIVING, attempt, free)
            gain = torch.where(free.any(1, keepdim=True), gain.gather(1, partner), 0)
            size = gain.abs()
            happens = bounded(lanes32(row_keys, _STREAM_REPAID, 1, attempt), size) < owed.abs()
            happens &= size > 0
            distance[rows] = torch.where(happens, _swap(before, moved, partner), before)
            # A chance of |owed / gain| settles the debt in expectation, whatever happened.
            debt[rows] = torch.where(size >= owed.abs(), 0, owed + gain)
            rows = rows[debt[rows][:, 0] != 0]
        return distance

    def _crowded(self, cell: Tensor) -> Tensor:
        """(B, Q) bool: another query stands on the same cell."""
        return self._occupancy(cell).gather(1, cell) > 1

    def _occupancy(self, cell: Tensor) -> Tensor:
        """(B, T) int16 number of queries on each cell."""
        count = torch.zeros(len(cell), self.spec.seq_len, dtype=torch.int16, device=cell.device)
        return count.scatter_add_(1, cell, torch.ones_like(cell, dtype=torch.int16))

    def _partners(self, distance: Tensor, key_pos: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
        """Whether an exchange with column ``moved`` (B, 1) puts both queries on free cells.

        Returns:
            (B, Q) bool, and (B, Q) the change of the sum of key_pos * distance.
        """
        count = self._occupancy(key_pos + distance)
        own, own_key = distance.gather(1, moved), key_pos.gather(1, moved)
        here, there = own_key + distance, key_pos + own
        free = (count.gather(1, here) == 0) & (count.gather(1, there) == 0) & (here != there)
        return free, (own_key - key_pos) * (distance - own)


def _swap(distance: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """A copy of distance (B, Q) with columns i and j (B, 1) exchanged in each row."""
    at_i, at_j = distance.gather(1, i), distance.gather(1, j)
    return distance.scatter(1, i, at_j).scatter(1, j, at_i)


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
