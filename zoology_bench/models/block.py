"""A pre-norm residual block: a mixer, then optionally an MLP."""

import torch
from torch import Tensor, nn

from zoology_bench.mixers.base import Mixer
from zoology_bench.models.mlp import MLP

NORMS = ("rms", "layer")


def make_norm(kind: str, d_model: int) -> nn.Module:
    """RMSNorm or LayerNorm over the last dimension, weights one and biases zero."""
    return nn.RMSNorm(d_model, eps=1e-6) if kind == "rms" else nn.LayerNorm(d_model)


class Block(nn.Module):
    """``x + mixer(norm(x))``, then ``x + mlp(norm(x))`` where there is one."""

    def __init__(self, d_model: int, mixer: Mixer, *, d_mlp: int, norm: str) -> None:
        super().__init__()
        self.mixer_norm = make_norm(norm, d_model)
        self.mixer = mixer
        self.mlp_norm = make_norm(norm, d_model) if d_mlp else None
        self.mlp = MLP(d_model, d_mlp) if d_mlp else None

    def forward(self, x: Tensor) -> Tensor:
        """Map the residual stream (B, T, D) to (B, T, D)."""
        x = x + self.mixer(self.mixer_norm(x))
        if self.mlp is not None and self.mlp_norm is not None:
            x = x + self.mlp(self.mlp_norm(x))
        return x

    def init_mlp_(self, scheme: str, n_layers: int, generator: torch.Generator) -> None:
        """Fill the MLP's weights in place, where there is one."""
        if self.mlp is not None:
            self.mlp.init_(scheme, n_layers, generator)
