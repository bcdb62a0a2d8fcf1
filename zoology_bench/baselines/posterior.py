"""Which pair does a query ask, given where it and all pairs stand? Bayes' rule on each law.

Letters: n rows, P pairs, Q queries, T cells, s distance. A posterior never looks at a token.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np

from zoology_bench.baselines.asked import asked_law
from zoology_bench.tasks.distance import LawTable
from zoology_bench.tasks.layouts.base import Layout
from zoology_bench.tasks.layouts.probe import Probe
from zoology_bench.tasks.layouts.slot_law import slot_law
from zoology_bench.validation import unknown_name


class Posterior(Protocol):
    """One layout's posterior over the pairs."""

    exact: bool
    """False where the formula leaves out that shapes on a row exclude each other."""

    def __call__(self, pair_pos: np.ndarray, query_pos: np.ndarray) -> np.ndarray:
        """(n, Q, P) float64 probabilities that a query asks each pair, were it not absent.

        Args:
            pair_pos: (n, P) ascending positions of the pairs' keys.
            query_pos: (n, Q).
        """
        ...


class TablePosterior:
    """Where pairs stand still: the posterior depends on the query's position alone.

    Args:
        joint: (T, P) probability that a query, taken at random, stands at a cell and asks a pair.
        exact: whether that is the law to rounding.
    """

    def __init__(self, joint: np.ndarray, exact: bool) -> None:
        self.joint, self.exact = joint, exact
        total = joint.sum(axis=1, keepdims=True)
        self._conditional = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)

    def __call__(self, pair_pos: np.ndarray, query_pos: np.ndarray) -> np.ndarray:
        return self._conditional[query_pos]


@lru_cache(maxsize=16)
def drawn_slots(n_slots: int, n_draws: int, power_a: float) -> np.ndarray:
    """(n_draws, n_slots) probability that the i-th draw takes a slot, p(g) ~ g^(a - 1)."""
    return slot_law(n_slots, n_draws, 1 - power_a)


def official(layout: Layout) -> TablePosterior:
    """The i-th drawn slot goes to the i-th asked pair: successive sampling, integrated exactly."""
    spec = layout.spec
    n_slots = (spec.seq_len - 2 * spec.n_kv_pairs) // 2
    slots = drawn_slots(n_slots, spec.n_queries, spec.power_a)
    asked = asked_law(spec.n_kv_pairs, spec.n_rebound, spec.n_queries)
    joint = np.zeros((spec.seq_len, spec.n_kv_pairs))
    joint[2 * spec.n_kv_pairs :: 2] = slots.T @ asked / spec.n_queries
    return TablePosterior(joint, exact=True)


def prefix(layout: Layout) -> TablePosterior:
    """Pair i stands at 2i and its distance follows the law, whatever i is.

    Exact where no two queries can meet on a cell; else the exchange of distances that separates
    them moves the joint law a little (the marginal law stays exact).
    """
    spec = layout.spec
    table = layout.distances
    shares = asked_law(spec.n_kv_pairs, spec.n_rebound, spec.n_queries).mean(axis=0)
    joint = np.zeros((spec.seq_len, spec.n_kv_pairs))
    for pair, share in enumerate(shares):
        joint[2 * pair + table.support, pair] = share * table.probabilities
    gaps = np.subtract.outer(table.support, table.support)
    meet = (gaps > 0) & (gaps % 2 == 0) & (gaps <= 2 * (spec.n_kv_pairs - 1))
    return TablePosterior(joint, exact=spec.n_queries == 1 or not meet.any())


def triples(layout: Layout) -> TablePosterior:
    """Pair i stands at 3i, the query that asks it in the same third of triple i + g, s = 3g + 2.

    Questions are put one by one on triples and pairs that are still free; that they exclude each
    other is left out.
    """
    spec = layout.spec
    n_triples = spec.n_kv_pairs
    joint = np.zeros((spec.seq_len, n_triples))
    for distance, probability in zip(
        layout.distances.support, layout.distances.probabilities, strict=True
    ):
        gap = (distance - 2) // 3
        pair = np.arange(n_triples - gap)
        joint[3 * pair + distance, pair] = probability / len(pair)
    return TablePosterior(joint, exact=spec.n_queries == 1)


