"""H3, a shift and a diagonal state-space model between gates (arXiv:2212.14052, section 3.2).

Letters: B batch, T time, D d_model, K taps of the shift, N state size.
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
    init_filter_,
    latest_output,
    remembered,
)
from zoology_bench.mixers.state_space import DiagonalSSM
from zoology_bench.validation import check_int


@dataclass(kw_only=True, slots=True)
class H3Config(MixerConfig):
    """``y = q * (SSM_diag(SSM_shift(k) * v) + skip * SSM_shift(k) * v)``, heads of width 1."""

    name: ClassVar[str] = "h3"
    recipe_lr: ClassVar[float] = 1e-2

    d_state: int = 64
    """State size N of the diagonal model, per channel; even."""
    kernel_size: int = 4
    """Taps of the shift on k: how far back it can look, plus one."""

    def __post_init__(self) -> None:
        check_int("model.mixer.d_state", self.d_state, 2)
        if self.d_state % 2:
            raise ValueError(
                f"model.mixer.d_state={self.d_state} must be even: states come in conjugate pairs"
            )
        check_int("model.mixer.kernel_size", self.kernel_size, 2)

    @property
    def exact_causal(self) -> bool:
        # Above the crossover length the diagonal model goes through the FFT.
        return False

    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> "H3":
        return H3(d_model, seq_len, self.d_state, self.kernel_size)

    def init_(
        self,
        module: nn.Module,
        scheme: str,
        layer_idx: int,
        n_layers: int,
        generator: torch.Generator,
    ) -> None:
        assert isinstance(module, H3)
        for projection in (module.w_q, module.w_k, module.w_v):
            init_linear_(projection, scheme, generator)
        init_linear_(module.w_o, scheme, generator, n_residual=2 * n_layers)
        init_filter_(module.shift, "short", scheme, generator)
        if scheme != "recipe":
            module.ssm.init_(generator)
            nn.init.normal_(module.skip, generator=generator)
            return
        # As in Hyena's recipe: equal tokens match, keys are one token late, and the sum is kept.
        with torch.no_grad():
            module.w_k.weight.copy_(module.w_q.weight)
        module.ssm.init_as_sum_(module.seq_len, generator)
        nn.init.zeros_(module.skip)


class H3(Mixer):
    """One layer.

    Args:
        d_model: width D.
        seq_len: length that ``init=recipe`` spreads its memory over.
        d_state: N.
        kernel_size: K.
    """

    def __init__(self, d_model: int, seq_len: int, d_state: int, kernel_size: int) -> None:
        super().__init__()
        self.seq_len = seq_len
        self.w_q = linear(d_model, d_model)
        self.w_k = linear(d_model, d_model)
        self.w_v = linear(d_model, d_model)
        self.w_o = linear(d_model, d_model)
        self.shift = ExplicitFilter(d_model, kernel_size)
        self.ssm = DiagonalSSM(d_model, d_state)
        self.skip = nn.Parameter(torch.empty(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        length = x.shape[1]
        q, k, v = (
            rearrange(projection(x), "b t d -> b d t")
            for projection in (self.w_q, self.w_k, self.w_v)
        )
        k = causal_conv(k, self.shift(length))
        y = causal_conv(v, self.ssm(length), pre_gate=k, post_gate=q, skip=self.skip)
        return self.w_o(rearrange(y, "b d t -> b t d"))

    def init_state(self, batch_size: int) -> State:
        weight = self.w_k.weight
        keys = weight.new_empty(batch_size, 0, weight.shape[0])
        return {"keys": keys, "ssm": self.ssm.init_state(batch_size)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        keys = torch.cat([state["keys"], self.w_k(x)[:, None]], dim=1)
        product = latest_output(keys, self.shift) * self.w_v(x)
        summed, memory = self.ssm.step(product, state["ssm"])
        y = self.w_o(self.w_q(x) * (summed + self.skip * product))
        return y, {"keys": remembered(keys, self.shift), "ssm": memory}

    def state_bytes(self, seq_len: int) -> int:
        """min(T, K - 1) keys and the diagonal model's state: the same for every longer row."""
        weight = self.w_k.weight
        keys = min(seq_len, self.shift.max_lag) * weight.shape[0] * weight.element_size()
        return keys + self.ssm.state_bytes()
