"""Attention computes softmax(Q K^T / sqrt(K)) V, causally, with the positions it is told to use."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from zoology_bench.mixers import INITS
from zoology_bench.mixers.attention import Attention, AttentionConfig


def built(positions: str = "none", n_heads: int = 2, init: str = "random") -> Attention:
    config = AttentionConfig(n_heads=n_heads, positions=positions)
    mixer = config.build(8, 16, 0, 2)
    config.init_(mixer, init, 0, 2, torch.Generator().manual_seed(0))
    return mixer.double()


def inputs(length: int = 9, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, length, 8, dtype=torch.float64, generator=generator)


def test_equals_the_materialised_softmax() -> None:
    mixer, x = built(), inputs()
    expected = torch.zeros_like(x)
    for b in range(2):
        for head in (slice(0, 4), slice(4, 8)):
            q, k, v = (w(x[b])[:, head] for w in (mixer.w_q, mixer.w_k, mixer.w_v))
            for t in range(x.shape[1]):
                weights = torch.softmax(k[: t + 1] @ q[t] / math.sqrt(4), dim=0)
                expected[b, t, head] = weights @ v[: t + 1]
    assert torch.allclose(mixer(x), mixer.w_o(expected), atol=1e-12)


def test_without_positions_the_order_of_the_past_does_not_matter() -> None:
    mixer, x = built(), inputs()
    shuffled = torch.cat([x[:, :-1].flip(1), x[:, -1:]], dim=1)
    assert torch.allclose(mixer(x)[:, -1], mixer(shuffled)[:, -1])


def test_rotary_sees_the_order_but_not_the_absolute_position() -> None:
    mixer, x = built("rotary"), inputs()
    shuffled = torch.cat([x[:, :-1].flip(1), x[:, -1:]], dim=1)
    assert not torch.allclose(mixer(x)[:, -1], mixer(shuffled)[:, -1], atol=1e-3)
    q, k, _ = mixer._heads(x, first_position=0)
    q_moved, k_moved, _ = mixer._heads(x, first_position=1000)
    assert torch.allclose(q @ k.transpose(-1, -2), q_moved @ k_moved.transpose(-1, -2), atol=1e-9)


def test_rotary_turns_the_first_plane_by_one_radian_per_position() -> None:
    mixer = built("rotary", n_heads=1)
    x = inputs(length=1).expand(-1, 4, -1)
    q, _, _ = mixer._heads(x, first_position=0)
    turned = torch.atan2(q[0, 0, :, 4], q[0, 0, :, 0])
    steps = torch.remainder(turned.diff(), 2 * math.pi)
    assert torch.allclose(steps, torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("init", INITS)
def test_only_the_recipe_copies_queries_into_keys(init: str) -> None:
    mixer = built(init=init)
    assert torch.equal(mixer.w_q.weight, mixer.w_k.weight) == (init == "recipe")
    assert mixer.w_q.weight.data_ptr() != mixer.w_k.weight.data_ptr()


@pytest.mark.parametrize(("init", "std"), [("recipe", 0.125), ("random", 0.125), ("gpt2", 0.02)])
def test_weights_have_the_scale_of_their_scheme(init: str, std: float) -> None:
    config = AttentionConfig()
    mixer = config.build(64, 16, 0, 2)
    config.init_(mixer, init, 0, 2, torch.Generator().manual_seed(0))
    assert mixer.w_v.weight.std().item() == pytest.approx(std, rel=0.05)
    # GPT-2 shrinks what adds to the residual stream by the root of its 2 n_layers additions.
    out_std = std / 2 if init == "gpt2" else std
    assert mixer.w_o.weight.std().item() == pytest.approx(out_std, rel=0.05)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_heads": 0}, "model.mixer.n_heads=0 must be at least 1"),
        ({"n_heads": 3}, "model.mixer.n_heads=3 must divide model.d_model=8"),
        ({"positions": "rotery"}, "model.mixer.positions='rotery' is unknown; did you mean 'rot"),
        ({"n_heads": 8, "positions": "rotary"}, "positions=rotary needs an even head width"),
    ],
    ids=["no-heads", "heads-do-not-divide", "typo", "odd-rotary"],
)
def test_bad_fields_get_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionConfig(**fields).build(8, 16, 0, 2)
