"""What every placement of stream, triples and probe keeps to, row by row in plain Python."""

import pytest
import torch

from tests.tasks.layouts.cases import keys, layout, placed
from zoology_bench.tasks.distance import Fixed, LogUniform, Uniform
from zoology_bench.tasks.layouts import probe, stream, triples
from zoology_bench.tasks.mqar import MQAR

CASES = {
    "stream": layout("stream", 64, 8, 8),
    "stream-unasked": layout("stream", 64, 10, 3, LogUniform(lo=2, hi=32)),
    "stream-full": layout("stream", 40, 8, 8),
    "stream-stuck": layout("stream", 60, 12, 12, Fixed(values=[20, 21])),
    "stream-rebind": layout("stream", 100, 12, 5, n_rebound=4),
    "stream-rebind-all-asked": layout("stream", 100, 12, 8, n_rebound=4),
    "stream-rebind-one-key": layout("stream", 64, 6, 1, Fixed(values=[32]), n_rebound=5),
    "triples": layout("triples", 63, 21, 8),
    "triples-stirred": layout("triples", 63, 21, 18),
    "triples-full": layout("triples", 63, 21, 20),
    "triples-rebind": layout("triples", 63, 21, 8, n_rebound=9),
    "triples-rebind-two-keys": layout("triples", 30, 10, 1, n_rebound=8),
    "probe": layout("probe", 64, 4, 1),
    "probe-tight": layout("probe", 31, 8, 1),
    "probe-both-laws": layout(
        "probe", 64, 6, 1, Uniform(lo=10, hi=30), binding=Fixed(values=[1, 4])
    ),
    "probe-one-pair": layout("probe", 9, 1, 1),
    "probe-rebind": layout("probe", 64, 8, 1, n_rebound=5),
    "probe-one-key": layout("probe", 64, 4, 1, n_rebound=3),
}


@pytest.fixture(params=CASES)
def bound(request):
    return CASES[request.param]


def test_pairs_and_queries_keep_to_their_own_cells(bound):
    for row in placed(bound, 300):
        cells = [cell for a in row.pairs for cell in (a, a + 1)] + row.queries
        assert len(set(cells)) == 2 * bound.spec.n_kv_pairs + bound.spec.n_queries
        assert set(cells) <= set(range(bound.spec.seq_len))
        assert row.pairs == sorted(row.pairs)


def test_each_query_asks_another_pair_at_a_distance_of_the_law(bound):
    support = set(bound.distances.support.tolist())
    for row in placed(bound, 300):
        assert len(set(row.asked)) == len(row.asked) == bound.spec.n_queries
        for query, index in zip(row.queries, row.asked, strict=True):
            assert query - row.pairs[index] in support


def test_keys_are_shared_as_counted_and_asked_pairs_are_last_writes(bound):
    n_keys = bound.spec.n_kv_pairs - bound.spec.n_rebound
    for row in placed(bound, 300):
        assert sorted(set(row.key_id)) == list(range(n_keys))
        assert len({row.key_id[index] for index in row.asked}) == len(row.asked)
        for query, index in zip(row.queries, row.asked, strict=True):
            between = [
                key
                for key, position in zip(row.key_id, row.pairs, strict=True)
                if row.pairs[index] < position < query
            ]
            assert row.key_id[index] not in between


@pytest.mark.parametrize("name", [name for name in CASES if "rebind" in name or "key" in name])
def test_stale_writes_of_asked_keys_occur(name):
    stale = sum(
        row.key_id[index] in row.key_id[:index]
        for row in placed(CASES[name], 300)
        for index in row.asked
    )
    assert stale > 10


def test_rows_do_not_depend_on_their_block(bound, monkeypatch):
    whole = placed(bound, 60)
    for row in (0, 31, 59):
        alone = bound.place(keys(60)[row : row + 1])
        assert alone.pair_pos[0].tolist() == whole[row].pairs
        assert alone.query_pos[0].tolist() == whole[row].queries
        assert alone.asked[0].tolist() == whole[row].asked
        assert alone.key_id is None or alone.key_id[0].tolist() == whole[row].key_id
    monkeypatch.setattr(stream, "_CELLS_PER_BLOCK", 2000)
    monkeypatch.setattr(triples, "_CELLS_PER_BLOCK", 2000)
    monkeypatch.setattr(probe, "_ITEMS_PER_BLOCK", 100)
    assert placed(bound, 60) == whole


@pytest.mark.parametrize(
    "task",
    [
        MQAR(layout="stream", seq_len=100, n_kv_pairs=12, rebind_rate=0.25),
        MQAR(layout="triples", seq_len=63, n_kv_pairs=21, n_queries=9, rebind_rate=0.3),
        MQAR(layout="probe", seq_len=64, n_kv_pairs=8, n_queries=1, rebind_rate=0.5),
    ],
    ids=["stream", "triples", "probe"],
)
def test_binding_distance_counts_the_pairs_in_between(task):
    batch = task.rows("train", 0, 0, 300)
    placement = task.placement.place(keys(300))
    assert placement.pair_pos.dtype == placement.query_pos.dtype == torch.int64
    rows = zip(batch.inputs.tolist(), batch.query_pos.tolist(), batch.key_pos.tolist(), strict=True)
    for row, (tokens, queries, writes) in enumerate(rows):
        values = [token in task.vocabulary.values for token in tokens]
        for column, (query, write) in enumerate(zip(queries, writes, strict=True)):
            assert batch.binding_distance[row, column] == sum(values[write + 2 : query])
            assert tokens[write] == tokens[query]
            assert batch.targets[row, query] == tokens[write + 1]
