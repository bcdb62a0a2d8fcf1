"""Pairs and queries anywhere in the row, at distances of any law up to half its length."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.random import lanes32
from zoology_bench.tasks.distance import LawTable, Uniform
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec, Placement, StuckRow
from zoology_bench.tasks.layouts.packing import Packer, in_order
from zoology_bench.tasks.layouts.rebind import share_keys
from zoology_bench.tasks.layouts.stirring import stir, uncovered

_STREAM_DISTANCES = 16
_STREAM_SWEEPS = 256
_BESIDE = (1,)
_CELLS_PER_BLOCK = 1 << 21


class Stream(Layout):
    """Distances s_1..s_Q are drawn iid from the law, then placed; they are never drawn again.

    A question is the cells {a, a + 1, a + s}. The Q questions are put down as ``Packer`` does it,
    each uniformly over the starts that fit at its moment, then the P - Q unasked pairs {a, a + 1}.
    In a row where one finds no start, the questions are stirred and the unasked pairs put down
    again, up to ``n_sweeps`` times; what is stuck even then is placed afresh, in up to
    ``max_attempts`` attempts, always with the distances it drew first. So the law is exact and
    distances are independent; positions are not uniform, because packing crowds the ends of a row
    (a sixteenth at an end holds 10 % more writes at density .25, 15 % at .38, 30 % at .60).

    Accepted is a density (3Q + 2(P - Q)) / T of at most .60 and distances within 2..T/2. At .60
    the first pass is stuck in 0 to 10 % of rows under uniform and log-uniform laws, and in nearly
    all under a single distance near T/3, where writes and queries compete for the middle of the
    row; one attempt's sweeps placed every row of every law tried (T = 10 to 500).

    Re-bound keys follow ``share_keys``. Where every distinct key is asked (Q = P - R), a re-binding
    pair has no key to take inside the core, the cells between the last of the writes and the first
    of the queries, which are closed to it. The core's mean length is at most 2 s_max / (Q + 1)
    (writes spread evenly), and the density must then hold without those cells.
    """

    name = "stream"
    max_attempts = 32
    n_sweeps = 16

    def __init__(self, spec: LayoutSpec) -> None:
        n_pairs, n_queries = spec.n_kv_pairs, spec.n_queries
        shortest = -(-5 * (2 * n_pairs + n_queries) // 3)
        if spec.seq_len < shortest:
            raise ValueError(
                f"task.seq_len={spec.seq_len} is too short for task.n_kv_pairs={n_pairs} and "
                f"task.n_queries={n_queries}: task.layout=stream needs seq_len >= {shortest}, "
                f"as (3 n_queries + 2 (n_kv_pairs - n_queries)) / seq_len must not exceed .60"
            )
        lattice = np.arange(2, spec.seq_len // 2 + 1)
        law = spec.distance or Uniform(lo=2, hi=spec.seq_len // 2)
        self.spec = spec
        self._law = law.table(lattice)
        self._n_unasked = n_pairs - n_queries
        self._has_core = spec.n_rebound > 0 and n_queries == n_pairs - spec.n_rebound
        if self._has_core:
            self._check_core()
        # Hall's condition for the worst draw of distances; density and support imply it.
        farthest = int(self._law.support[-1])
        assert n_queries <= (spec.seq_len - farthest + 1) // 2

    def _check_core(self) -> None:
        spec = self.spec
        cells = 2 * spec.n_kv_pairs + spec.n_queries
        core = -(-2 * int(self._law.support[-1]) // (spec.n_queries + 1))
        shortest = -(-5 * cells // 3) + core
        if spec.seq_len < shortest:
            raise ValueError(
                f"task.rebind_rate re-binds {spec.n_rebound} of task.n_kv_pairs={spec.n_kv_pairs} "
                f"and task.n_queries={spec.n_queries} asks every key left: task.layout=stream then "
                f"needs seq_len >= {shortest} (it is {spec.seq_len}), shorter distances or fewer "
                f"queries"
            )

    @property
    def distances(self) -> LawTable:
        return self._law

    def place(self, keys: Tensor) -> Placement:
        n_rows = max(1, _CELLS_PER_BLOCK // self.spec.seq_len)
        blocks = [self._place(keys[i : i + n_rows], i) for i in range(0, len(keys), n_rows)]
        pair_pos, query_pos, asked = (torch.cat(part) for part in zip(*blocks, strict=True))
        n_rebound = self.spec.n_rebound
        key_id = share_keys(keys, pair_pos, asked, query_pos, n_rebound) if n_rebound else None
        return Placement(pair_pos=pair_pos, query_pos=query_pos, asked=asked, key_id=key_id)

    def _place(self, keys: Tensor, first_row: int) -> tuple[Tensor, Tensor, Tensor]:
        """``pair_pos``, ``query_pos`` and ``asked`` of rows that share a cache-sized block."""
        n_queries = self.spec.n_queries
        distance = self._law.sample(lanes32(keys, _STREAM_DISTANCES, n_queries))
        start = self._pack(keys, distance, attempt=0)
        rows = torch.nonzero((start < 0).any(1))[:, 0]
        for attempt in range(self.max_attempts):
            if not len(rows):
                break
            if attempt:
                start[rows] = self._pack(keys[rows], distance[rows], attempt)
            start[rows] = self._unstick(keys[rows], distance[rows], start[rows], attempt)
            rows = rows[(start[rows] < 0).any(1)]
        if len(rows):
            worst = int(rows[0])
            raise StuckRow(
                first_row + worst,
                f"has distances {distance[worst].tolist()} that found no place in "
                f"{self.max_attempts} attempts (row key {int(keys[worst])})",
            )
        pair_pos, rank = in_order(start, self.spec.seq_len)
        return pair_pos, start[:, :n_queries] + distance, rank[:, :n_queries]

    def _pack(self, keys: Tensor, distance: Tensor, attempt: int) -> Tensor:
        """(B, P) starts, the asked pairs first; -1 for what found no place."""
        packer = Packer(keys, self.spec.seq_len, _BESIDE, attempt)
        asked = packer.put(distance)
        if self._has_core:
            packer.block(self._core(asked, distance))
        if not self._n_unasked:
            return asked
        return torch.cat([asked, packer.put(self._unasked_spans(keys))], 1)

    def _unstick(self, keys: Tensor, distance: Tensor, start: Tensor, attempt: int) -> Tensor:
        """The starts after stirring: of the questions, with the unasked pairs put down afresh."""
        start = start.clone()
        rows = torch.arange(len(keys), device=keys.device)
        for sweep in range(self.n_sweeps):
            bits = lanes32(keys[rows], _STREAM_SWEEPS + sweep, self.spec.n_kv_pairs, attempt)
            span, asked = distance[rows], start[rows, : self.spec.n_queries]
            free = uncovered(asked, span, _BESIDE, self.spec.seq_len)
            stir(free, asked, span, _BESIDE, bits)
            if self._has_core:
                free &= ~self._core(asked, span)
            ones = self._unasked_spans(rows)
            unasked = torch.full_like(ones, -1)
            stir(free, unasked, ones, _BESIDE, bits[:, self.spec.n_queries :])
            start[rows] = torch.cat([asked, unasked], 1)
            rows = rows[(start[rows] < 0).any(1)]
            if not len(rows):
                break
        return start

    def _core(self, asked: Tensor, distance: Tensor) -> Tensor:
        """(B, T) bool: cells between the last of the writes and the first of the queries."""
        cell = torch.arange(self.spec.seq_len, device=asked.device)
        last_write = asked.amax(1, keepdim=True)
        return (cell > last_write) & (cell < (asked + distance).amin(1, keepdim=True))

    def _unasked_spans(self, like: Tensor) -> Tensor:
        return torch.ones_like(like)[:, None].expand(-1, self._n_unasked)
