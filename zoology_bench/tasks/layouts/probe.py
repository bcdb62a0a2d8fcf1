"""One query among P pairs: the distance and the number of pairs in between each follow a law."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.random import bounded, column_keys, draws, lanes32, mix, sort_rows
from zoology_bench.tasks.distance import LawTable, Uniform
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec, Placement
from zoology_bench.tasks.layouts.rebind import share_keys

_STREAM_DISTANCE = 16
_STREAM_BINDING = 17
_STREAM_QUERY = 18
_STREAM_ITEMS = 19
_STREAM_SHUFFLE = 20
_MAX_REDRAWS = 3
_INDEX_BITS = 20
_ITEMS_PER_BLOCK = 1 << 17


class Probe(Layout):
    """P pairs before one query, at distance s from the asked pair, with b other pairs in between.

    s, b and the query position q are drawn independently: s and b from their laws, q uniform on
    s_max + 2(P - 1 - b_min) .. T - 1. Then the asked pair stands at a = q - s; the b pairs in
    between are a uniform choice among all ways to put b pairs on the s - 2 cells a + 2..q - 1, and
    the other n = P - 1 - b pairs among all ways to put n pairs on the cells 0..a - 1.

    Why the laws are exact: every triple (s, b, q) can be placed, so none is ever drawn again or
    conditioned upon. Between write and query b pairs fit, as s - 2 >= s_min - 2 >= 2 b_max >= 2b.
    Before the write n pairs fit, as a = q - s >= s_max + 2(P - 1 - b_min) - s >= 2(P - 1 - b) = 2n.
    Why they are independent: s, b and q are independent draws, and q's range is the same for every
    (s, b); it is the widest such range, since (s_max, b_min) needs all of it. The asked pair's
    index in order of position is n = P - 1 - b, a function of b alone, so s is independent of it
    too. Only the write's position a = q - s depends on s, as it must.

    Valid iff Q = 1, b_max <= P - 1, s_min >= 2 b_max + 2 and T >= s_max + 1 + 2(P - 1 - b_min).
    An unset law is uniform on the widest interval that the other one allows. With both unset the
    binding distance comes first, so that each of the P pairs is asked equally often: b on 0..P - 1,
    s on 2P..T - 2P + 1, the distances of prefix (and q = T - 1: the range is used up).

    Re-bound keys follow ``share_keys``: stale writes of the asked key stand before its last write
    only. With R = P - 1 there is one key, so no pair may stand in between: b = 0.
    """

    name = "probe"

    def __init__(self, spec: LayoutSpec) -> None:
        if spec.n_queries != 1:
            raise ValueError(f"task.n_queries={spec.n_queries} must be 1 for task.layout=probe")
        if spec.seq_len < 2 * spec.n_kv_pairs + 1:
            raise ValueError(
                f"task.seq_len={spec.seq_len} is too short for task.n_kv_pairs={spec.n_kv_pairs}: "
                f"task.layout=probe needs seq_len >= {2 * spec.n_kv_pairs + 1}"
            )
        self.spec = spec
        self._distance, self._binding = _laws(spec)
        self._check_room()
        self._first_query = int(self._distance.support[-1]) + 2 * (
            spec.n_kv_pairs - 1 - int(self._binding.support[0])
        )

    def _check_room(self) -> None:
        spec = self.spec
        nearest, farthest = (int(self._distance.support[i]) for i in (0, -1))
        fewest, most = (int(self._binding.support[i]) for i in (0, -1))
        if nearest < 2 * most + 2:
            raise ValueError(
                f"task.distance reaches down to {nearest}, which has no room for "
                f"task.binding up to {most}: task.layout=probe needs distances >= {2 * most + 2}"
            )
        shortest = farthest + 1 + 2 * (spec.n_kv_pairs - 1 - fewest)
        if spec.seq_len < shortest:
            raise ValueError(
                f"task.seq_len={spec.seq_len} is too short for task.distance up to {farthest}, "
                f"task.binding from {fewest} and task.n_kv_pairs={spec.n_kv_pairs}: "
                f"task.layout=probe needs seq_len >= {shortest}"
            )
        if most and spec.n_rebound == spec.n_kv_pairs - 1:
            raise ValueError(
                f"task.rebind_rate leaves one key, so no pair may stand between write and query: "
                f"task.layout=probe then needs task.binding fixed at 0 (it reaches {most})"
            )

    @property
    def distances(self) -> LawTable:
        return self._distance

    @property
    def binding_distances(self) -> LawTable:
        """The law of the binding distance b, independent of the interaction distance's."""
        return self._binding

    @property
    def identity(self) -> str:
        return f"{self._distance.digest()} {self._binding.digest()}"

    def place(self, keys: Tensor) -> Placement:
        n_rows = max(1, _ITEMS_PER_BLOCK // self.spec.n_kv_pairs)
        blocks = [self._place(keys[i : i + n_rows]) for i in range(0, len(keys), n_rows)]
        pair_pos, query_pos, asked = (torch.cat(part) for part in zip(*blocks, strict=True))
        n_rebound = self.spec.n_rebound
        key_id = share_keys(keys, pair_pos, asked, query_pos, n_rebound) if n_rebound else None
        return Placement(pair_pos=pair_pos, query_pos=query_pos, asked=asked, key_id=key_id)

    def _place(self, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``pair_pos``, ``query_pos`` and ``asked`` of rows that share a cache-sized block."""
        n_pairs, seq_len = self.spec.n_kv_pairs, self.spec.seq_len
        distance = self._distance.sample(lanes32(keys, _STREAM_DISTANCE, 1))
        binding = self._binding.sample(lanes32(keys, _STREAM_BINDING, 1))
        free = bounded(lanes32(keys, _STREAM_QUERY, 1), seq_len - self._first_query)
        query_pos = self._first_query + free
        asked = n_pairs - 1 - binding
        write = query_pos - distance
        # To put n pairs on c cells, choose which n of c - n items are pairs; the rest are single
        # cells. So the row up to the query is a list of items: those left of the asked pair, it
        # itself, those right of it.
        left, right = write - asked, distance - 2 - binding
        pair_pos = _choose_items(keys, n_pairs, asked, left, right)
        pair_pos += torch.arange(n_pairs, device=keys.device)
        return pair_pos, query_pos, asked


def _laws(spec: LayoutSpec) -> tuple[LawTable, LawTable]:
    """The laws of s and b; an unset one is uniform on the widest interval that the other allows.

    Where nothing is allowed it is one point, for ``_check_room`` to refuse.
    """
    n_pairs, last = spec.n_kv_pairs, spec.seq_len - 1
    distances, bindings = np.arange(2, spec.seq_len), np.arange(n_pairs)
    has_other_keys = spec.n_rebound < n_pairs - 1
    if spec.distance is not None and spec.binding is None:
        distance = spec.distance.table(distances)
        nearest, farthest = int(distance.support[0]), int(distance.support[-1])
        most = min(n_pairs - 1, nearest // 2 - 1) if has_other_keys else 0
        fewest = min(max(0, n_pairs - 1 - (last - farthest) // 2), most)
        return distance, Uniform(lo=fewest, hi=most).table(bindings)
    law = spec.binding or Uniform(lo=0, hi=n_pairs - 1 if has_other_keys else 0)
    binding = law.table(bindings, "task.binding")
    nearest = 2 * int(binding.support[-1]) + 2
    farthest = last - 2 * (n_pairs - 1 - int(binding.support[0]))
    widest = Uniform(lo=nearest, hi=max(nearest, farthest))
    return (spec.distance or widest).table(distances), binding


def _choose_items(keys: Tensor, n: int, n_left: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Item ``left``, n_left of the items before it and n - 1 - n_left of those after it, uniformly.

    Every item is drawn independently, the row is sorted, repeated items are drawn again, and so on.
    What is drawn again depends on which draws are equal, never on which items they are, so that all
    choices are equally likely, in the rows that are done and in those that are not. The latter,
    where almost all items are chosen, are shuffled after _MAX_REDRAWS.

    Args:
        keys: (B,) row keys.
        n: items chosen per row.
        n_left: (B, 1), at most left.
        left: (B, 1) number of items before the fixed one.
        right: (B, 1) number of items after it, at least n - 1 - n_left.

    Returns:
        (B, n) int64, ascending.
    """
    column = torch.arange(n, device=keys.device)
    drawn = _draw_items(lanes32(keys, _STREAM_ITEMS, n), column < n_left, left, right)
    item = sort_rows(drawn.scatter_(1, n_left, left).int())
    chosen, rows = item, torch.arange(len(keys), device=keys.device)
    for redraw in range(1, _MAX_REDRAWS + 1):
        repeated = item[:, 1:] == item[:, :-1]
        some = repeated.any(1)
        rows, item = rows[some], item[some]
        if not len(rows):
            return chosen.long()
        row, again = torch.nonzero(repeated[some], as_tuple=True)
        again += 1
        origin = rows[row]
        bits = mix(keys[origin] + column_keys(_STREAM_ITEMS, redraw, n, str(keys.device))[again])
        is_left = again < n_left[origin, 0]
        fresh = _draw_items(bits, is_left, left[origin, 0], right[origin, 0])
        item[row, again] = fresh.int()
        item = sort_rows(item)
        chosen[rows] = item
    rows = rows[(item[:, 1:] == item[:, :-1]).any(1)]
    if len(rows):
        chosen[rows] = _shuffle_items(keys[rows], n, n_left[rows], left[rows], right[rows]).int()
    return chosen.long()


def _draw_items(bits32: Tensor, is_left: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """A uniform item before, or after, the fixed item ``left``."""
    item = bounded(bits32, torch.where(is_left, left, right))
    item += torch.where(is_left, 0, left + 1)
    return item


def _shuffle_items(keys: Tensor, n: int, n_left: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The same choice from a random order of all items: slower, and indifferent to how many."""
    n_items = int((left + right).max()) + 1
    item = torch.arange(n_items, device=keys.device)
    # Left items, the fixed one, right items, what is beyond: in this order, each part shuffled.
    part = (item >= left).long() + (item > left).long() + (item > left + right).long()
    index_mask = (1 << _INDEX_BITS) - 1
    priority = draws(keys, _STREAM_SHUFFLE, n_items) & ((1 << 60) - 1) & ~index_mask
    shuffled = sort_rows((part << 60) | priority | item) & index_mask
    column = torch.arange(n, device=keys.device)
    taken = torch.where(column < n_left, column, left - n_left + column)
    return sort_rows(shuffled.gather(1, taken))
