"""Causal convolution as a product with the filter's triangular Toeplitz matrix: the oracle."""

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
    # Repeating h with period L + 1 and reading rows of L moves it right by one per row. What wraps
    # around lands below the diagonal. All of it is copies and sums, backward too, where the
    # scatter of an indexed or unfolded filter would dominate.
    period = F.pad(h, (0, length + 1 - h.shape[-1]))
    repeated = period[..., None, :].expand(*h.shape[:-1], length, length + 1).flatten(-2)
    return repeated[..., : length * length].unflatten(-1, (length, length)).triu()
