"""A circuit with one part missing is wrong, on inputs that are small enough to be looked at."""

import pytest
import torch
from torch import Tensor

from tests.analytic.circuit.rows import (
    all_rows,
    distinct_rows,
    last_write_wins,
    one_key_many_queries,
    random_rows,
)
from zoology_bench.analytic import BaseConvCircuit
from zoology_bench.analytic.circuit.layer import causal_shifts
from zoology_bench.analytic.circuit.plan import Plan, Stage

N = 16
ROWS = torch.cat([distinct_rows(6, N, 64, seed=0), random_rows(6, N, 64, n_keys=6, seed=1)])
MANY = one_key_many_queries(N, 64)


def share_wrong(model: BaseConvCircuit, rows: Tensor) -> float:
    """Among the queries that have an answer."""
    expected = last_write_wins(rows)
    asked = expected >= 0
    return (model.predict(rows) != expected)[asked].double().mean().item()


def without_scan(monkeypatch: pytest.MonkeyPatch, distance: int) -> BaseConvCircuit:
    left = tuple(g for g in (1, 2, 4, 8) if g != distance)
    monkeypatch.setattr(Plan, "scan_distances", property(lambda plan: left))
    return BaseConvCircuit(N, 64)


def without_stage(
    monkeypatch: pytest.MonkeyPatch, index: int, *, causal: bool, route: str
) -> BaseConvCircuit:
    stages = list(Plan(N, causal).stages)
    # Records still move down, but none of them changes places.
    stages[index] = Stage(stages[index].span, (), ())
    monkeypatch.setattr(Plan, "stages", property(lambda plan: tuple(stages)))
    return BaseConvCircuit(N, 64, causal, route)


def test_the_whole_circuit_is_right_on_these_inputs():
    assert share_wrong(BaseConvCircuit(N, 64), torch.cat([ROWS, MANY])) == 0


@pytest.mark.parametrize("distance", [1, 2, 4])
def test_without_a_step_of_the_scan_it_is_wrong(monkeypatch, distance):
    assert share_wrong(without_scan(monkeypatch, distance), torch.cat([ROWS, MANY])) > 0.05


def test_only_many_queries_of_one_key_need_the_last_step_of_the_scan(monkeypatch):
    model = without_scan(monkeypatch, 8)
    assert share_wrong(model, ROWS) == 0
    assert share_wrong(model, MANY) > 0.3


@pytest.mark.parametrize("index", [0, 7, 14])
def test_without_a_stage_of_the_sort_it_is_wrong(monkeypatch, index):
    model = without_stage(monkeypatch, index, causal=False, route="swaps")
    assert share_wrong(model, ROWS) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("route", ["swaps", "sort"])
@pytest.mark.parametrize("index", range(15))
def test_every_stage_of_the_sort_is_needed(monkeypatch, index, route):
    assert share_wrong(without_stage(monkeypatch, index, causal=True, route=route), ROWS) > 0.05


@pytest.mark.parametrize("route", ["swaps", "sort"])
def test_a_cyclic_circuit_without_zero_rows_is_wrong(monkeypatch, route):
    rows = all_rows(2, 4)
    assert torch.equal(BaseConvCircuit(2, 4, False, route).predict(rows), last_write_wins(rows))
    monkeypatch.setattr(Plan, "n_rows", property(lambda plan: plan.seq_len))
    model = BaseConvCircuit(2, 4, False, route)
    assert not torch.equal(model.predict(rows), last_write_wins(rows))


@pytest.mark.parametrize("route", ["swaps", "sort"])
def test_in_place_by_causal_convolutions_it_is_wrong(route):
    """The circuit that answers in place, on layers that cannot see the rows below."""
    model = BaseConvCircuit(8, 64, causal=False, route=route)
    rows = distinct_rows(8, 8, 64, seed=2)
    assert share_wrong(model, rows) == 0
    model.convolve = causal_shifts
    assert share_wrong(model, rows) > 0.5


def test_in_place_by_causal_convolutions_it_does_not_compile(monkeypatch):
    """Records that may not move down cannot see their partners; the program refuses the layer."""
    monkeypatch.setattr(Plan, "drift", lambda plan, stage: 0)
    with pytest.raises(ValueError, match="which no causal convolution can"):
        BaseConvCircuit(8, 64)
