"""The one place that decides how a causal convolution of the mixers is computed."""

from torch import Tensor

from zoology_bench.kernels.fft.api import fft_conv
from zoology_bench.kernels.toeplitz.api import toeplitz_conv

TOEPLITZ_MAX_LENGTH = 128
"""Up to here the O(L^2) product beats two FFTs on CPU, forward and backward together."""


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
    conv = toeplitz_conv if u.shape[-1] <= TOEPLITZ_MAX_LENGTH else fft_conv
    return conv(u, h, post_gate=post_gate, skip=skip, bias=bias)
