"""Causal convolution as a product with the filter's triangular Toeplitz matrix: the oracle."""

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
        # One matrix per channel: a batched product over channels, not over examples.
        return (v.transpose(0, 1) @ matrix).transpose(0, 1)
    return (v[..., None, :] @ matrix)[..., 0, :]


def toeplitz_matrix(h: Tensor, length: int) -> Tensor:
    """(..., L, L) with entry [m, n] = h[n - m] for 0 <= n - m < K, else 0.

    Args:
        h: (..., K).
        length: L.
    """
    # Left of tap 0 stand the zeros of future inputs, right of tap K - 1 those of long lags.
    padded = F.pad(h, (length - 1, length - h.shape[-1]))
    return padded.unfold(-1, length, 1).flip(-2)
