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


class SeesItsBlock(nn.Module):
    """Bidirectional within blocks of 4: no leak crosses the middle of 12 positions."""

    def forward(self, x: Tensor) -> Tensor:
        blocks = x.unflatten(1, (-1, 4))
        return x + blocks.mean(2, keepdim=True).expand_as(blocks).flatten(1, 2)


class FirstSeesFourth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, :1] + x[:, 3:4], x[:, 1:]], dim=1)


class NotFinite(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x) / (x - x)


class FailsAtRun(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return {}["no such key"]


class FailsAtBuild(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        raise ValueError("boom")


class ForgetsSuper(nn.Module):
    def __init__(self) -> None:
        self.inner = nn.Linear(3, 3)


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
        (
            "no_such_package.mod:A",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_package'",
        ),
        (f"{HERE}:Wants", "names no nn.Module class; classes there: .*WantsEverything"),
        (f"{HERE}:not_a_module", "names no nn.Module class"),
        (f"{HERE}:WantsMore", "needs argument 'n_experts' without a default; offered: d_model"),
        (f"{HERE}:WrongShape", r"returned \(12, 12, 1\) for an input of shape \(12, 12, 6\)"),
        (f"{HERE}:Undisciplined", "returned tuple for an input"),
        (f"{HERE}:SeesTheFuture", "is not causal: its output at position 0 changes"),
        (f"{HERE}:SeesItsBlock", "is not causal: its output at position 0 changes"),
        (f"{HERE}:FirstSeesFourth", "position 0 changes with inputs from position 1 on"),
        (f"{HERE}:NotFinite", "returns numbers that are not finite"),
        (f"{HERE}:FailsAtRun", "does not run on this machine: KeyError: 'no such key'"),
        (f"{HERE}:FailsAtBuild", "cannot be constructed: ValueError: boom"),
        (f"{HERE}:ForgetsSuper", "cannot be constructed: AttributeError: cannot assign module"),
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
        "block",
        "fourth",
        "not-finite",
        "fails-at-run",
        "fails-at-build",
        "no-super",
    ],
)
def test_bad_targets_get_one_line(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        TorchModuleConfig(target=target).build(6, 12, 1, 3)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("code", ["def (", "1 / 0", "raise SystemExit('done')"])
def test_a_module_that_breaks_while_it_is_imported_gets_one_line(code, tmp_path, monkeypatch):
    (tmp_path / "breaks_at_import.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"cannot be imported: [A-Z]") as error:
        TorchModuleConfig(target="breaks_at_import:A").build(6, 12, 1, 3)
    assert "\n" not in str(error.value)


def test_long_inputs_are_probed_at_few_positions_the_first_ones_among_them():
    class LeaksAtOnePlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x[:, :1], x[:, 1:2] + x[:, 2:3], x[:, 2:]], dim=1)

    mixer = TorchModule("it", LeaksAtOnePlace, {})
    mixer.rebuild(0)
    with pytest.raises(ValueError, match="position 1 changes with inputs from position 2 on"):
        mixer.probe(16, 4000)


class HasHeads(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(self, x: Tensor) -> Tensor:
        return self.n_heads * x


def test_further_arguments_reach_the_constructor_and_unknown_ones_are_named() -> None:
    config = TorchModuleConfig(target=f"{HERE}:HasHeads", arguments={"n_heads": 3})
    inner = config.build(6, 12, 0, 1).inner
    assert isinstance(inner, HasHeads) and inner.n_heads == 3
    with pytest.raises(ValueError, match=r"model\.mixer\.arguments='n_head' is unknown; did you"):
        TorchModuleConfig(target=f"{HERE}:HasHeads", arguments={"n_head": 3}).build(6, 12, 0, 1)
    assert config.init_label("recipe") == "own"
