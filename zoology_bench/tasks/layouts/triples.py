"""Key, value, question, key, value, question ...: a question in every third cell."""

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.random import lanes32
from zoology_bench.tasks.distance import LawTable, Uniform
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec, Placement
from zoology_bench.tasks.layouts.packing import Packer, in_order
from zoology_bench.tasks.layouts.rebind import share_keys
from zoology_bench.tasks.layouts.stirring import stir, uncovered

_STREAM_LAGS = 16
_STREAM_MIRROR = 17
_STREAM_SWEEPS = 18
_CELLS_PER_BLOCK = 1 << 21


class Triples(Layout):
    """M triples (key, value, question) fill the row: T = 3M, P = M, triple i starts at 3i.

    Lags g_1..g_Q are drawn iid from the law (s = 3g + 2, 1 <= g <= M - 1) and never drawn again.
    Then each gets a triple w to ask about, and triple w + g to ask in, as ``Packer`` does it,
    uniformly over the w where both are free at its moment: each key is asked at most once, each
    triple asks at most once. Unasked question cells hold the blank.

    Valid iff Q <= M - g_max. Necessary: Q equal lags g_max need Q different w below M - g_max.
    Sufficient: in ascending order of lag, w = 0, 1, .., Q - 1 fits, since w + g then strictly
    increases up to Q - 1 + g_max <= M - 1.

    A row where one finds no triple starts from that order or, with a fair coin, its mirror image,
    and is stirred ``n_sweeps`` times. So every row is placed and the law is exact at any Q. No row
    needs it at Q <= M / 2 or so; up to Q = .8 M stirring forgets the order, from .9 M on few moves
    exist and rows keep most of it: there, a key's position tells its distance within a row.

    Re-bound keys follow ``share_keys``, which needs an unasked key here (Q < P - R), because every
    triple between the writes and the queries holds a pair.
    """

    name = "triples"
    takes_filler = False
    n_sweeps = 16

    def __init__(self, spec: LayoutSpec) -> None:
        self.spec = spec
        self._n_triples = spec.n_kv_pairs
        _check_shape(spec)
        lattice = np.arange(5, spec.seq_len, 3)
        law = spec.distance or Uniform(lo=5, hi=3 * (self._n_triples - spec.n_queries) + 2)
        self._law = law.table(lattice)
        most = self._n_triples - (int(self._law.support[-1]) - 2) // 3
        if spec.n_queries > most:
            raise ValueError(
                f"task.n_queries={spec.n_queries} is too many for task.distance up to "
                f"{self._law.support[-1]} and task.seq_len={spec.seq_len}: "
                f"task.layout=triples needs n_queries <= {most}"
            )

    @property
    def distances(self) -> LawTable:
        return self._law

    def place(self, keys: Tensor) -> Placement:
        n_rows = max(1, _CELLS_PER_BLOCK // self.spec.seq_len)
        lag = (self._law.sample(lanes32(keys, _STREAM_LAGS, self.spec.n_queries)) - 2) // 3
        asked = torch.cat(
            [
                self._place(keys[i : i + n_rows], lag[i : i + n_rows])
                for i in range(0, len(keys), n_rows)
            ]
        )
        pair_pos = torch.arange(0, self.spec.seq_len, 3, device=keys.device).expand(len(keys), -1)
        query_pos = 3 * (asked + lag) + 2
        n_rebound = self.spec.n_rebound
        key_id = share_keys(keys, pair_pos, asked, query_pos, n_rebound) if n_rebound else None
        return Placement(pair_pos=pair_pos, query_pos=query_pos, asked=asked, key_id=key_id)

    def _place(self, keys: Tensor, lag: Tensor) -> Tensor:
        """(B, Q) asked triples of rows that share a cache-sized block."""
        # Cell w of 2M: triple w is asked about; cell M + i: triple i asks.
        span = self._n_triples + lag
        asked = Packer(keys, 2 * self._n_triples, (), attempt=0).put(span)
        rows = torch.nonzero((asked < 0).any(1))[:, 0]
        if len(rows):
            asked[rows] = self._stirred(keys[rows], lag[rows])
        return asked

    def _stirred(self, keys: Tensor, lag: Tensor) -> Tensor:
        """(b, Q) asked triples: the placement that always exists, moved about at random."""
        _, rank = in_order(lag, self._n_triples)
        mirrored = lanes32(keys, _STREAM_MIRROR, 1) < 0
        asked = torch.where(mirrored, self._n_triples - 1 - rank - lag, rank)
        span = self._n_triples + lag
        free = uncovered(asked, span, (), 2 * self._n_triples)
        for sweep in range(self.n_sweeps):
            stir(free, asked, span, (), lanes32(keys, _STREAM_SWEEPS, lag.shape[1], sweep))
        return asked


def _check_shape(spec: LayoutSpec) -> None:
    if spec.seq_len % 3:
        raise ValueError(
            f"task.seq_len={spec.seq_len} must be a multiple of 3 for task.layout=triples"
        )
    if 3 * spec.n_kv_pairs != spec.seq_len:
        raise ValueError(
            f"task.n_kv_pairs={spec.n_kv_pairs} must be task.seq_len / 3 = {spec.seq_len // 3} "
            f"for task.layout=triples"
        )
    most = spec.n_kv_pairs - spec.n_rebound - 1
    if spec.n_queries > most:
        why = f" and task.rebind_rate re-binds {spec.n_rebound}" if spec.n_rebound else ""
        raise ValueError(
            f"task.n_queries={spec.n_queries} is too many for task.n_kv_pairs={spec.n_kv_pairs}"
            f"{why}: task.layout=triples needs n_queries <= {most}"
        )
