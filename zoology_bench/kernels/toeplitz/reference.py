"""Causal convolution as a product with the filter's triangular Toeplitz matrix: the oracle."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def conv(v: Tensor, h: Tensor) -> Tensor:
    """(h conv v)[n] = sum_k h[k] v[n - k]; later inputs only ever meet exact zeros.

    Args:
        v: (B, D, L).
        h: (D, K) or (B, D, K), K <= L.

    Returns:
        (B, D, L).
    """
    matrix = toeplitz_matrix(h, v.shape[-1])
    if h.ndim == 2:
        # One matrix per channel: a batched product over channels, not over examples. On CPU a
        # batched product of strided operands copies slice by slice, which costs half the step.
        by_channel = v.transpose(0, 1).contiguous() @ matrix
        return _ContiguousGradient.apply(by_channel).transpose(0, 1)
    return (v[..., None, :] @ matrix)[..., 0, :]


class _ContiguousGradient(torch.autograd.Function):
    """The identity, whose gradient arrives contiguous at what computed its input."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, y: Tensor) -> Tensor:
        return y.view_as(y)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        return grad.contiguous()


def toeplitz_matrix(h: Tensor, length: int) -> Tensor:
    """(..., L, L) with entry [m, n] = h[n - m] for 0 <= n - m < K, else 0.

    Args:
        h: (..., K).
        length: L.
    """
    # Windows of the filter behind L - 1 zeros, last one first: one copy makes the matrix.
    return _Windows.apply(h, length)


class _Windows(torch.autograd.Function):
    """The matrix, with a backward of copies and sums: that of ``unfold`` scatters."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, length: int) -> Tensor:
        ctx.taps = h.shape[-1]
        padded = F.pad(h, (length - 1, length - ctx.taps))
        return padded.unfold(-1, length, 1).flip(-2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # Rows of L + 1 move row m left by m, so that column k holds what met tap k.
        length = grad.shape[-1]
        rows = F.pad(grad.triu().flatten(-2), (0, length)).unflatten(-1, (length, length + 1))
        return rows.sum(-2)[..., : ctx.taps], None
