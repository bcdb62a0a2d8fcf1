"""Convolution with a filter of a few deltas, as shifted and weighted copies: the oracle."""

import torch
from torch import Tensor


def conv(v: Tensor, shifts: Tensor, weights: Tensor) -> Tensor:
    """y[n] = sum_j weights[j] v[n - shifts[j]], zeros before the start.

    Args:
        v: (B, D, L).
        shifts: (D, J) or (B, D, J) non-negative integers; a shift of L or more adds nothing.
        weights: same shape as ``shifts``.

    Returns:
        (B, D, L).
    """
    length = v.shape[-1]
    position = torch.arange(length, device=v.device)
    y = torch.zeros_like(v)
    for shift, weight in zip(shifts.unbind(-1), weights.unbind(-1), strict=True):
        source = (position - shift[..., None]).expand_as(v)
        shifted = v.gather(-1, source.clamp(min=0))
        y = y + weight[..., None] * torch.where(source >= 0, shifted, 0)
    return y
