"""Causal convolution by real FFTs of twice the length: the oracle of every faster FFT kernel."""

import torch
from torch import Tensor


def conv(v: Tensor, h: Tensor) -> Tensor:
    """(h conv v)[n] = sum_k h[k] v[n - k], computed in the inputs' dtype (fp32 or fp64).

    Args:
        v: (B, D, L).
        h: (D, K) or (B, D, K), K <= L.

    Returns:
        (B, D, L).
    """
    length = v.shape[-1]
    # 2L >= L + K - 1: the circular wrap-around only reaches the half that is dropped.
    n = 2 * length
    spectrum = torch.fft.rfft(v, n=n) * torch.fft.rfft(h, n=n)
    return torch.fft.irfft(spectrum, n=n)[..., :length]
