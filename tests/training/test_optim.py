from itertools import pairwise

import pytest
import torch
from torch import nn

from tests.training.toy import ToyModel
from zoology_bench.training.config import TrainerConfig
from zoology_bench.training.optim import build_optimizer, lr_at, set_lr, undecayed_names


class TiedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.out = nn.Linear(4, 6)
        self.out.weight = self.embedding.weight
        self.norm = nn.RMSNorm(4)
        self.mix = nn.Linear(4, 4)
        self.taps = nn.Parameter(torch.zeros(4, 3))
        self.gain = nn.Parameter(torch.zeros(4))
        self.matrix_bias = nn.Parameter(torch.zeros(4, 4))
        self.table = nn.Parameter(torch.zeros(4, 4))
        self.table.no_weight_decay = True
        self.frozen = nn.Parameter(torch.zeros(4, 4), requires_grad=False)


def decay_of(model, config):
    optimizer = build_optimizer(model, config, lr=1e-3)
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        names[id(p)]: group["weight_decay"]
        for group in optimizer.param_groups
        for p in group["params"]
    }


def test_decay_leaves_norms_biases_embeddings_and_marked_parameters_alone():
    decay = decay_of(TiedModel(), TrainerConfig(weight_decay=0.3))
    assert {name for name, value in decay.items() if value == 0.3} == {"mix.weight", "taps"}
    assert {name for name, value in decay.items() if value == 0.0} == {
        "embedding.weight",
        "out.bias",
        "norm.weight",
        "mix.bias",
        "gain",
        "matrix_bias",
        "table",
    }


def test_decay_everything_decays_everything_trainable():
    decay = decay_of(TiedModel(), TrainerConfig(weight_decay=0.3, decay_everything=True))
    assert set(decay.values()) == {0.3}
    assert set(decay) == {n for n, p in TiedModel().named_parameters() if p.requires_grad}


def test_names_of_a_tied_weight_are_those_torch_reports():
    assert "embedding.weight" in undecayed_names(TiedModel())


def test_one_step_is_adamw_with_decay_only_where_named():
    """The rule written out: bias-corrected, the first step moves by lr * g / (|g| + eps)."""
    model = ToyModel(dropout=0.0)
    config = TrainerConfig(weight_decay=0.5)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = build_optimizer(model, config, lr=1.0)
    set_lr(optimizer, 0.01)
    for p in model.parameters():
        p.grad = torch.full_like(p, 2.0)
    optimizer.step()
    for name, p in model.named_parameters():
        decay = 0.5 if name == "out.weight" else 0.0
        expected = before[name] * (1 - 0.01 * decay) - 0.01 * 2.0 / (2.0 + 1e-8)
        assert torch.allclose(p, expected, atol=1e-6), name


def test_optimizer_is_fused_on_cpu():
    optimizer = build_optimizer(ToyModel(), TrainerConfig(), lr=1e-3)
    assert all(group["fused"] for group in optimizer.param_groups)


def rate(step, **changes):
    shape = {"peak": 2.0, "warmup_steps": 4, "total_steps": 105, "final_fraction": 0.1}
    return lr_at(step, **{**shape, **changes})


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 0.5), (3, 2.0), (4, 2.0), (54, 1.1), (104, 0.2), (500, 0.2)],
    ids=["first", "warm", "peak", "halfway", "last", "beyond"],
)
def test_schedule_hits_its_landmarks(step, expected):
    assert rate(step) == pytest.approx(expected)


def test_schedule_never_rises_after_warm_up_and_never_falls_within():
    rates = [rate(step) for step in range(105)]
    assert all(a < b for a, b in pairwise(rates[:4]))
    assert all(a >= b for a, b in pairwise(rates[3:]))


@pytest.mark.parametrize("total", [1, 2, 4, 5, 6])
def test_schedule_survives_budgets_shorter_than_the_warm_up(total):
    assert all(0 < rate(step, total_steps=total) <= 2.0 for step in range(total))


def test_no_warm_up_starts_at_the_peak():
    assert rate(0, warmup_steps=0) == 2.0
