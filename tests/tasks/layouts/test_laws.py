"""Realised distances, binding distances, positions and shared keys against their exact laws."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
import torch

from tests.helpers import (
    MIN_P,
    N_DRAWS,
    chi_square_p,
    count_tuples,
    holm,
    joint_p_value,
    law_p_value,
)
from tests.tasks.layouts.cases import distances, keys, layout
from tests.tasks.layouts.search import probe_rows_by_law
from zoology_bench.tasks.distance import (
    Empirical,
    Fixed,
    LawTable,
    LogUniform,
    PowerLaw,
    Uniform,
)
from zoology_bench.tasks.layouts import probe
from zoology_bench.tasks.layouts.rebind import share_keys


def uniform_on(values: range) -> LawTable:
    return LawTable(np.array(values), [1] * len(values))


def realised(bound) -> np.ndarray:
    return distances(bound, N_DRAWS // bound.spec.n_queries).numpy()


def test_stream_distances_follow_their_law(tmp_path):
    histogram = tmp_path / "histogram.csv"
    histogram.write_text("distance,count\n2,5\n7,1\n20,9\n32,3\n")
    cases = {
        "uniform": layout("stream", 256, 32, 32),
        "log_uniform": layout("stream", 64, 8, 8, LogUniform(lo=2, hi=32)),
        "power_law": layout("stream", 64, 12, 4, PowerLaw(lo=3, hi=30, alpha=2.5)),
        "fixed": layout("stream", 64, 8, 8, Fixed(values=[2, 9, 30])),
        "empirical": layout("stream", 64, 8, 8, Empirical(path=str(histogram))),
        "stuck rows": layout("stream", 15, 3, 3),
        "re-bound": layout("stream", 64, 8, 6, n_rebound=2),
    }
    p_values = {
        name: law_p_value(realised(bound), bound.distances) for name, bound in cases.items()
    }
    assert min(holm(p_values).values()) > MIN_P, p_values


@pytest.mark.parametrize(("n_queries", "at_most"), [(32, MIN_P), (51, 1e-6)])
def test_stream_that_redraws_on_collision_fails_the_same_test(n_queries, at_most):
    law = layout("stream", 256, n_queries, n_queries).distances
    assert law_p_value(_redrawing_stream(law, 256, n_queries), law) < at_most


def _redrawing_stream(law: LawTable, seq_len: int, n_queries: int) -> np.ndarray:
    """(rows, Q) distances of a generator that draws start and distance again until both fit."""
    rng = np.random.default_rng(0)
    n_rows = N_DRAWS // n_queries
    free = np.ones((n_rows, seq_len), bool)
    drawn = np.empty((n_rows, n_queries), np.int64)
    for query in range(n_queries):
        rows = np.arange(n_rows)
        while len(rows):
            s = rng.choice(law.support, len(rows), p=law.probabilities)
            a = rng.integers(0, seq_len - s)
            fits = free[rows, a] & free[rows, a + 1] & free[rows, a + s]
            for offset in (0, 1, s[fits]):
                free[rows[fits], a[fits] + offset] = False
            drawn[rows[fits], query] = s[fits]
            rows = rows[~fits]
    return drawn


def test_stream_that_drops_stuck_rows_fails_the_same_test():
    bound = layout("stream", 15, 3, 3)
    drawn = distances(bound, N_DRAWS // 3)
    first_pass = bound._pack(keys(len(drawn)), drawn, 0)
    stuck = (first_pass < 0).any(1)
    assert 0.01 < stuck.double().mean() < 0.2
    assert law_p_value(drawn[~stuck].numpy(), bound.distances) < 1e-6


def test_distances_of_a_row_are_independent():
    cases = {
        "stream": layout("stream", 15, 3, 3, Fixed(values=[3, 5, 7])),
        "triples": layout("triples", 18, 6, 3, Fixed(values=[5, 8, 11])),
        "triples stirred": layout("triples", 15, 5, 3, Fixed(values=[5, 8])),
    }
    p_values = {
        name: joint_p_value(list(distances(bound, 60_000).numpy().T), [bound.distances] * 3)
        for name, bound in cases.items()
    }
    assert min(holm(p_values).values()) > MIN_P, p_values


def test_triples_distances_follow_their_law():
    cases = {
        "uniform": layout("triples", 63, 21, 8),
        "log_uniform": layout("triples", 63, 21, 8, LogUniform(lo=5, hi=41)),
        "power_law": layout("triples", 96, 32, 8, PowerLaw(lo=8, hi=62, alpha=2.0)),
        "fixed": layout("triples", 48, 16, 8, Fixed(values=[5, 14, 26])),
        "re-bound": layout("triples", 63, 21, 8, n_rebound=10),
    }
    p_values = {
        name: law_p_value(realised(bound), bound.distances) for name, bound in cases.items()
    }
    assert min(holm(p_values).values()) > MIN_P, p_values


def test_triples_distances_follow_their_law_at_every_load():
    for n_queries in range(1, 9):
        bound = layout("triples", 30, 10, n_queries)
        drawn = distances(bound, 6_000 // n_queries).numpy()
        assert law_p_value(drawn, bound.distances) > MIN_P / 8


def test_triples_that_drop_lags_reaching_before_the_row_fail_the_same_test():
    bound = layout("triples", 63, 21, 8)
    rng = np.random.default_rng(0)
    drawn = rng.choice(bound.distances.support, N_DRAWS, p=bound.distances.probabilities)
    reaches = (drawn - 2) // 3 <= rng.integers(0, 21, N_DRAWS)
    assert law_p_value(drawn[reaches], bound.distances) < 1e-6


PROBES = {
    "64-6": layout("probe", 64, 6, 1, Fixed(values=[8, 11, 30]), binding=Fixed(values=[0, 2, 3])),
    "tight": layout("probe", 35, 6, 1, Fixed(values=[12, 20]), binding=Uniform(lo=1, hi=5)),
    "no-laws": layout("probe", 19, 4, 1),
    "re-bound": layout(
        "probe", 48, 8, 1, LogUniform(lo=10, hi=14), binding=Uniform(lo=2, hi=4), n_rebound=5
    ),
}


@pytest.mark.parametrize("name", PROBES)
def test_probe_distance_binding_and_query_position_are_exact_and_independent(name):
    """And with the binding distance the key's index, P - 1 - b."""
    bound = PROBES[name]
    distance, binding, query = _probe_columns(bound)
    widest = _query_range(bound)
    assert set(query) == set(widest)
    laws = [bound.distances, bound.binding_distances, uniform_on(widest)]
    assert joint_p_value([distance, binding, query], laws) > MIN_P


