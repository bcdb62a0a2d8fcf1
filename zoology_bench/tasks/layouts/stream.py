"""Pairs and queries anywhere in the row, at distances of any law up to half its length."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.random import lanes32
from zoology_bench.tasks.distance import LawTable, Uniform
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec, Placement
from zoology_bench.tasks.layouts.packing import Packer, in_order
from zoology_bench.tasks.layouts.rebind import share_keys

_STREAM_DISTANCES = 16
_CELLS_PER_BLOCK = 1 << 21


class Stream(Layout):
    """Distances s_1..s_Q are drawn iid from the law, then placed; they are never drawn again.

    One question after the other takes the cells {a, a + 1, a + s}, with ``a`` uniform over the
    starts that still fit; then each of the P - Q unasked pairs takes {a, a + 1} likewise. A row in
    which one of them finds no start is placed again, with the same distances, up to
    ``max_attempts`` times. So the law is exact and distances are independent; positions are not
    uniform, because packing crowds the ends of a row (by 10 to 40 %, more with density).

    Accepted is a density (3Q + 2(P - Q)) / T of at most .60 and distances within 2..T/2.
    Exhaustive search finds a placement for every row accepted with T <= 12.

    Re-bound keys follow ``share_keys``. Where every distinct key is asked (Q = P - R), a re-binding
    pair has no key to take inside the core, the cells between the last of the writes and the first
    of the queries, which are closed to it. The core's mean length is at most 2 s_max / (Q + 1)
    (writes spread evenly), and the density must then hold without those cells.
    """

    name = "stream"
    max_attempts = 32

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
        start, stuck = self._pack(keys, distance, attempt=0)
        rows = torch.nonzero(stuck)[:, 0]
        for attempt in range(1, self.max_attempts):
            if not len(rows):
                break
            start[rows], stuck = self._pack(keys[rows], distance[rows], attempt)
            rows = rows[stuck]
        if len(rows):
            worst = int(rows[0])
            raise RuntimeError(
                f"row {first_row + worst} of the block (row key {int(keys[worst])}) has distances "
                f"{distance[worst].tolist()} that found no place in {self.max_attempts} attempts"
            )
        pair_pos, rank = in_order(start, self.spec.seq_len)
        return pair_pos, start[:, :n_queries] + distance, rank[:, :n_queries]

    def _pack(self, keys: Tensor, distance: Tensor, attempt: int) -> tuple[Tensor, Tensor]:
        """(B, P) starts, the asked pairs first, and (B,) the rows that got stuck."""
        spec = self.spec
        packer = Packer(keys, spec.seq_len, (1,), attempt)
        asked = [packer.put(span) for span in distance.t().contiguous()]
        if self._has_core:
            last_write = torch.stack(asked, 1).amax(1, keepdim=True)
            first_query = (torch.stack(asked, 1) + distance).amin(1, keepdim=True)
            cell = torch.arange(spec.seq_len, device=keys.device)
            packer.block((cell > last_write) & (cell < first_query))
        one = torch.ones_like(keys)
        unasked = [packer.put(one) for _ in range(spec.n_kv_pairs - spec.n_queries)]
        return torch.stack(asked + unasked, 1), packer.stuck
