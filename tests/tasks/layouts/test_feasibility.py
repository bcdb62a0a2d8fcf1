"""The validators agree with exhaustive search for all T <= 12, P <= 3."""

from fractions import Fraction
from itertools import chain, combinations, product

import pytest

from tests.tasks.layouts.cases import is_accepted, layout, placed
from tests.tasks.layouts.search import (
    can_pack,
    probe_rows_by_law,
    stream_shapes,
    triple_shapes,
)
from zoology_bench.tasks.distance import Fixed

SIZES = [(t, p) for t in range(3, 13) for p in (1, 2, 3)]


def subsets(values, largest: int) -> list[list[int]]:
    return [list(c) for n in range(1, largest + 1) for c in combinations(values, n)]


@pytest.mark.parametrize(("seq_len", "n_pairs"), SIZES)
def test_stream_accepts_by_density_and_support_and_every_accepted_draw_can_be_packed(
    seq_len, n_pairs
):
    for n_queries, values in product(range(1, n_pairs + 1), subsets(range(2, seq_len), 2)):
        n_unasked = n_pairs - n_queries
        density = Fraction(3 * n_queries + 2 * n_unasked, seq_len)
        expected = density <= Fraction(3, 5) and max(values) <= seq_len / 2
        accepted = is_accepted("stream", seq_len, n_pairs, n_queries, Fixed(values=values))
        assert accepted == expected, (n_queries, values)
        if accepted:
            for drawn in product(values, repeat=n_queries):
                assert can_pack(seq_len, stream_shapes(drawn, n_unasked)), drawn


@pytest.mark.parametrize("n_triples", [1, 2, 3, 4])
def test_triples_accepts_the_laws_whose_every_draw_can_be_assigned(n_triples):
    for n_queries in range(1, n_triples + 1):
        for lags in subsets(range(1, n_triples), n_triples):
            feasible = all(
                can_pack(2 * n_triples, triple_shapes(n_triples, drawn))
                for drawn in product(lags, repeat=n_queries)
            )
            law = Fixed(values=[3 * lag + 2 for lag in lags])
            accepted = is_accepted("triples", 3 * n_triples, n_triples, n_queries, law)
            assert accepted == feasible, (n_queries, lags)


@pytest.mark.parametrize(("seq_len", "n_pairs"), SIZES)
def test_triples_refuses_every_other_shape(seq_len, n_pairs):
    if seq_len != 3 * n_pairs:
        assert not is_accepted("triples", seq_len, n_pairs, 1)


@pytest.mark.parametrize(("seq_len", "n_pairs"), SIZES)
def test_probe_accepts_the_laws_with_a_query_range_common_to_all_draws(seq_len, n_pairs):
    """And draws the query from all of that range."""
    rows = probe_rows_by_law(seq_len, n_pairs)
    for distances in subsets(range(2, seq_len), 2):
        for bindings in subsets(range(n_pairs), 2):
            common = set(range(seq_len)).intersection(
                *(rows.get(draw, {}) for draw in product(distances, bindings))
            )
            laws = {"distance": Fixed(values=distances), "binding": Fixed(values=bindings)}
            accepted = is_accepted("probe", seq_len, n_pairs, 1, **laws)
            assert accepted == bool(common), (distances, bindings)
            if accepted:
                bound = layout("probe", seq_len, n_pairs, 1, **laws)
                drawn = set(chain(*(row.queries for row in placed(bound, 150))))
                assert drawn == common, (distances, bindings)


def test_probe_asks_one_query():
    assert not is_accepted("probe", 64, 4, 2)


def test_an_unset_law_covers_every_point_that_is_accepted_alone():
    for name, seq_len, n_pairs, n_queries in (
        ("stream", 10, 2, 2),
        ("stream", 11, 2, 1),
        ("triples", 30, 10, 1),
        ("triples", 30, 10, 6),
        ("triples", 30, 10, 9),
    ):
        size = (seq_len, n_pairs, n_queries)
        alone = [s for s in range(2, seq_len) if is_accepted(name, *size, Fixed(values=[s]))]
        assert layout(name, *size).distances.support.tolist() == alone


