"""Different mixers in different layers. A hybrid is a mixer, not a flag of the model."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import nn

from zoology_bench.mixers.base import Mixer, MixerConfig
from zoology_bench.validation import check_name


@dataclass(kw_only=True, slots=True)
class HybridConfig(MixerConfig):
    """Named mixers, and a pattern that says which of them each layer uses.

    Example:
        A short convolution, then attention without positions::

            HybridConfig(
                mixers={
                    "conv": BaseConvConfig(filters=["short"]),
                    "attention": AttentionConfig(positions="none"),
                },
                pattern=["conv", "attention"],
            )
    """

    name: ClassVar[str] = "hybrid"
    recipe_lr: ClassVar[float] = 5e-3

    mixers: dict[str, MixerConfig] = field(default_factory=dict)
    """The mixers by any name."""
    pattern: list[str] = field(default_factory=list)
    """Names by layer, cycled."""

    def __post_init__(self) -> None:
        if not self.mixers:
            raise ValueError("model.mixer.mixers={} must name at least one mixer")
        if not self.pattern:
            known = ", ".join(sorted(self.mixers))
            raise ValueError(f"model.mixer.pattern=[] must name at least one of: {known}")
        for entry in self.pattern:
            check_name("model.mixer.pattern", entry, self.mixers)

    @property
    def label(self) -> str:
        return "+".join(self.pattern)

    @property
    def exact_causal(self) -> bool:
        return all(self.mixers[entry].exact_causal for entry in self.pattern)

    @property
    def learned_positions(self) -> bool:
        return any(self.mixers[entry].learned_positions for entry in self.pattern)

    def mixer_of(self, layer_idx: int) -> MixerConfig:
        """The configuration of one layer's mixer."""
        return self.mixers[self.pattern[layer_idx % len(self.pattern)]]

    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> Mixer:
        return self.mixer_of(layer_idx).build(d_model, seq_len, layer_idx, n_layers)

    def init_(
        self,
        module: nn.Module,
        scheme: str,
        layer_idx: int,
        n_layers: int,
        generator: torch.Generator,
    ) -> None:
        self.mixer_of(layer_idx).init_(module, scheme, layer_idx, n_layers, generator)
