"""Any nn.Module can be a mixer; one that cannot is refused in one line."""

import pytest
import torch
from torch import Tensor, nn

from tests.mixers.cases import CausalMean
from zoology_bench.mixers.torch_module import TorchModule, TorchModuleConfig

HERE = "tests.mixers.test_torch_module"


class WantsEverything(nn.Module):
    def __init__(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> None:
        super().__init__()
        self.seen = (d_model, seq_len, layer_idx, n_layers)

    def forward(self, x: Tensor) -> Tensor:
        return x


class WantsMore(nn.Module):
    def __init__(self, d_model: int, n_experts: int) -> None:
        super().__init__()


class WrongShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[..., :1]


class SeesTheFuture(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.flip(1)


class Undisciplined(nn.Module):
    """Its output is a tuple."""

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return x, None


not_a_module = 3


def build(name: str, module: str = HERE) -> TorchModule:
    return TorchModuleConfig(target=f"{module}:{name}").build(6, 12, 1, 3)


def test_the_constructor_gets_what_it_names() -> None:
    inner = build("WantsEverything").inner
    assert isinstance(inner, WantsEverything)
    assert inner.seen == (6, 12, 1, 3)


def test_weights_follow_the_generator_and_leave_the_global_one_alone() -> None:
    config = TorchModuleConfig(target="tests.mixers.cases:CausalMean")
    before = torch.get_rng_state()
    weights = []
    for seed in (0, 0, 1):
        mixer = config.build(6, 12, 0, 2)
        config.init_(mixer, "recipe", 0, 2, torch.Generator().manual_seed(seed))
        assert isinstance(mixer.inner, CausalMean)
        weights.append(mixer.inner.project.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_step_form_no_state_size_is_claimed() -> None:
    mixer = build("CausalMean", "tests.mixers.cases")
    assert mixer.state_bytes(12) is None
    with pytest.raises(NotImplementedError, match="TorchModule has no step form"):
        mixer.init_state(1)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "must look like pkg.mod:Class"),
        ("pkg.mod", "must look like pkg.mod:Class"),
        ("no_such_package.mod:A", "cannot be imported: No module named 'no_such_package'"),
        (f"{HERE}:Wants", "names no nn.Module class; classes there: .*WantsEverything"),
        (f"{HERE}:not_a_module", "names no nn.Module class"),
        (f"{HERE}:WantsMore", "needs argument 'n_experts' without a default; offered: d_model"),
        (f"{HERE}:WrongShape", r"returned \(1, 12, 1\) for an input of shape \(1, 12, 6\)"),
        (f"{HERE}:Undisciplined", "returned tuple for an input"),
        (f"{HERE}:SeesTheFuture", "is not causal: its output at position 0 changes"),
    ],
    ids=[
        "empty",
        "no-class",
        "no-package",
        "no-such-class",
        "not-a-module",
        "needs-more",
        "shape",
        "tuple",
        "future",
    ],
)
def test_bad_targets_get_one_line(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        TorchModuleConfig(target=target).build(6, 12, 1, 3)
    assert "\n" not in str(error.value)
