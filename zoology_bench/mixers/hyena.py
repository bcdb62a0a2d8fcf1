"""Hyena of order 2, a long convolution between two gates (arXiv:2302.10866, Definition 3.1).

Letters: B batch, T time, D d_model, K taps of the short filters.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from einops import rearrange
from torch import Tensor, nn

from zoology_bench.kernels import causal_conv
from zoology_bench.mixers.base import Mixer, MixerConfig, State, init_linear_, linear
from zoology_bench.mixers.filters import (
    ExplicitFilter,
    ImplicitFilter,
    init_filter_,
    latest_output,
    remembered,
)
from zoology_bench.validation import check_int, check_name

LONG_FILTERS = ("explicit", "implicit")


@dataclass(kw_only=True, slots=True)
class HyenaConfig(MixerConfig):
    """``y = q * (h conv (k * v) + skip * k * v)``: q, k, v are short filters of projections."""

    name: ClassVar[str] = "hyena"
    recipe_lr: ClassVar[float] = 1e-2

    filter: str = "implicit"
    """Long filter h: implicit (a small network of the lag) or explicit (one weight per lag)."""
    kernel_size: int = 3
    """Taps of the short filters on q, k and v."""

    def __post_init__(self) -> None:
        check_name("model.mixer.filter", self.filter, LONG_FILTERS)
        check_int("model.mixer.kernel_size", self.kernel_size, 2)

    @property
    def exact_causal(self) -> bool:
        # Above the crossover length the long filter goes through the FFT.
        return False

    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> "Hyena":
        implicit = self.filter == "implicit"
        taps = ImplicitFilter(d_model, seq_len) if implicit else ExplicitFilter(d_model, seq_len)
        return Hyena(d_model, taps, self.kernel_size)

    def init_(
        self,
        module: nn.Module,
        scheme: str,
        layer_idx: int,
        n_layers: int,
        generator: torch.Generator,
    ) -> None:
        assert isinstance(module, Hyena)
        init_linear_(module.w_in, scheme, generator)
        init_linear_(module.w_out, scheme, generator, n_residual=2 * n_layers)
        init_filter_(module.short, "short", scheme, generator)
        init_filter_(module.filter, self.filter, scheme, generator)
        if scheme != "recipe":
            nn.init.normal_(module.skip, generator=generator)
            return
        # Queries and keys get the same projection, so that equal tokens multiply to something
        # positive. Every short filter now reads one token late; only keys are to, so that k * v
        # binds each token to the one before it.
        with torch.no_grad():
            w_q, w_k, _ = module.w_in.weight.chunk(3)
            w_k.copy_(w_q)
            q, _, v = module.short.taps.chunk(3)
            for taps in (q, v):
                taps.copy_(taps.roll(-1, dims=1))
        nn.init.zeros_(module.skip)


class Hyena(Mixer):
    """One layer of order 2.

    Args:
        d_model: width D.
        taps: the long filter: maps a length T to (D, K'), K' <= T.
        kernel_size: taps K of the short filters.
    """

    def __init__(
        self, d_model: int, taps: ExplicitFilter | ImplicitFilter, kernel_size: int
    ) -> None:
        super().__init__()
        self.w_in = linear(d_model, 3 * d_model)
        self.short = ExplicitFilter(3 * d_model, kernel_size)
        self.filter = taps
        self.skip = nn.Parameter(torch.empty(d_model))
        self.w_out = linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        length = x.shape[1]
        projected = rearrange(self.w_in(x), "b t d -> b d t")
        q, k, v = causal_conv(projected, self.short(length)).chunk(3, dim=1)
        y = causal_conv(v, self.filter(length), pre_gate=k, post_gate=q, skip=self.skip)
        return self.w_out(rearrange(y, "b d t -> b t d"))

    def init_state(self, batch_size: int) -> State:
        weight = self.w_out.weight
        d_model = weight.shape[0]
        return {
            "projected": weight.new_empty(batch_size, 0, 3 * d_model),
            "products": weight.new_empty(batch_size, 0, d_model),
        }

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        projected = torch.cat([state["projected"], self.w_in(x)[:, None]], dim=1)
        q, k, v = latest_output(projected, self.short).chunk(3, dim=-1)
        products = torch.cat([state["products"], (k * v)[:, None]], dim=1)
        y = self.w_out(q * (latest_output(products, self.filter) + self.skip * k * v))
        return y, {
            "projected": remembered(projected, self.short),
            "products": remembered(products, self.filter),
        }

    def state_bytes(self, seq_len: int) -> int:
        """min(T, K - 1) rows of 3 D projections, and every product that the filter reaches."""
        weight = self.w_out.weight
        rows = 3 * min(seq_len, self.short.max_lag) + min(seq_len, self.filter.max_lag)
        return rows * weight.shape[0] * weight.element_size()
