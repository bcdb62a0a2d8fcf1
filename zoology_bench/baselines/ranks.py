"""Which pair does the r-th query of a row ask? Exact where it can be enumerated, else sampled."""

from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb, factorial

import numpy as np

from zoology_bench.baselines.asked import asked_law
from zoology_bench.baselines.posterior import drawn_slots
from zoology_bench.baselines.sampling import layout_key, sampled_positions
from zoology_bench.tasks.layouts.base import Layout

_MAX_ENUMERATED = 500_000
"""Sets of slots times orders up to which the official layout is enumerated: below a second."""


_known: dict[str, "RankLaw"] = {}


@dataclass(frozen=True, slots=True)
class RankLaw:
    """Joint law of a query's rank among the row's queries and of the pair it asks."""

    joint: np.ndarray
    """(Q, P) float64, sums to one."""
    exact: bool


def rank_law(layout: Layout, n_rows: int) -> RankLaw:
    """The rank law of one bound layout; computed once per process.

    Args:
        layout: the bound layout.
        n_rows: sampled rows 0..n_rows-1 are counted where no exact route exists.
    """
    key = f"{layout_key(layout)}|{n_rows}"
    if key not in _known:
        _known[key] = _rank_law(layout, n_rows)
    return _known[key]


def _rank_law(layout: Layout, n_rows: int) -> RankLaw:
    if layout.name == "official":
        spec = layout.spec
        n_slots = (spec.seq_len - 2 * spec.n_kv_pairs) // 2
        order = _order_law(n_slots, spec.n_queries, spec.power_a)
        if order is not None:
            asked = asked_law(spec.n_kv_pairs, spec.n_rebound, spec.n_queries)
            return RankLaw(order @ asked / spec.n_queries, exact=True)
    return RankLaw(_sampled(layout, n_rows), exact=False)


def _order_law(n_slots: int, n_draws: int, power_a: float) -> np.ndarray | None:
    """(Q, Q) probability that the r-th smallest slot was drawn i-th; None where out of reach."""
    if n_slots == n_draws:
        return drawn_slots(n_slots, n_draws, power_a).T
    if comb(n_slots, n_draws) * factorial(n_draws) > _MAX_ENUMERATED:
        return None
    weights = np.arange(1, n_slots + 1, dtype=np.float64) ** (power_a - 1)
    return order_probabilities(weights, n_draws)[1].sum(axis=0)


def order_probabilities(weights: np.ndarray, n_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Successive sampling by enumeration: every set of slots, every order of drawing it.

    Args:
        weights: (S,) positive; each draw takes one of the slots left in proportion to them.
        n_draws: slots drawn.

    Returns:
        sets: (n_sets, n_draws) ascending slots.
        placed: (n_sets, n_draws, n_draws) probability that the set is drawn and its r-th smallest
            slot is the i-th draw, indexed [set, r, i].
    """
    sets = np.array(list(combinations(range(len(weights)), n_draws)))
    undrawn = np.tile(weights, (len(sets), 1))
    np.put_along_axis(undrawn, sets, 0, axis=1)
    never = undrawn.sum(axis=1, keepdims=True)
    placed = np.zeros((len(sets), n_draws, n_draws))
    for order in permutations(range(n_draws)):
        drawn = weights[sets[:, order]]
        # Sums of what is left, not differences: weights may span more than a float's digits.
        left = never + np.cumsum(drawn[:, ::-1], axis=1)[:, ::-1]
        placed[:, order, range(n_draws)] += np.prod(drawn / left, axis=1)[:, None]
    return sets, placed


def _sampled(layout: Layout, n_rows: int) -> np.ndarray:
    n_queries, n_pairs = layout.spec.n_queries, layout.spec.n_kv_pairs
    counts = np.zeros(n_queries * n_pairs)
    for block in sampled_positions(layout, 0, n_rows):
        cell = np.arange(0, n_queries * n_pairs, n_pairs) + block.by_rank().asked
        counts += np.bincount(cell.ravel(), minlength=len(counts))
    return (counts / counts.sum()).reshape(n_queries, n_pairs)
