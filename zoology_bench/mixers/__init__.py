"""Sequence mixers: causal maps (B, T, D) -> (B, T, D), one file each."""

from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base import INITS, Mixer, MixerConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.mixers.h3 import H3Config
from zoology_bench.mixers.hybrid import HybridConfig
from zoology_bench.mixers.hyena import HyenaConfig
from zoology_bench.mixers.torch_module import TorchModuleConfig

MIXERS: dict[str, type[MixerConfig]] = {
    cls.name: cls
    for cls in (
        AttentionConfig,
        BaseConvConfig,
        HyenaConfig,
        H3Config,
        HybridConfig,
        TorchModuleConfig,
    )
}

__all__ = ["INITS", "MIXERS", "Mixer", "MixerConfig"]
