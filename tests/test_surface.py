"""Everything shipped runs, and any other configuration runs or names the field that is wrong."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zoology_bench.config import RunConfig, compose, config_dir, plan
from zoology_bench.mixers import MIXERS
from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.models import LanguageModelConfig
from zoology_bench.runner import run
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import Fixed, LogUniform, PowerLaw, Uniform
from zoology_bench.training import seeding

TWO_STEPS = {"max_steps": 2, "batch_size": 2, "eval_every": 1, "eval_batch_rows": 2}
TWO_STEPS |= {"n_select_rows": 2, "n_report_rows": 2, "compile": False}


def presets(group: str) -> list[str]:
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def shortened(cfg: RunConfig) -> RunConfig:
    trainer = dataclasses.replace(cfg.trainer, **TWO_STEPS)
    return dataclasses.replace(cfg, trainer=trainer, device="cpu")


@pytest.mark.parametrize("task", presets("task"))
def test_every_task_preset_trains_two_steps(task, tmp_path):
    cfg = shortened(compose([f"task={task}", "model.d_model=8", "model=base_conv"]))
    assert run(cfg, tmp_path).status == "finished"


@pytest.mark.parametrize("model", presets("model"))
def test_every_model_preset_runs(model, tmp_path):
    cfg = shortened(compose(["task=mqar_small_32_4", f"model={model}"]))
    assert run(cfg, tmp_path).status == "finished"


@pytest.mark.parametrize("experiment", presets("experiment"))
def test_every_experiment_grid_is_valid_and_each_task_and_model_runs_two_steps(
    experiment, tmp_path
):
    cells = plan([f"experiment={experiment}"])
    assert {cell.experiment for cell in cells} == {experiment}
    chosen = {}
    for cell in cells:
        kind = (cell.model.label, getattr(cell.model, "init", ""), str(cell.task))
        chosen.setdefault(kind, cell)
    for cell in chosen.values():
        result = run(shortened(cell), tmp_path)
        assert result.status in ("finished", "skipped"), result.reason


# Values repeat where one of them alone makes a configuration invalid: many examples must run.
LAWS = st.one_of(
    st.just(None),
    st.sampled_from([None, Uniform(lo=12, hi=20), Fixed(values=[11])]),
    st.builds(Uniform, lo=st.integers(-1, 64), hi=st.integers(-1, 64)),
    st.builds(LogUniform, lo=st.integers(1, 64), hi=st.integers(1, 64)),
    st.builds(PowerLaw, lo=st.integers(1, 64), hi=st.integers(1, 64), alpha=st.just(1.5)),
    st.builds(Fixed, values=st.lists(st.integers(0, 64), max_size=3)),
)
LAYOUT_AND_POWER = st.one_of(
    *[
        st.tuples(st.just(layout), st.just(0.01))
        for layout in ("official", "prefix", "stream", "triples", "probe", "nothing")
    ],
    st.tuples(st.just("official"), st.sampled_from([-32.0, 1.0, 32.0])),
    st.tuples(
        st.sampled_from(["official", "prefix"]),
        st.sampled_from([1.0, math.nan, math.inf, -math.inf, -1e10, 1e30, -300.0, 300.0]),
    ),
)
LENGTH_AND_PAIRS = st.one_of(
    st.tuples(st.integers(1, 64), st.integers(0, 12)),
    st.sampled_from([(12, 4), (24, 8), (36, 12)]),
    st.sampled_from([(40, 4), (48, 2), (48, 5), (64, 8)]),
)
TASK_FIELDS = st.fixed_dictionaries(
    {
        "vocab_size": st.sampled_from([256, 128, 100, 64, 16, 4]),
        "n_queries": st.sampled_from([None, 1, 1, 2, 3, 12, 0]),
        "filler": st.sampled_from(["zero", "zero", "zero", "disjoint", "any"]),
        "n_filler_tokens": st.sampled_from([1, 8]),
        "rebind_rate": st.sampled_from([0.0] * 6 + [0.25, 0.5, 1.0]),
        "absent_rate": st.sampled_from([0.0] * 6 + [0.25, 0.5, 1.0]),
    }
)


@st.composite
def task_fields(draw: st.DrawFn) -> dict[str, object]:
    """Fields of MQAR but its laws; those that only make sense together are drawn together."""
    seq_len, n_kv_pairs = draw(LENGTH_AND_PAIRS)
    layout, power_a = draw(LAYOUT_AND_POWER)
    together = {"seq_len": seq_len, "n_kv_pairs": n_kv_pairs, "layout": layout, "power_a": power_a}
    return draw(TASK_FIELDS) | together


MODEL_FIELDS = st.fixed_dictionaries(
    {
        "d_model": st.sampled_from([0, 3, 8]),
        "n_layers": st.integers(1, 2),
        "d_mlp": st.sampled_from([0, 8]),
        "norm": st.sampled_from(["rms", "layer", "batch"]),
        "init": st.sampled_from(["recipe", "random", "gpt2"]),
    }
)
MIXER = st.one_of(
    st.tuples(st.just(AttentionConfig), st.sampled_from([{"n_heads": 1}, {"n_heads": 2}])),
    st.tuples(
        st.just(BaseConvConfig),
        st.fixed_dictionaries(
            {
                "filters": st.lists(st.sampled_from(["short", "explicit", "implicit"]), max_size=2),
                "variant": st.sampled_from(["paper", "official"]),
            }
        ),
    ),
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(task_fields=task_fields(), law=st.data(), model_fields=MODEL_FIELDS, mixer=MIXER)
def test_any_configuration_runs_two_steps_or_names_its_field(task_fields, law, model_fields, mixer):
    try:
        task = MQAR(**task_fields, distance=law.draw(LAWS))
        config = LanguageModelConfig(
            vocab_size=task.vocab_size,
            seq_len=task.seq_len,
            mixer=mixer[0](**mixer[1]),
            **model_fields,
        )
        model = config.build(seeding.generator(0, "init"))
    except ValueError as error:
        assert str(error).startswith(("task.", "model.")), error
        assert "\n" not in str(error)
        return
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(2):
        batch = task.rows("train", 0, 2 * step, 2 * step + 2)
        logits = model(batch.inputs, batch.query_pos)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert torch.isfinite(loss)


def test_the_configurations_above_are_not_all_invalid():
    tried = MQAR(seq_len=32, n_kv_pairs=4, vocab_size=64, n_filler_tokens=8, layout="stream")
    assert len(tried.rows("train", 0, 0, 2)) == 2
    assert set(MIXERS) >= {"attention", "base_conv"}
