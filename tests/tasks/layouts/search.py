"""Exhaustive search on rows small enough for it: what can be placed, and with which probability."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations

Shape = tuple[int, ...]


def can_pack(n_cells: int, shapes: tuple[Shape, ...]) -> bool:
    """Whether shapes, given as offsets from their start, fit a row without overlap."""

    @cache
    def place(index: int, taken: int) -> bool:
        if index == len(shapes):
            return True
        shape = sum(1 << offset for offset in shapes[index])
        starts = range(n_cells - max(shapes[index]))
        return any(not taken & shape << a and place(index + 1, taken | shape << a) for a in starts)

    return place(0, 0)


def stream_shapes(distances: tuple[int, ...], n_unasked: int) -> tuple[Shape, ...]:
    return tuple((0, 1, s) for s in distances) + ((0, 1),) * n_unasked


def triple_shapes(n_triples: int, lags: tuple[int, ...]) -> tuple[Shape, ...]:
    """On 2M cells: triple w asked about, and triple w + g (cell M + w + g) asking."""
    return tuple((0, n_triples + lag) for lag in lags)


def probe_rows(seq_len: int, n_pairs: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Every (pair positions, query position, index of the asked pair) with all pairs before."""
    for items in combinations(range(seq_len - n_pairs), n_pairs):
        pairs = tuple(item + i for i, item in enumerate(items))
        for query in range(pairs[-1] + 2, seq_len):
            for asked in range(n_pairs):
                yield pairs, query, asked


def probe_rows_by_law(
    seq_len: int, n_pairs: int
) -> dict[tuple[int, int], dict[int, list[tuple[int, ...]]]]:
    """The same rows by (s, b), then by query position."""
    table = defaultdict(lambda: defaultdict(list))
    for pairs, query, asked in probe_rows(seq_len, n_pairs):
        table[query - pairs[asked], n_pairs - 1 - asked][query].append(pairs)
    return table


def packing_law(
    n_cells: int, shapes: tuple[Shape, ...], n_turns: int
) -> dict[tuple[int, ...], float]:
    """Probability of each tuple of starts when shapes take turns, then pick; -1 where stuck."""
    law = {(None,) * len(shapes): 1.0}
    for turn in range(n_turns + 1):
        for index in range(len(shapes)):
            law = _advance(law, index, n_cells, shapes, picks=turn == n_turns)
    return law


def _advance(law, index: int, n_cells: int, shapes, *, picks: bool):
    after = defaultdict(float)
    for state, probability in law.items():
        if state[index] is not None:
            after[state] += probability
            continue
        taken = {
            start + offset
            for start, shape in zip(state, shapes, strict=True)
            if start is not None and start >= 0
            for offset in shape
        }
        starts = range(n_cells - max(shapes[index]))
        fits = [a for a in starts if not taken & {a + offset for offset in shapes[index]}]
        for a in fits:
            put = (*state[:index], a, *state[index + 1 :])
            after[put] += probability / len(fits if picks else starts)
        if picks and not fits:
            after[(*state[:index], -1, *state[index + 1 :])] += probability
        if not picks:
            after[state] += probability * (1 - len(fits) / len(starts))
    return after
