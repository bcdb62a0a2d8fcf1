"""The validator agrees with exhaustive search for all T <= 12, P <= 3 in official and prefix."""

from itertools import combinations, product

import pytest

from zoology_bench.tasks.distance import Fixed, Uniform
from zoology_bench.tasks.mqar import MQAR

SIZES = [(t, p, q) for t in range(3, 13) for p in (1, 2, 3) for q in range(1, p + 1)]


def is_accepted(**fields) -> bool:
    try:
        MQAR(vocab_size=80, **fields)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("seq_len", "n_pairs"), sorted({(t, p) for t, p, _ in SIZES}))
def test_official_is_accepted_iff_every_pair_finds_a_slot(seq_len, n_pairs):
    """Slots are the even offsets after the pairs."""
    slots = [c for c in range(2 * n_pairs, seq_len) if c % 2 == 0]
    feasible = seq_len % 2 == 0 and len(slots) >= n_pairs
    accepted = is_accepted(layout="official", seq_len=seq_len, n_kv_pairs=n_pairs)
    assert accepted == feasible


@pytest.mark.parametrize(("seq_len", "n_pairs", "n_queries"), SIZES)
def test_prefix_accepts_the_fixed_sets_that_never_leave_the_row_nor_collide(
    seq_len, n_pairs, n_queries
):
    """Every way to draw the asked keys and their distances must fit as drawn."""
    for values in (*combinations(range(1, 13), 1), *combinations(range(1, 13), 2)):
        feasible = all(
            _fits(asked, distances, n_pairs, seq_len)
            for asked in combinations(range(n_pairs), n_queries)
            for distances in product(values, repeat=n_queries)
        )
        accepted = is_accepted(
            seq_len=seq_len,
            n_kv_pairs=n_pairs,
            n_queries=n_queries,
            distance=Fixed(values=list(values)),
        )
        assert accepted == feasible, values


def _fits(asked, distances, n_pairs: int, seq_len: int) -> bool:
    cells = [2 * pair + distance for pair, distance in zip(asked, distances, strict=True)]
    inside = all(2 * n_pairs <= cell < seq_len for cell in cells)
    return inside and len(set(cells)) == len(cells)


@pytest.mark.parametrize(("seq_len", "n_pairs", "n_queries"), SIZES)
def test_prefix_accepts_the_intervals_whose_every_draw_can_be_arranged(seq_len, n_pairs, n_queries):
    """Every draw must fit after some exchange of distances, and every key take every distance."""
    for lo, hi in combinations(range(1, 13), 2):
        feasible = all(
            2 * n_pairs <= 2 * pair + s < seq_len for pair in range(n_pairs) for s in (lo, hi)
        )
        accepted = is_accepted(
            seq_len=seq_len,
            n_kv_pairs=n_pairs,
            n_queries=n_queries,
            distance=Uniform(lo=lo, hi=hi),
        )
        assert accepted == feasible, (lo, hi)
        if accepted:
            _check_every_draw_can_be_arranged(lo, hi, n_pairs, n_queries, seq_len)


def _check_every_draw_can_be_arranged(lo, hi, n_pairs, n_queries, seq_len) -> None:
    for asked in combinations(range(n_pairs), n_queries):
        for drawn in product(range(lo, hi + 1), repeat=n_queries):
            assert _fits(asked, sorted(drawn), n_pairs, seq_len)