def _probe_columns(bound) -> list[np.ndarray]:
    """Distance, binding distance counted from positions, and query position."""
    placement = bound.place(keys(N_DRAWS // 2))
    write = placement.pair_pos.gather(1, placement.asked)
    binding = (placement.pair_pos > write).sum(1, keepdim=True)
    assert torch.equal(binding, bound.spec.n_kv_pairs - 1 - placement.asked)
    columns = (placement.query_pos - write, binding, placement.query_pos)
    return [column[:, 0].numpy() for column in columns]


def _query_range(bound) -> range:
    fewest = int(bound.binding_distances.support[0])
    first = int(bound.distances.support[-1]) + 2 * (bound.spec.n_kv_pairs - 1 - fewest)
    return range(first, bound.spec.seq_len)


def test_probe_whose_query_range_follows_the_draw_fails_the_same_test():
    bound = PROBES["64-6"]
    rng = np.random.default_rng(0)
    distance, binding, _ = _probe_columns(bound)
    query = rng.integers(distance + 2 * (5 - binding), 64)
    inside = np.isin(query, _query_range(bound))
    laws = [bound.distances, bound.binding_distances, uniform_on(_query_range(bound))]
    columns = [distance[inside], binding[inside], query[inside]]
    assert joint_p_value(columns, laws) < 1e-6


@pytest.mark.parametrize("redraws", [3, 0])
@pytest.mark.parametrize(
    ("seq_len", "n_pairs", "s", "b"),
    [(12, 3, 6, 1), (12, 4, 7, 2), (11, 4, 5, 1), (13, 3, 6, 0)],
    ids=["loose", "inside-full", "left-full", "none-inside"],
)
def test_probe_makes_every_arrangement_equally_likely(seq_len, n_pairs, s, b, redraws, monkeypatch):
    monkeypatch.setattr(probe, "_MAX_REDRAWS", redraws)
    laws = {"distance": Fixed(values=[s]), "binding": Fixed(values=[b])}
    bound = layout("probe", seq_len, n_pairs, 1, **laws)
    by_query = probe_rows_by_law(seq_len, n_pairs)[s, b]
    law = {
        (*pairs, query): 1 / len(by_query) / len(arrangements)
        for query, arrangements in by_query.items()
        for pairs in arrangements
    }
    placement = bound.place(keys(20_000))
    rows = torch.cat([placement.pair_pos, placement.query_pos], 1).numpy()
    observed = count_tuples(rows, list(law))
    assert chi_square_p(observed, np.array(list(law.values())) * len(rows)) > MIN_P


def test_shared_keys_follow_their_rule():
    """Five pairs, two asked, one or two of the others re-binding, by enumeration."""
    n_rows, pairs, asked, queries = 30_000, [0, 3, 5, 8, 12], [1, 3], [10, 15]
    columns = [torch.tensor([row]).expand(n_rows, -1) for row in (pairs, asked, queries)]
    for n_rebound in (1, 2):
        law = _sharing_law(pairs, asked, queries, n_rebound)
        key_id = share_keys(keys(n_rows), *columns, n_rebound).tolist()
        observed = Counter(map(_partition, key_id))
        assert set(observed) <= set(law)
        counts = np.array([observed[partition] for partition in law])
        assert chi_square_p(counts, np.array(list(law.values())) * n_rows) > MIN_P


def _sharing_law(pairs, asked, queries, n_rebound: int) -> dict[tuple[int, ...], float]:
    """Probability of each partition of pairs into keys, from the rule as documented."""
    unasked = [pair for pair in range(len(pairs)) if pair not in asked]
    choices = list(combinations(unasked, n_rebound))
    law = Counter()
    for sharing in choices:
        owners = [pair for pair in range(len(pairs)) if pair not in sharing]
        allowed = [
            [
                owner
                for owner in owners
                if owner not in asked
                or not pairs[owner] < pairs[pair] < queries[asked.index(owner)]
            ]
            for pair in sharing
        ]
        for taken in product(*allowed):
            ids = list(range(len(pairs)))
            for pair, owner in zip(sharing, taken, strict=True):
                ids[pair] = owner
            law[_partition(ids)] += 1 / len(choices) / np.prod([len(a) for a in allowed])
    return dict(law)


def _partition(ids: list[int]) -> tuple[int, ...]:
    """Equal ids renamed to the first column that has them."""
    return tuple(ids.index(value) for value in ids)
