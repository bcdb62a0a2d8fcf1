"""Stage by stage, the records hold what docs/theorem_4_4.md says they hold."""

import pytest
import torch

from tests.analytic.circuit.rows import last_write_wins, random_rows
from zoology_bench.analytic import BaseConvCircuit
from zoology_bench.analytic.circuit.trace import Record, Snapshot, trace

N = 5
ROW = random_rows(1, N, 8, n_keys=3, seed=4)[0]


@pytest.fixture(scope="module", params=[True, False], ids=["padded", "cyclic"])
def snapshots(request):
    return {s.stage: s for s in trace(BaseConvCircuit(N, 8, causal=request.param), ROW)}


def keys(snapshot: Snapshot) -> list[tuple[int, int]]:
    return [(record.token, record.time) for record in snapshot.records]


def test_records_are_the_rows_keys_and_queries(snapshots):
    triples = ROW.view(N, 3).tolist()
    expected = []
    for i, (key, value, query) in enumerate(triples):
        expected.append(Record(3 * i + 1, 2 * i + 1, key, value))
        expected.append(Record(3 * i + 2, 2 * i, query, None))
    assert list(snapshots["records"].records) == expected


def test_the_sort_orders_them_by_token_and_time(snapshots):
    last = [stage for stage in snapshots if stage.startswith("sort")][-1]
    assert keys(snapshots["records"]) != sorted(keys(snapshots["records"]))
    assert keys(snapshots[last]) == sorted(keys(snapshots["records"]))
    values = {r.time: r.value for r in snapshots["records"].records}
    assert all(r.value == values[r.time] for r in snapshots[last].records)


def test_the_scan_gives_every_record_the_nearest_key_above(snapshots):
    last = [stage for stage in snapshots if stage.startswith("scan")][-1]
    values = {r.time: r.value for r in snapshots["records"].records}
    nearest = None
    for record in snapshots[last].records:
        nearest = values[record.time] if record.is_key else nearest
        assert record.value == nearest
    assert any(r.value is None for r in snapshots["take keys"].records)


def test_records_go_home_with_their_answers(snapshots):
    home = snapshots["undo 0"].records
    assert [r.time for r in home] == [r.time for r in snapshots["records"].records]
    answers = [-1 if r.value is None else r.value for r in home if not r.is_key]
    assert torch.tensor([answers]).equal(last_write_wins(ROW[None]))
    drifts = {a.row - b.row for a, b in zip(home, snapshots["records"].records, strict=True)}
    assert len(drifts) == 1


def test_a_circuit_that_sorts_twice_is_not_traced():
    with pytest.raises(ValueError, match=r"route=sort has no stages to undo"):
        trace(BaseConvCircuit(N, 8, route="sort"), ROW)
