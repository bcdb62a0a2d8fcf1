"""What official and prefix share: P pairs fill positions 0..2P-1, some of them re-bind keys."""

import torch
from torch import Tensor

from zoology_bench.data.distinct import Distinct
from zoology_bench.data.random import bounded, lanes32
from zoology_bench.tasks.layouts.base import LayoutSpec

_STREAM_REBOUND = 1
_STREAM_PARENTS = 2
_STREAM_ASKED = 3
FIRST_FREE_STREAM = 16


class PairsFirst:
    """Chooses which pairs re-bind a key, which key, and which keys are asked.

    R of the pairs 1..P-1, a uniform subset, re-bind; each takes one of the distinct keys written
    before it, uniformly. The asked keys are a uniform Q-subset of the P - R distinct keys.
    """

    def __init__(self, spec: LayoutSpec) -> None:
        self._n_pairs = spec.n_kv_pairs
        self._n_keys = spec.n_kv_pairs - spec.n_rebound
        self._n_queries = spec.n_queries
        self._rebound = None
        if spec.n_rebound:
            self._rebound = Distinct(spec.n_rebound, spec.n_kv_pairs - 1, _STREAM_REBOUND)
        self._chosen = None
        if spec.n_queries < self._n_keys:
            self._chosen = Distinct(spec.n_queries, self._n_keys, _STREAM_ASKED)

    def __call__(self, keys: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """(asked, key_id) of ``Placement`` for row keys (B,); asked ascends within a row."""
        key_id = None if self._rebound is None else self._key_ids(self._rebound, keys)
        if key_id is None and self._chosen is None:
            return None, None
        if self._chosen is None:
            chosen = torch.arange(self._n_keys, device=keys.device).expand(len(keys), -1)
        else:
            chosen = self._chosen(keys).long()
        if key_id is not None:
            chosen = self._last_writes(key_id).gather(1, chosen)
        return torch.sort(chosen, dim=1).values, key_id

    def _key_ids(self, rebound: Distinct, keys: Tensor) -> Tensor:
        is_new = torch.ones(len(keys), self._n_pairs, dtype=torch.int64, device=keys.device)
        is_new.scatter_(1, rebound(keys).long() + 1, 0)
        n_written = torch.cumsum(is_new, dim=1)
        parent = bounded(lanes32(keys, _STREAM_PARENTS, self._n_pairs), n_written)
        return torch.where(is_new == 1, n_written - 1, parent)

    def _last_writes(self, key_id: Tensor) -> Tensor:
        """(B, P - R) index of the last pair that wrote each key."""
        pair = torch.arange(self._n_pairs, device=key_id.device).expand_as(key_id)
        last = torch.zeros(len(key_id), self._n_keys, dtype=torch.int64, device=key_id.device)
        return last.scatter_reduce_(1, key_id, pair, "amax")
