"""Every lag in the kernel answers every query, whatever the input, and costs T^2 V numbers."""

import pytest
import torch

from tests.analytic.tasks import TASKS, mqar
from zoology_bench.analytic import AnalyticBaseConv, AnalyticEveryLag, AnalyticEveryLagConfig


@pytest.mark.parametrize("name", TASKS)
def test_every_query_is_answered(name: str) -> None:
    task = TASKS[name]
    batch = task.rows("report", 0, 0, 60)
    model = AnalyticEveryLag.for_task(task)
    assert torch.equal(model.predict(batch.inputs, batch.query_pos), batch.answers)
    assert model.covered(batch).all()
    assert model.causal


def test_the_lags_are_those_of_the_layout() -> None:
    assert AnalyticEveryLag.for_task(TASKS["triples"]).base_conv.lags == list(range(5, 39, 3))
    assert AnalyticEveryLag.for_task(TASKS["stream"]).n_distances == 31


def test_without_one_of_its_lags_it_misses_the_queries_of_that_lag() -> None:
    task = TASKS["triples"]
    batch = task.rows("report", 0, 0, 60)
    lags = [lag for lag in AnalyticEveryLag.for_task(task).base_conv.lags if lag != 14]
    model = AnalyticBaseConv.for_task(task, len(lags), "given", lags=lags)
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    assert torch.equal(hits, batch.distance != 14) and not hits.all()


def test_it_costs_t_squared_where_looking_at_the_input_costs_t() -> None:
    def numbers(seq_len: int) -> tuple[int, int]:
        layout = mqar("triples", seq_len, seq_len // 3, n_queries=4).public_layout()
        every = AnalyticEveryLagConfig().build(layout).size().n_params
        return every, AnalyticBaseConv(layout, 4).size().n_params

    (every, few), (every_twice, few_twice) = numbers(120), numbers(240)
    assert 3.8 < every_twice / every < 4.2
    assert 1.9 < few_twice / few < 2.1
