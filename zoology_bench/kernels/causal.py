"""The one place that decides how a causal convolution of the mixers is computed."""

import torch.nn.functional as F
from torch import Tensor

from zoology_bench.kernels.common import apply_gates
from zoology_bench.kernels.fft.api import fft_conv
from zoology_bench.kernels.toeplitz.api import toeplitz_conv

SHORT_MAX_TAPS = 8
"""Up to here a filter goes to torch's depthwise convolution, which no FFT or matrix beats."""
TOEPLITZ_MAX_LENGTH = 128
"""Up to here the O(L^2) product beats two FFTs of length 2L on one CPU thread, forward and
backward together, at B = 64, D = 64 (18 against 26 ms; 76 against 52 ms at L = 256)."""


def causal_conv(
    u: Tensor,
    h: Tensor,
    *,
    post_gate: Tensor | None = None,
    skip: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """``post_gate * (h conv u + skip * u + bias)`` by the fastest route for the length.

    Args:
        u: (B, D, L).
        h: (D, K), K <= L.
        post_gate: (B, D, L) or None.
        skip: (D,) or None.
        bias: (D,) or None.

    Returns:
        (B, D, L).
    """
    if h.shape[-1] <= SHORT_MAX_TAPS:
        return apply_gates(_depthwise(u, h), u, post_gate, skip, bias)
    conv = toeplitz_conv if u.shape[-1] <= TOEPLITZ_MAX_LENGTH else fft_conv
    return conv(u, h, post_gate=post_gate, skip=skip, bias=bias)


def _depthwise(u: Tensor, h: Tensor) -> Tensor:
    # conv1d correlates, so the taps are flipped; the padding in front makes it causal.
    padded = F.pad(u, (h.shape[-1] - 1, 0))
    return F.conv1d(padded, h.flip(-1)[:, None], groups=h.shape[0])
