"""The published generator's law: pairs first, queries in slots drawn by a power law of the gap."""

from fractions import Fraction
from functools import cached_property
from math import comb

import numpy as np
from torch import Tensor

from zoology_bench.data.race import Race
from zoology_bench.tasks.distance import LawTable
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec, Placement
from zoology_bench.tasks.layouts.prefix_pairs import FIRST_FREE_STREAM, PairsFirst
from zoology_bench.tasks.layouts.slot_law import slot_law

_STREAM_SLOTS = FIRST_FREE_STREAM
_MASS_BITS = 52


class Official(Layout):
    """P pairs, then queries at even offsets after them (arXiv:2312.04927, appendix on MQAR).

    Slots g = 1..(T - 2P)/2 are drawn one by one without replacement with p ~ g^(a - 1); the i-th
    drawn goes to the i-th asked pair, whose query stands at 2P + 2(g - 1). So the distance is even,
    correlated with the pair's index, and not free: ``distance`` must be unset.
    """

    name = "official"

    def __init__(self, spec: LayoutSpec) -> None:
        seq_len, n_pairs = spec.seq_len, spec.n_kv_pairs
        if seq_len % 2:
            raise ValueError(f"task.seq_len={seq_len} must be even for task.layout=official")
        if seq_len < 4 * n_pairs:
            raise ValueError(
                f"task.seq_len={seq_len} is too short for task.n_kv_pairs={n_pairs}: "
                f"task.layout=official needs seq_len >= {4 * n_pairs}"
            )
        if spec.distance is not None:
            raise ValueError(
                "task.distance must be unset (null) for task.layout=official, whose slots decide it"
            )
        self.spec = spec
        self.n_slots = (seq_len - 2 * n_pairs) // 2
        self.exponent = 1 - Fraction(repr(float(spec.power_a)))
        self._pairs = PairsFirst(spec)
        self._race = Race(self.n_slots, spec.n_queries, self.exponent, _STREAM_SLOTS)

    @cached_property
    def distances(self) -> LawTable:
        """The law of one row's queries, mixed; not to draw from, as those draws are dependent."""
        spec = self.spec
        if spec.n_rebound:
            raise NotImplementedError("distances: which pairs stay live has no closed form here")
        slots = slot_law(self.n_slots, spec.n_queries, float(self.exponent))
        lattice = np.array(self.distance_range)
        mass = np.zeros(len(lattice))
        for rank, slot_probabilities in enumerate(slots):
            for pair in range(rank, spec.n_kv_pairs - spec.n_queries + rank + 1):
                # In a uniform subset of pairs, listed in order, this pair comes at this rank.
                share = (
                    comb(pair, rank)
                    * comb(spec.n_kv_pairs - 1 - pair, spec.n_queries - 1 - rank)
                    / comb(spec.n_kv_pairs, spec.n_queries)
                )
                nearest = spec.n_kv_pairs - pair - 1
                mass[nearest : nearest + self.n_slots] += share * slot_probabilities
        weights = np.rint(mass * 2.0**_MASS_BITS).astype(np.int64)
        drawn = weights > 0
        return LawTable(lattice[drawn], weights[drawn].tolist())

    @property
    def distance_range(self) -> range:
        return range(2, self.spec.seq_len - 1, 2)

    @property
    def identity(self) -> str:
        return f"exponent={self.exponent}"

    def place(self, keys: Tensor) -> Placement:
        asked, key_id = self._pairs(keys)
        query_pos = self._race(keys).long()
        query_pos <<= 1
        query_pos += 2 * self.spec.n_kv_pairs
        return Placement(pair_pos=None, query_pos=query_pos, asked=asked, key_id=key_id)
