"""Logits of the frozen model: equal for every seed and training, moved by what must not move."""

import dataclasses

import pytest
import torch

from tests.test_runner import TINY, overall
from zoology_bench.config import compose
from zoology_bench.grading import frozen_logits, frozen_model
from zoology_bench.mixers.attention import Attention
from zoology_bench.reporting.frozen import TOLERANCE, decode_logits, relative_difference
from zoology_bench.runner import run


def logits_of(cfg) -> str:
    return frozen_logits(frozen_model(cfg), cfg.task, "cpu")


def test_a_trained_run_keeps_them_once_per_cell_whatever_its_seed_and_length(tmp_path):
    texts = []
    for changes in (["seed=0"], ["seed=3", "trainer.max_steps=1"]):
        rows = run(compose([*TINY, *changes]), tmp_path, command="zoology-bench run x").rows
        kept = rows[rows.frozen_logits != ""]
        assert len(kept) == 1
        assert (kept.split.item(), kept.metric.item(), kept.slice_key.item()) == (
            "report",
            "accuracy",
            "",
        )
        assert set(rows.command) == {"zoology-bench run x"}
        texts.append(kept.frozen_logits.item())
    assert texts[0] == texts[1]
    assert decode_logits(texts[0]).std() > 0.1, "logits that are all alike would hide a change"


def test_models_without_weights_have_none(tmp_path):
    words = [word for word in TINY if not word.startswith("model.")]
    for model in ("baselines", "analytic_base_conv"):
        rows = overall(run(compose([*words, f"model={model}"]), tmp_path).rows)
        assert set(rows.frozen_logits) == {""}


def test_they_draw_nothing_from_the_global_generators():
    before = torch.get_rng_state()
    logits_of(compose(TINY))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("model", ["attention", "base_conv"])
@pytest.mark.parametrize(
    "change", [{"init": "random"}, {"d_model": 32}, {"n_layers": 1}], ids=lambda c: next(iter(c))
)
def test_another_model_moves_them(model, change):
    cfg = compose([*TINY, f"model={model}"])
    other = dataclasses.replace(cfg, model=dataclasses.replace(cfg.model, **change))
    assert relative_difference(logits_of(cfg), logits_of(other)) > TOLERANCE


def test_a_scale_that_is_off_by_a_thousandth_moves_them(monkeypatch):
    cfg = compose([*TINY, "model=attention"])
    before = logits_of(cfg)
    exact = Attention.forward
    monkeypatch.setattr(Attention, "forward", lambda self, x: exact(self, x) * 1.001)
    assert relative_difference(before, logits_of(cfg)) > TOLERANCE


def test_other_rows_move_them():
    cfg = compose(TINY)
    other = dataclasses.replace(cfg, task=dataclasses.replace(cfg.task, data_seed=1))
    assert relative_difference(logits_of(cfg), logits_of(other)) > TOLERANCE


def test_double_precision_agrees_within_the_tolerance():
    cfg = compose(TINY)
    exact = frozen_logits(frozen_model(cfg).double(), cfg.task, "cpu")
    assert relative_difference(exact, logits_of(cfg)) < TOLERANCE / 10
