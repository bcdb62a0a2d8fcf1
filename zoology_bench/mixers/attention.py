"""Causal softmax attention.

Letters: B batch, T time, D d_model, H heads, K = D / H head dim.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from zoology_bench.mixers.base import Mixer, MixerConfig, State, init_linear_, linear
from zoology_bench.validation import check_int, check_name

POSITIONS = ("learned", "rotary", "none")
ROTARY_BASE = 10_000.0


@dataclass(kw_only=True, slots=True)
class AttentionConfig(MixerConfig):
    """Multi-head causal softmax attention without biases."""

    name: ClassVar[str] = "attention"
    recipe_lr: ClassVar[float] = 2e-3

    n_heads: int = 2
    """Heads H; must divide d_model."""
    positions: str = "learned"
    """learned (added to the embeddings by the model), rotary (arXiv:2104.09864), or none."""

    def __post_init__(self) -> None:
        check_int("model.mixer.n_heads", self.n_heads, 1)
        check_name("model.mixer.positions", self.positions, POSITIONS)

    @property
    def learned_positions(self) -> bool:
        return self.positions == "learned"

    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> "Attention":
        if d_model % self.n_heads:
            raise ValueError(
                f"model.mixer.n_heads={self.n_heads} must divide model.d_model={d_model}"
            )
        rotary = self.positions == "rotary"
        if rotary and d_model // self.n_heads % 2:
            raise ValueError(
                f"model.mixer.positions=rotary needs an even head width; "
                f"model.d_model={d_model} / model.mixer.n_heads={self.n_heads} is odd"
            )
        return Attention(d_model, self.n_heads, rotary=rotary)

    def init_(
        self,
        module: nn.Module,
        scheme: str,
        layer_idx: int,
        n_layers: int,
        generator: torch.Generator,
    ) -> None:
        assert isinstance(module, Attention)
        for projection in (module.w_q, module.w_k, module.w_v):
            init_linear_(projection, scheme, generator)
        init_linear_(module.w_o, scheme, generator, n_residual=2 * n_layers)
        if scheme == "recipe":
            # Equal tokens then attract each other from the first step, which removes most of the
            # plateau at chance; the two are trained freely afterwards.
            with torch.no_grad():
                module.w_k.weight.copy_(module.w_q.weight)


class Attention(Mixer):
    """``softmax(Q K^T / sqrt(K) + causal mask) V``, projected back to D."""

    def __init__(self, d_model: int, n_heads: int, *, rotary: bool = False) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.rotary = rotary
        self.w_q = linear(d_model, d_model)
        self.w_k = linear(d_model, d_model)
        self.w_v = linear(d_model, d_model)
        self.w_o = linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        q, k, v = self._heads(x, first_position=0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.w_o(rearrange(y, "b h t k -> b t (h k)"))

    def init_state(self, batch_size: int) -> State:
        weight = self.w_q.weight
        shape = (batch_size, self.n_heads, 0, weight.shape[0] // self.n_heads)
        return {"k": weight.new_empty(shape), "v": weight.new_empty(shape)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        q, k, v = self._heads(x[:, None], first_position=state["k"].shape[2])
        cache = {"k": torch.cat([state["k"], k], dim=2), "v": torch.cat([state["v"], v], dim=2)}
        y = F.scaled_dot_product_attention(q, cache["k"], cache["v"])
        return self.w_o(rearrange(y, "b h 1 k -> b (h k)")), cache

    def state_bytes(self, seq_len: int) -> int:
        """Keys and values of every token: 2 T D numbers."""
        weight = self.w_q.weight
        return 2 * seq_len * weight.shape[0] * weight.element_size()

    def _heads(self, x: Tensor, first_position: int) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (
            rearrange(projection(x), "b t (h k) -> b h t k", h=self.n_heads)
            for projection in (self.w_q, self.w_k, self.w_v)
        )
        if self.rotary:
            angles = _rotary_angles(x.shape[1], first_position, q)
            q, k = _rotate(q, angles), _rotate(k, angles)
        return q, k, v


def _rotary_angles(n: int, first: int, like: Tensor) -> Tensor:
    """(n, K/2) angles of positions first .. first + n - 1."""
    half = like.shape[-1] // 2
    exponent = torch.arange(half, device=like.device, dtype=torch.float64) / half
    position = torch.arange(first, first + n, device=like.device, dtype=torch.float64)
    # Formed in fp64: at position 10^4 an fp32 angle has lost three digits.
    return (position[:, None] * ROTARY_BASE**-exponent).to(like.dtype)


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the plane (x[i], x[i + K/2]) of (B, H, n, K) by angle i."""
    left, right = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)
