"""Memories are exact while keys are orthonormal, and err as predicted where they are random."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from tests.analytic.tasks import TASKS
from zoology_bench.analytic import (
    AnalyticDeltaRuleConfig,
    AnalyticLinearAttentionConfig,
    AnalyticMemory,
)
from zoology_bench.analytic.memory_state import (
    ERRORS,
    WRITES,
    key_table,
    linear_error,
    measured_error,
)
from zoology_bench.tasks.mqar import MQAR

RULES = tuple(WRITES)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def memory(task: MQAR, rule: str, *, d_key: int, keys: str = "orthonormal") -> AnalyticMemory:
    return AnalyticMemory.for_task(task, rule, generator(), d_key=d_key, keys=keys)


def read_back(rule: str, keys: Tensor) -> Tensor:
    """(K, K): column i is S k_i after all K keys were written with unit vectors as values."""
    n_keys, d_key = keys.shape
    state = torch.zeros(1, n_keys, d_key)
    for i in range(n_keys):
        state = WRITES[rule](state, keys[i : i + 1], torch.eye(n_keys)[i : i + 1])
    return state[0] @ keys.mT


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("d_key", [1, 4, 16])
def test_reconstruction_is_exact_up_to_d_keys_and_not_one_beyond(rule: str, d_key: int) -> None:
    for n_keys in {1, max(1, d_key // 2), d_key}:
        keys = key_table(n_keys, d_key, "orthonormal", generator())
        assert torch.equal(read_back(rule, keys), torch.eye(n_keys))
    keys = key_table(d_key + 1, d_key, "orthonormal", generator())
    error = (read_back(rule, keys) - torch.eye(d_key + 1)).abs().amax(0)
    assert error.max() > 0.1


@pytest.mark.parametrize("rule", RULES)
def test_recall_degrades_without_a_break(rule: str) -> None:
    shares = []
    for n_keys in (16, 17, 24, 48):
        keys = key_table(n_keys, 16, "orthonormal", generator())
        recalled = read_back(rule, keys).argmax(0) == torch.arange(n_keys)
        shares.append(recalled.double().mean().item())
    print(f"{rule}: recall by argmax at 16, 17, 24, 48 keys of 16 dimensions: {shares}")
    assert shares[0] == 1.0
    # <k, k> = 1 exceeds any other product of unit vectors: linear attention never errs.
    assert rule != "linear_attention" or shares == [1.0] * 4


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("n_keys", "d_key"), [(2, 8), (8, 8), (24, 8), (16, 32)])
def test_random_keys_err_as_predicted(rule: str, n_keys: int, d_key: int) -> None:
    examples = 3000
    table = key_table(examples * n_keys, d_key, "random", generator(1)).double()
    error, _ = measured_error(rule, table.view(examples, n_keys, d_key))
    predicted = ERRORS[rule](n_keys, d_key)
    print(f"{rule}, K = {n_keys}, d = {d_key}: predicted {predicted:.4f}, measured {error:.4f}")
    # The standard error at 3,000 examples is below 1 % at these sizes (2.5 % for two keys).
    assert error == pytest.approx(predicted, rel=0.08 if n_keys == 2 else 0.03)
    assert rule == "linear_attention" or predicted < linear_error(n_keys, d_key)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", TASKS)
def test_orthonormal_keys_recall_all_that_was_written_once(name: str, rule: str) -> None:
    task = replace(TASKS[name], vocab_size=96)
    batch = task.rows("report", 0, 0, 40)
    model = memory(task, rule, d_key=48)
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    assert torch.equal(hits, model.covered(batch))
    rebound = "rebound" in name or name == "stream-all"
    if rule == "delta_rule" or not rebound:
        assert hits.all()
    else:
        assert 0.3 < hits.double().mean() < 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("keys", ["orthonormal", "random"])
@pytest.mark.parametrize("name", ["official", "prefix-rebound", "stream-all", "triples-absent"])
def test_hits_equal_the_prediction_with_more_keys_than_dimensions(
    name: str, keys: str, rule: str
) -> None:
    task = TASKS[name]
    batch = task.rows("report", 0, 0, 60)
    model = memory(task, rule, d_key=10, keys=keys)
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    assert torch.equal(hits, model.covered(batch))
    assert hits.double().mean() > 0.2


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["official", "prefix-rebound", "stream-all"])
def test_the_step_form_equals_the_parallel_form(name: str, rule: str) -> None:
    task = TASKS[name]
    batch = task.rows("report", 0, 0, 8)
    model = memory(task, rule, d_key=10)
    state = model.init_state(8)
    everywhere = torch.arange(task.seq_len).expand(8, -1)
    parallel = model(batch.inputs, everywhere)
    for t in range(task.seq_len):
        logits, state = model.step(batch.inputs[:, t], state)
        torch.testing.assert_close(logits, parallel[:, t], rtol=0, atol=2e-5)
    kept = sum(tensor[0].numel() * tensor.element_size() for tensor in state.values())
    assert model.state_bytes(task.seq_len) == model.state_bytes(7) == kept


@pytest.mark.parametrize("rule", RULES)
def test_no_answer_depends_on_later_tokens(rule: str) -> None:
    task = TASKS["stream-all"]
    tokens = task.rows("report", 0, 0, 20).inputs
    other = task.rows("report", 0, 20, 40).inputs
    model = memory(task, rule, d_key=10)
    for cut in (30, 61):
        changed = torch.cat([tokens[:, :cut], other[:, cut:]], 1)
        upto = torch.arange(cut).expand(len(tokens), -1)
        torch.testing.assert_close(model(tokens, upto), model(changed, upto), rtol=0, atol=2e-5)


def test_sizes_are_what_is_stored() -> None:
    model = memory(TASKS["stream"], "delta_rule", d_key=10)
    assert model.size().n_params == model.table.numel()
    assert model.size().depth == 2
    assert model.size().width == len(model.layout.vocabulary.values)


def test_the_configuration_survives_omegaconf_and_builds_what_it_says() -> None:
    layout = TASKS["stream"].public_layout()
    for config, rule in (
        (AnalyticLinearAttentionConfig(d_key=7, keys="random", key_seed=3), "linear_attention"),
        (AnalyticDeltaRuleConfig(d_key=7, keys="random", key_seed=3), "delta_rule"),
    ):
        assert OmegaConf.to_object(OmegaConf.structured(config)) == config
        model = config.build(layout)
        assert (model.rule, model.d_key) == (rule, 7)
        assert torch.equal(model.table, config.build(layout).table)
        assert not torch.equal(model.table, replace(config, key_seed=4).build(layout).table)
        assert config.mixer_label == "random keys d_k=7"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AnalyticDeltaRuleConfig(d_key=0), "model.d_key=0 must be at least 1"),
        (lambda: AnalyticDeltaRuleConfig(keys="randm"), "model.keys='randm' is unknown; did you"),
        (lambda: AnalyticDeltaRuleConfig(key_seed=-1), "model.key_seed=-1 must be at least 0"),
        (
            lambda: memory(TASKS["stream"], "delta_rul", d_key=4),
            "rule='delta_rul' is unknown; did you mean 'delta_rule'",
        ),
        (
            lambda: memory(TASKS["stream"], "delta_rule", d_key=4).predict(
                torch.tensor([[400]]), torch.tensor([[0]])
            ),
            "tokens span 400..400, outside task.vocab_size=400",
        ),
    ],
    ids=["d-key", "keys", "seed", "rule", "token"],
)
def test_bad_arguments_get_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
