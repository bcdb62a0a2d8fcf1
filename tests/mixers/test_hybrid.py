"""A hybrid hands each layer to the mixer that its pattern names."""

from typing import Any

import pytest
import torch

from zoology_bench.mixers.attention import Attention, AttentionConfig
from zoology_bench.mixers.base_conv import BaseConv, BaseConvConfig
from zoology_bench.mixers.hybrid import HybridConfig

MIXERS = {"conv": BaseConvConfig(filters=["short"]), "attn": AttentionConfig(positions="none")}


def test_the_pattern_is_cycled() -> None:
    config = HybridConfig(mixers=MIXERS, pattern=["conv", "attn", "attn"])
    kinds = [type(config.build(8, 16, i, 5)) for i in range(5)]
    assert kinds == [BaseConv, Attention, Attention, BaseConv, Attention]


def test_layers_are_initialised_by_their_own_mixer() -> None:
    config = HybridConfig(mixers=MIXERS, pattern=["conv", "attn"])
    conv, attention = (config.build(8, 16, i, 2) for i in range(2))
    for i, module in enumerate((conv, attention)):
        config.init_(module, "recipe", i, 2, torch.Generator().manual_seed(0))
    assert isinstance(conv, BaseConv) and isinstance(attention, Attention)
    assert torch.equal(conv.gate.weight, torch.eye(8))
    assert torch.equal(attention.w_k.weight, attention.w_q.weight)


def test_properties_come_from_the_mixers_in_use() -> None:
    mixers = {**MIXERS, "long": BaseConvConfig(), "learned": AttentionConfig()}
    plain = HybridConfig(mixers=mixers, pattern=["conv", "attn"])
    assert plain.label == "conv+attn"
    assert plain.exact_causal and not plain.learned_positions
    assert HybridConfig(mixers=mixers, pattern=["conv", "learned"]).learned_positions
    assert not HybridConfig(mixers=mixers, pattern=["attn", "long"]).exact_causal


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "model.mixer.mixers={} must name at least one mixer"),
        ({"mixers": MIXERS}, r"model.mixer.pattern=\[\] must name at least one of: attn, conv"),
        (
            {"mixers": MIXERS, "pattern": ["conv", "atn"]},
            "model.mixer.pattern='atn' is unknown; did you mean 'attn'.? known: attn, conv",
        ),
    ],
    ids=["no-mixers", "no-pattern", "typo"],
)
def test_bad_fields_get_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HybridConfig(**fields)