class StreamPosterior:
    """Pairs and queries anywhere: a question {a, a + 1, a + s} starts uniformly where it fits.

    Given that a pair is asked, its query stands s behind it with probability in proportion to
    p(s) / (T - s). That a pair is asked at all is likelier where many distances fit behind it. That
    questions exclude each other is left out.
    """

    exact = False

    def __init__(self, layout: Layout) -> None:
        spec, table = layout.spec, layout.distances
        self._by_distance = np.zeros(spec.seq_len)
        starts = spec.seq_len - table.support
        self._by_distance[table.support] = table.probabilities / starts
        # Chance that a question starts at cell a; 1 / (T - 1) would be that of an unasked pair.
        room = np.concatenate(([0.0], np.cumsum(self._by_distance)))[::-1][:-1]
        # By what a pair's position says under "asked by another query or by none" it is divided:
        # of the P - 1 other pairs Q - 1 are asked.
        others = (spec.n_queries - 1) / max(1, spec.n_kv_pairs - 1)
        self._weight = 1 / (1 - others + others * room * (spec.seq_len - 1) + 1e-300)

    def __call__(self, pair_pos: np.ndarray, query_pos: np.ndarray) -> np.ndarray:
        distance = query_pos[:, :, None] - pair_pos[:, None, :]
        density = np.where(distance > 0, self._by_distance[np.maximum(distance, 0)], 0.0)
        density *= self._weight[pair_pos][:, None, :]
        return density / density.sum(axis=2, keepdims=True)


class ProbePosterior:
    """One query, all pairs before it: the exact posterior given every position of the row.

    Pair i has b = P - 1 - i pairs behind it and s = q - a. Given s, b and q, the b pairs lie
    uniformly among the C(s - 2 - b, b) ways to put them on s - 2 cells, the i pairs before it among
    the C(a - i, i) ways on a cells; q is uniform whatever s and b are.
    """

    exact = True

    def __init__(self, layout: Layout) -> None:
        n_pairs, seq_len = layout.spec.n_kv_pairs, layout.spec.seq_len
        if not isinstance(layout, Probe):
            raise TypeError(f"layout {layout.name} has no law of the binding distance")
        index = np.arange(n_pairs)
        self._index = index
        self._log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, seq_len + 1)))))
        self._log_distance = _log_mass(layout.distances, seq_len)
        self._log_binding = _log_mass(layout.binding_distances, n_pairs)[n_pairs - 1 - index]

    def __call__(self, pair_pos: np.ndarray, query_pos: np.ndarray) -> np.ndarray:
        i, behind = self._index, self._index[::-1]
        distance = query_pos - pair_pos
        logit = self._log_binding + self._log_distance[distance]
        logit -= self._log_choose(distance - 2 - behind, behind)
        logit -= self._log_choose(pair_pos - i, i)
        weight = np.exp(logit - logit.max(axis=1, keepdims=True))
        return (weight / weight.sum(axis=1, keepdims=True))[:, None, :]

    def _log_choose(self, n: np.ndarray, k: np.ndarray) -> np.ndarray:
        table = self._log_factorial
        return table[n] - table[k] - table[n - k]


def _log_mass(table: LawTable, size: int) -> np.ndarray:
    """(size,) log probability of each integer, -inf off the support."""
    mass = np.full(size, -np.inf)
    mass[table.support] = np.log(table.probabilities)
    return mass


POSTERIORS: dict[str, Callable[[Layout], Posterior]] = {
    "official": official,
    "prefix": prefix,
    "stream": StreamPosterior,
    "triples": triples,
    "probe": ProbePosterior,
}


def posterior_of(layout: Layout) -> Posterior:
    """The posterior of one bound layout.

    Raises:
        ValueError: a layout without one.
    """
    if layout.name not in POSTERIORS:
        raise unknown_name("task.layout", layout.name, POSTERIORS)
    return POSTERIORS[layout.name](layout)
