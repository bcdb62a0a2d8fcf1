"""One configuration per mixer and per variant that computes differently."""

import torch
from torch import Tensor, nn

from zoology_bench.mixers import MixerConfig
from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.mixers.h3 import H3Config
from zoology_bench.mixers.hybrid import HybridConfig
from zoology_bench.mixers.hyena import HyenaConfig
from zoology_bench.mixers.torch_module import TorchModuleConfig


class CausalMean(nn.Module):
    """A user's module: a projected running mean."""

    def __init__(self, d_model: int, gain: float = 1.0) -> None:
        super().__init__()
        self.project = nn.Linear(d_model, d_model)
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        n = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
        return self.gain * self.project(x).cumsum(1) / n[:, None]


CASES: dict[str, MixerConfig] = {
    "attention": AttentionConfig(),
    "attention-rotary": AttentionConfig(positions="rotary"),
    "attention-none": AttentionConfig(n_heads=1, positions="none"),
    "base_conv": BaseConvConfig(),
    "base_conv-implicit": BaseConvConfig(filters=["implicit"]),
    "base_conv-official": BaseConvConfig(filters=["short", "implicit"], variant="official"),
    "base_conv-official-explicit": BaseConvConfig(filters=["explicit"], variant="official"),
    "base_conv-autocorrelation": BaseConvConfig(filters=["autocorrelation"], n_distances=3),
    "base_conv-straight-through": BaseConvConfig(
        filters=["autocorrelation"], n_distances=3, lag_weights="straight_through"
    ),
    "base_conv-programmatic": BaseConvConfig(filters=["programmatic", "short"]),
    "hyena": HyenaConfig(),
    "hyena-explicit": HyenaConfig(filter="explicit", kernel_size=2),
    "h3": H3Config(d_state=6),
    "hybrid": HybridConfig(
        mixers={
            "conv": BaseConvConfig(filters=["short"], kernel_size=4),
            "attention": AttentionConfig(positions="none"),
        },
        pattern=["conv", "attention"],
    ),
    "torch_module": TorchModuleConfig(target="tests.mixers.cases:CausalMean"),
}
