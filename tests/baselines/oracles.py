"""Brute-force optima of content-blind guessing on cases small enough to list everything."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise, permutations, product

import numpy as np

Outcome = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Positions of the pairs, positions of the queries, which pair each query asks."""
Weighted = tuple[Outcome, float]
"""An outcome and its probability."""


def official_outcomes(seq_len: int, n_pairs: int, power_a: float) -> Iterator[Weighted]:
    """Every placement of the official layout with its probability, by drawing slot after slot."""
    n_slots = (seq_len - 2 * n_pairs) // 2
    weight = [g ** (power_a - 1) for g in range(1, n_slots + 1)]
    pairs = tuple(range(0, 2 * n_pairs, 2))
    for drawn in permutations(range(n_slots), n_pairs):
        left, probability = sum(weight), 1.0
        for slot in drawn:
            probability *= weight[slot] / left
            left -= weight[slot]
        queries = tuple(2 * n_pairs + 2 * slot for slot in drawn)
        yield (pairs, queries, tuple(range(n_pairs))), probability


def two_pair_prefix_outcomes(distances: list[int]) -> Iterator[Weighted]:
    """Prefix with two pairs and a uniform law: a collision has one way out, the exchange."""
    for first, second in product(distances, repeat=2):
        if first == second + 2:
            first, second = second, first
        yield ((0, 2), (first, 2 + second), (0, 1)), 1 / len(distances) ** 2


def probe_outcomes(
    n_pairs: int, distances: list[int], bindings: list[int], seq_len: int
) -> Iterator[Weighted]:
    """Every placement of the probe layout with uniform laws, by its definition."""
    firsts = max(distances) + 2 * (n_pairs - 1 - min(bindings))
    queries = range(firsts, seq_len)
    each = 1 / (len(distances) * len(bindings) * len(queries))
    for s, b, q in product(distances, bindings, queries):
        write, before = q - s, n_pairs - 1 - b
        insides = list(dominoes(range(write + 2, q), b))
        outsides = list(dominoes(range(write), before))
        for inside, outside in product(insides, outsides):
            pairs = (*outside, write, *inside)
            yield (pairs, (q,), (before,)), each / (len(insides) * len(outsides))


def stream_outcomes(n_pairs: int, distances: list[int], seq_len: int) -> Iterator[Weighted]:
    """Every placement of the stream layout with one query and at most two pairs, uniform law."""
    for s in distances:
        for a in range(seq_len - s):
            probability = 1 / (len(distances) * (seq_len - s))
            if n_pairs == 1:
                yield ((a,), (a + s,), (0,)), probability
                continue
            taken = {a, a + 1, a + s}
            free = [c for c in range(seq_len - 1) if not {c, c + 1} & taken]
            for c in free:
                pairs = tuple(sorted((a, c)))
                yield (pairs, (a + s,), (pairs.index(a),)), probability / len(free)


def dominoes(cells: range, n: int) -> Iterator[tuple[int, ...]]:
    """Every way to put n pairs of neighbouring cells into a run of cells, as their first cells."""
    for starts in combinations(cells[:-1], n):
        if all(b - a >= 2 for a, b in pairwise(starts)):
            yield starts


def optimum(outcomes: Iterator[Weighted], fact: str) -> float:
    """Best expected share of right pairs for guessers that see all pairs and one more thing.

    Args:
        outcomes: all outcomes with their probabilities.
        fact: position (the query's own), rank (among the row's queries), both, or all (positions of
            all of the row's queries, and which of them is asked about).
    """
    mass: dict[tuple, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    n_queries = 0
    for (pairs, queries, asked), probability in outcomes:
        n_queries = len(queries)
        for query, pair in zip(queries, asked, strict=True):
            rank = sorted(queries).index(query)
            seen = {
                "position": (pairs, query),
                "rank": (rank,),
                "both": (pairs, query, rank),
                "all": (pairs, tuple(sorted(queries)), rank),
            }[fact]
            mass[seen][pair] += probability
    return sum(max(by_pair.values()) for by_pair in mass.values()) / n_queries


def asked_law(n_pairs: int, n_rebound: int, n_queries: int) -> np.ndarray:
    """(Q, P) by listing which pairs re-bind, whose key each takes, and which keys are asked."""
    law = np.zeros((n_queries, n_pairs))
    choices = list(combinations(range(1, n_pairs), n_rebound))
    for rebinding in choices:
        for last, probability in _last_writes(n_pairs, rebinding):
            subsets = list(combinations(sorted(last), n_queries))
            for asked in subsets:
                for i, pair in enumerate(asked):
                    law[i, pair] += probability / (len(subsets) * len(choices))
    return law


def _last_writes(n_pairs: int, rebinding: tuple[int, ...]) -> Iterator[tuple[list[int], float]]:
    def extend(pair: int, last: list[int], probability: float) -> Iterator[tuple[list[int], float]]:
        if pair == n_pairs:
            yield last, probability
        elif pair in rebinding:
            for key in range(len(last)):
                moved = [pair if k == key else write for k, write in enumerate(last)]
                yield from extend(pair + 1, moved, probability / len(last))
        else:
            yield from extend(pair + 1, [*last, pair], probability)

    yield from extend(0, [], 1.0)
