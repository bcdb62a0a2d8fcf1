"""BaseConv, the gated convolution of arXiv:2312.04927 (Definition 4.1).

Letters: B batch, T time, D d_model, K filter taps.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from einops import rearrange
from torch import Tensor, nn

from zoology_bench.kernels import causal_conv
from zoology_bench.mixers.base import Mixer, MixerConfig, State, init_linear_, linear
from zoology_bench.mixers.filters import (
    FILTERS,
    ExplicitFilter,
    ImplicitFilter,
    init_filter_,
    latest_output,
    remembered,
)
from zoology_bench.mixers.selected_conv import (
    LAG_WEIGHTS,
    SELECTED_FILTERS,
    AutocorrelationConv,
    ProgrammaticConv,
    SelectedConv,
)
from zoology_bench.validation import check_int, check_name

VARIANTS = ("paper", "official")


@dataclass(kw_only=True, slots=True)
class BaseConvConfig(MixerConfig):
    """``y = (u W + b1) * (h conv u + b2)``: a gate times a causal convolution, per channel."""

    name: ClassVar[str] = "base_conv"
    recipe_lr: ClassVar[float] = 1e-2

    filters: list[str] = field(default_factory=lambda: ["short", "explicit"])
    """Filter of each layer, cycled: short (kernel_size taps), explicit (one tap per lag),
    implicit (a small network of the lag), or one that reads its lags off the input:
    autocorrelation (learned projections vote for lags) or programmatic (where a token repeats;
    first layer only). Long before short trains far worse."""
    kernel_size: int = 3
    """Taps of the short filters."""
    n_distances: int = 32
    """Lags that a position of an autocorrelation filter keeps, J."""
    lag_weights: str = "softmax"
    """Weights of those lags: softmax of the matches, or straight_through (the best one alone)."""
    variant: str = "paper"
    """paper, or official: the published code's layer, which adds u to the result and once more
    to every long convolution."""

    def __post_init__(self) -> None:
        if not self.filters:
            raise ValueError("model.mixer.filters=[] must name at least one filter")
        for kind in self.filters:
            check_name("model.mixer.filters", kind, (*FILTERS, *SELECTED_FILTERS))
        check_int("model.mixer.kernel_size", self.kernel_size, 1)
        check_int("model.mixer.n_distances", self.n_distances, 1)
        check_name("model.mixer.lag_weights", self.lag_weights, LAG_WEIGHTS)
        check_name("model.mixer.variant", self.variant, VARIANTS)
        selected = sorted(set(self.filters).intersection(SELECTED_FILTERS))
        if self.variant == "official" and selected:
            raise ValueError(
                f"model.mixer.variant=official has no filter {selected[0]!r}; known: "
                f"{', '.join(FILTERS)}"
            )

    @property
    def label(self) -> str:
        selected = [kind for kind in self.filters if kind in SELECTED_FILTERS]
        return f"{self.name}[{selected[0]}]" if selected else self.name

    @property
    def exact_causal(self) -> bool:
        # A long filter goes through the FFT above the crossover length.
        return all(kind in ("short", *SELECTED_FILTERS) for kind in self.filters)

    def filter_of(self, layer_idx: int) -> str:
        """The kind of filter of one layer."""
        return self.filters[layer_idx % len(self.filters)]

    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> Mixer:
        kind = self.filter_of(layer_idx)
        if kind == "autocorrelation":
            straight_through = self.lag_weights == "straight_through"
            return AutocorrelationConv(d_model, self.n_distances, straight_through=straight_through)
        if kind == "programmatic":
            if layer_idx:
                raise ValueError(
                    f"model.mixer.filters={self.filters} puts programmatic in layer {layer_idx}: "
                    "it compares tokens, so it must be the first layer's alone"
                )
            return ProgrammaticConv(d_model)
        official = self.variant == "official"
        if kind == "implicit":
            taps = ImplicitFilter(d_model, seq_len, official=official)
        else:
            taps = ExplicitFilter(d_model, self.kernel_size if kind == "short" else seq_len)
        return BaseConv(d_model, taps, residual=official, conv_skip=official and kind != "short")

    def init_(
        self,
        module: nn.Module,
        scheme: str,
        layer_idx: int,
        n_layers: int,
        generator: torch.Generator,
    ) -> None:
        if isinstance(module, SelectedConv):
            module.init_(scheme, generator)
            return
        assert isinstance(module, BaseConv)
        kind = self.filter_of(layer_idx)
        init_linear_(module.gate, scheme, generator)
        init_filter_(module.filter, kind, scheme, generator)
        nn.init.zeros_(module.conv_bias)
        if scheme == "recipe":
            # "Bind then sum": the short layer multiplies each token by the one before it, the long
            # one multiplies each token by the sum of those products, and step 0 scores chance. The
            # identity in the second gate as well is worth .66 against .55 at (64, 4, 128), d = 32.
            nn.init.eye_(module.gate.weight)


class BaseConv(Mixer):
    """One gated causal convolution.

    Args:
        d_model: width D.
        taps: maps a length T to the filters (D, K), K <= T.
        residual: add u to the output (``official``).
        conv_skip: add u to the convolution (``official``, long filters).
    """

    def __init__(
        self,
        d_model: int,
        taps: ExplicitFilter | ImplicitFilter,
        *,
        residual: bool = False,
        conv_skip: bool = False,
    ) -> None:
        super().__init__()
        self.gate = linear(d_model, d_model, bias=True)
        self.filter = taps
        self.conv_bias = nn.Parameter(torch.empty(d_model))
        self.residual = residual
        self.conv_skip = conv_skip

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        u, gate = (rearrange(z, "b t d -> b d t") for z in (x, self.gate(x)))
        # Gate, bias and skip go along, so that a fused kernel writes the layer's output at once.
        skip = torch.ones_like(self.conv_bias) if self.conv_skip else None
        taps = self.filter(x.shape[1])
        y = causal_conv(u, taps, post_gate=gate, skip=skip, bias=self.conv_bias)
        mixed = rearrange(y, "b d t -> b t d")
        return mixed + x if self.residual else mixed

    def init_state(self, batch_size: int) -> State:
        weight = self.gate.weight
        return {"past": weight.new_empty(batch_size, 0, weight.shape[0])}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        window = torch.cat([state["past"], x[:, None]], dim=1)
        conv = latest_output(window, self.filter)
        if self.conv_skip:
            conv = conv + x
        y = self.gate(x) * (conv + self.conv_bias)
        return (y + x if self.residual else y), {"past": remembered(window, self.filter)}

    def state_bytes(self, seq_len: int) -> int:
        """The inputs that a later output can still reach: min(T, K - 1) D numbers."""
        weight = self.gate.weight
        return min(seq_len, self.filter.max_lag) * weight.shape[0] * weight.element_size()
