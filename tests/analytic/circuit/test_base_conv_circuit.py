"""The circuit behind the interface of the suite's models."""

import weakref
from collections.abc import Callable

import pytest
import torch
from omegaconf import OmegaConf

from tests.analytic.circuit.rows import last_write_wins, random_rows
from zoology_bench.analytic import BaseConvCircuit, BaseConvCircuitConfig
from zoology_bench.analytic.circuit import base_conv_circuit
from zoology_bench.config import compose
from zoology_bench.runner import run
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import Uniform

TASK = MQAR(
    vocab_size=64,
    n_filler_tokens=1,
    layout="triples",
    seq_len=24,
    n_kv_pairs=8,
    n_queries=3,
    distance=Uniform(lo=5, hi=14),
    rebind_rate=0.25,
    absent_rate=0.34,
)


@pytest.mark.parametrize("variant", base_conv_circuit.VARIANTS)
def test_it_answers_the_suites_rows(variant):
    batch = TASK.rows("report", 0, 0, 40)
    model = BaseConvCircuitConfig(variant=variant).build(TASK.public_layout())
    assert torch.equal(model.predict(batch.inputs, batch.query_pos), batch.answers)
    assert (batch.answers == 1).any(), "no absent key was asked"


def test_without_an_absent_token_nothing_is_minus_one():
    rows = random_rows(20, 4, 16, n_keys=6, seed=0)
    assert (BaseConvCircuit(4, 16).predict(rows) == -1).any()
    named = BaseConvCircuit(4, 16, absent=9).predict(rows)
    expected = last_write_wins(rows)
    assert torch.equal(named, torch.where(expected < 0, 9, expected))


def test_positions_select_queries_and_nothing_is_asked_elsewhere():
    rows = random_rows(20, 4, 16, n_keys=3, seed=0)
    model = BaseConvCircuit(4, 16)
    everywhere = model.predict(rows, torch.arange(12).expand(20, -1))
    assert torch.equal(everywhere[:, 2::3], last_write_wins(rows))
    assert (everywhere[:, 0::3] == -1).all() and (everywhere[:, 1::3] == -1).all()
    backwards = torch.tensor([11, 5]).expand(20, -1)
    assert torch.equal(model.predict(rows, backwards), last_write_wins(rows)[:, [3, 1]])


def test_chunks_do_not_change_answers(monkeypatch):
    rows = random_rows(7, 4, 16, n_keys=3, seed=0)
    model = BaseConvCircuit(4, 16)
    monkeypatch.setattr(base_conv_circuit, "CHUNK_BYTES", 3 * 4 * model.d_model * model.n_rows)
    assert torch.equal(model.predict(rows), last_write_wins(rows))


def test_answering_keeps_the_state_of_one_layer_not_of_all(monkeypatch):
    model, alive, most = BaseConvCircuit(4, 16), [], 0
    layers = model.states

    def watched(tokens):
        nonlocal most
        for layer, state in layers(tokens):
            alive.append(weakref.ref(state))
            most = max(most, sum(ref() is not None for ref in alive))
            yield layer, state

    monkeypatch.setattr(model, "states", watched)
    model.predict(random_rows(3, 4, 16, n_keys=3, seed=0))
    assert len(alive) == model.n_layers > 3 >= most


def test_a_run_reports_the_circuits_sizes(tmp_path):
    task = ["task=mqar_triples", "task.seq_len=18", "task.n_kv_pairs=6", "task.n_queries=2"]
    task += ["task.distance.hi=14", "task.vocab_size=100", "trainer.n_report_rows=8"]
    rows = run(compose([*task, "model=base_conv_circuit_cyclic_sort"]), tmp_path).rows
    model = BaseConvCircuit(6, 100, causal=False, route="sort")
    assert set(rows.kind) == {"untrained"} and not rows.causal.any()
    assert set(rows.model) == {"base_conv_circuit_cyclic_sort"}
    sizes = rows[["d_model", "n_layers", "n_params_total"]].drop_duplicates().to_numpy().tolist()
    assert sizes == [[model.d_model, model.n_layers, model.n_params().total]]
    overall = rows[(rows.metric == "accuracy") & (rows.slice_key == "")]
    assert overall.value.tolist() == [1.0]


def test_the_configuration_survives_omegaconf_and_names_itself():
    config = BaseConvCircuitConfig(variant="cyclic", route="sort")
    assert OmegaConf.to_object(OmegaConf.structured(config)) == config
    assert config.label == "base_conv_circuit_cyclic_sort"
    assert not config.causal and not config.needs_training and config.mixer_label == ""
    model = config.build(TASK.public_layout())
    assert not model.causal and model.state_bytes(24) is None


def predict(tokens: list[list[int]]) -> torch.Tensor:
    return BaseConvCircuit(2, 5).predict(torch.tensor(tokens))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BaseConvCircuit(1), "n_triples=1 must be at least 2"),
        (lambda: BaseConvCircuit(8, 1), "vocab_size=1 must be at least 2"),
        (lambda: BaseConvCircuit(route="swap"), "model.route='swap' is unknown; did you mean"),
        (lambda: BaseConvCircuitConfig(variant="causal"), "model.variant='causal' is unknown"),
        (lambda: BaseConvCircuitConfig(route="x"), "model.route='x' is unknown"),
        (lambda: predict([[0] * 5]), r"tokens have shape \(1, 5\); expected \(B, 3 n_triples = 6"),
        (lambda: predict([[0] * 5 + [5]]), "tokens span 0..5, outside vocab_size=5"),
        (lambda: predict([[0] * 5 + [-1]]), "tokens span -1..0, outside vocab_size=5"),
        (
            lambda: BaseConvCircuitConfig().build(MQAR().public_layout()),
            "task.layout=prefix does not fit model=base_conv_circuit: it needs triples",
        ),
    ],
)
def test_bad_arguments_get_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
