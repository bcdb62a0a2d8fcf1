"""BaseConv computes y = (u W + b1) * (h conv u + b2), and the published variant its extra terms."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zoology_bench.mixers.base_conv import BaseConv, BaseConvConfig
from zoology_bench.mixers.filters import ExplicitFilter, ImplicitFilter

D, T = 4, 10


def built(
    filters: list[str], *, layer_idx: int = 0, init: str = "random", **fields: Any
) -> BaseConv:
    config = BaseConvConfig(filters=filters, **fields)
    mixer = config.build(D, T, layer_idx, 2)
    config.init_(mixer, init, layer_idx, 2, torch.Generator().manual_seed(0))
    # Biases start at zero; the formula is tested with ones that matter.
    nn.init.normal_(mixer.gate.bias, generator=torch.Generator().manual_seed(1))
    nn.init.normal_(mixer.conv_bias, generator=torch.Generator().manual_seed(2))
    return mixer.double()


def inputs(length: int = T) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(2, length, D, dtype=torch.float64, generator=generator)


def slow(mixer: BaseConv, u: Tensor, *, residual: bool, conv_skip: bool) -> Tensor:
    """Definition 4.1, lag by lag."""
    h = mixer.filter(u.shape[1]).T
    conv = torch.zeros_like(u)
    for t in range(u.shape[1]):
        for lag in range(min(t + 1, len(h))):
            conv[:, t] += h[lag] * u[:, t - lag]
    if conv_skip:
        conv = conv + u
    y = (u @ mixer.gate.weight.T + mixer.gate.bias) * (conv + mixer.conv_bias)
    return y + u if residual else y


@pytest.mark.parametrize("kind", ["short", "explicit", "implicit"])
@pytest.mark.parametrize("variant", ["paper", "official"])
@pytest.mark.parametrize("length", [1, 7, T, T + 4])
def test_equals_the_definition(kind: str, variant: str, length: int) -> None:
    mixer, u = built([kind], variant=variant), inputs(length)
    official = variant == "official"
    expected = slow(mixer, u, residual=official, conv_skip=official and kind != "short")
    assert torch.allclose(mixer(u), expected, atol=1e-12)


def test_filters_are_cycled_over_layers() -> None:
    filters = ["short", "explicit", "implicit"]
    kinds = [built(filters, layer_idx=i).filter for i in range(4)]
    assert [type(k) for k in kinds] == [
        ExplicitFilter,
        ExplicitFilter,
        ImplicitFilter,
        ExplicitFilter,
    ]
    assert [k(T).shape for k in kinds] == [(D, 3), (D, T), (D, T), (D, 3)]


def test_kernel_size_is_the_reach_of_a_short_filter() -> None:
    mixer, u = built(["short"], kernel_size=5), inputs()
    moved = u.clone()
    moved[:, 2] += 1
    changed = (mixer(moved) != mixer(u)).any(-1).any(0)
    assert changed.nonzero().flatten().tolist() == [2, 3, 4, 5, 6]


def test_the_recipe_binds_neighbours_then_sums() -> None:
    bind = BaseConvConfig().build(D, T, 0, 2)
    sum_ = BaseConvConfig().build(D, T, 1, 2)
    generator = torch.Generator().manual_seed(0)
    BaseConvConfig().init_(bind, "recipe", 0, 2, generator)
    BaseConvConfig().init_(sum_, "recipe", 1, 2, generator)
    u = inputs().float()
    previous = torch.cat([torch.zeros(2, 1, D), u[:, :-1]], dim=1)
    assert torch.equal(bind(u), u * previous)
    total = u.cumsum(1) / math.sqrt(T)
    assert torch.allclose(sum_(u), u * total, atol=1e-5)


def test_random_places_nothing() -> None:
    mixer = built(["short"])
    assert not torch.equal(mixer.gate.weight, torch.eye(D).double())
    assert mixer.filter(3).unique().numel() == 3 * D


def test_the_official_filter_decays_and_its_sines_hardly_turn() -> None:
    config = BaseConvConfig(filters=["implicit"], variant="official")
    mixer = config.build(64, 100, 0, 2)
    config.init_(mixer, "random", 0, 2, torch.Generator().manual_seed(0))
    taps = mixer.filter
    assert isinstance(taps, ImplicitFilter)
    last = taps(100)[:, -1]
    taps.decay, decay = torch.zeros(64), taps.decay
    window = last / taps(100)[:, -1]
    assert torch.allclose(window, torch.exp(-decay))
    # At t = 1 the channels have decayed to 1e-2 ** (1 / 1.5) down to 1e-2 ** (1 / 0.3).
    assert window[0].item() == pytest.approx(0.01 ** (1 / 1.5), rel=1e-4)
    assert window[-1].item() == pytest.approx(0.01 ** (1 / 0.3), rel=1e-3)
    assert len(taps.hidden) == 3
    assert taps.turns == 1e-4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"filters": []}, r"model.mixer.filters=\[\] must name at least one filter"),
        ({"filters": ["shrt"]}, "model.mixer.filters='shrt' is unknown; did you mean 'short'"),
        ({"kernel_size": 0}, "model.mixer.kernel_size=0 must be at least 1"),
        ({"variant": "papr"}, "model.mixer.variant='papr' is unknown; did you mean 'paper'"),
    ],
    ids=["no-filter", "typo", "no-taps", "variant"],
)
def test_bad_fields_get_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BaseConvConfig(**fields)
