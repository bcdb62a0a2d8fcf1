"""The position-wise network of a block.

Letters: D d_model, F d_mlp.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoology_bench.mixers.base import init_linear_, linear


class MLP(nn.Module):
    """``W_out gelu(W_in x)`` without biases, D -> F -> D."""

    def __init__(self, d_model: int, d_mlp: int) -> None:
        super().__init__()
        self.w_in = linear(d_model, d_mlp)
        self.w_out = linear(d_mlp, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        return self.w_out(F.gelu(self.w_in(x)))

    def init_(self, scheme: str, n_layers: int, generator: torch.Generator) -> None:
        """Fill every weight in place, by scheme."""
        init_linear_(self.w_in, scheme, generator)
        init_linear_(self.w_out, scheme, generator, n_residual=2 * n_layers)