@pytest.mark.parametrize(("seq_len", "n_pairs"), [(15, 4), (20, 4), (12, 3), (3, 1), (9, 1)])
def test_unset_laws_of_probe_cover_every_point_that_is_accepted_alone(seq_len, n_pairs):
    size = ("probe", seq_len, n_pairs, 1)
    points = [
        (Fixed(values=[s]), Fixed(values=[b]))
        for s in range(2, seq_len)
        for b in range(n_pairs)
        if is_accepted(*size, Fixed(values=[s]), binding=Fixed(values=[b]))
    ]
    assert points
    for distance, binding in points:
        by_distance = layout(*size, distance).binding_distances.support.tolist()
        assert by_distance == [b.values[0] for s, b in points if s == distance]
        by_binding = layout(*size, binding=binding).distances.support.tolist()
        assert by_binding == [s.values[0] for s, b in points if b == binding]
    every = layout(*size)
    assert every.binding_distances.support.tolist() == list(range(n_pairs))
    widest = layout(*size, binding=Fixed(values=list(range(n_pairs))))
    assert every.distances.support.tolist() == widest.distances.support.tolist()


@pytest.mark.parametrize("n_pairs", [1, 2, 4])
def test_probe_without_laws_needs_room_for_every_binding_distance(n_pairs):
    accepted = [t for t in range(3, 25) if is_accepted("probe", t, n_pairs, 1)]
    assert accepted == list(range(4 * n_pairs - 1, 25))


def test_density_implies_halls_condition():
    """No more queries than disjoint writes and queries T/2 apart; the layout asserts it."""
    for seq_len in range(5, 5000):
        most_queries = seq_len // 5
        assert most_queries <= (seq_len - seq_len // 2 + 1) // 2


@pytest.mark.parametrize(
    ("numbers", "laws", "message"),
    [
        (("stream", 39, 8, 8), {}, r"task\.seq_len=39 .*n_kv_pairs=8 .*n_queries=8.* >= 40"),
        (("stream", 36, 8, 6), {}, r"task\.seq_len=36 .*n_queries=6.* >= 37"),
        (("stream", 40, 8, 8), {"distance": Fixed(values=[21])}, r"task\.distance.*nearest.* 20"),
        (("stream", 60, 10, 1), {"n_rebound": 9}, r"task\.rebind_rate .*n_queries=1 .* >= 65"),
        (("triples", 64, 21, 2), {}, r"task\.seq_len=64 must be a multiple of 3"),
        (("triples", 63, 4, 2), {}, r"task\.n_kv_pairs=4 must be task\.seq_len / 3 = 21"),
        (("triples", 63, 21, 21), {}, r"task\.n_queries=21 .*n_queries <= 20"),
        (("triples", 63, 21, 4), {"distance": Fixed(values=[56])}, r"n_queries=4 .* 56 .*<= 3"),
        (("triples", 63, 21, 4), {"distance": Fixed(values=[6])}, r"task\.distance.*nearest.* 5"),
        (("triples", 63, 21, 16), {"n_rebound": 5}, r"task\.rebind_rate re-binds 5.* <= 15"),
        (("probe", 64, 4, 4), {}, r"task\.n_queries=4 must be 1"),
        (("probe", 8, 4, 1), {}, r"task\.seq_len=8 is too short.* >= 9"),
        (("probe", 14, 4, 1), {}, r"task\.seq_len=14 .*n_kv_pairs=4.* >= 15"),
        (
            ("probe", 64, 4, 1),
            {"distance": Fixed(values=[6, 9]), "binding": Fixed(values=[3])},
            r"task\.distance .* 6.*task\.binding up to 3.* >= 8",
        ),
        (
            ("probe", 64, 4, 1),
            {"distance": Fixed(values=[6, 62])},
            r"task\.seq_len=64 .*task\.distance up to 62.* >= 65",
        ),
        (("probe", 64, 4, 1), {"binding": Fixed(values=[4])}, r"task\.binding.*nearest.* 3"),
        (
            ("probe", 64, 4, 1),
            {"n_rebound": 3, "binding": Fixed(values=[1])},
            r"task\.rebind_rate .*task\.binding fixed at 0",
        ),
    ],
)
def test_refusals_name_fields_values_and_limit(numbers, laws, message):
    with pytest.raises(ValueError, match=message) as error:
        layout(*numbers, **laws)
    assert "\n" not in str(error.value)
