"""A causal convolution of the mixers, by the route that the static table names for it."""

import torch.nn.functional as F
from torch import Tensor

from zoology_bench.kernels import common
from zoology_bench.kernels.fft.api import fft_conv
from zoology_bench.kernels.table import dense_route
from zoology_bench.kernels.toeplitz.api import toeplitz_conv


def causal_conv(
    u: Tensor,
    h: Tensor,
    *,
    pre_gate: Tensor | None = None,
    post_gate: Tensor | None = None,
    skip: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """``post_gate * (h conv v + skip * v + bias)`` with ``v = pre_gate * u``, by the fastest route.

    Args:
        u: (B, D, L).
        h: (D, K) or (B, D, K), K <= L.
        pre_gate: (B, D, L) or None.
        post_gate: (B, D, L) or None.
        skip: (D,) or None.
        bias: (D,), (D, L) or None.

    Returns:
        (B, D, L).
    """
    route = dense_route(u, h)
    if route == "depthwise":
        gates = common.Gates(pre_gate=pre_gate, post_gate=post_gate, skip=skip, bias=bias)
        u, h, gates = common.promote_under_autocast(u, h, gates)
        common.check_signal(u, gates)
        common.check_filter(h, u)
        with common.without_autocast(u):
            v = common.gated_input(u, gates)
            return common.apply_gates(_depthwise(v, h.to(v.dtype)), v, gates).to(u.dtype)
    conv = toeplitz_conv if route == "toeplitz" else fft_conv
    return conv(u, h, pre_gate=pre_gate, post_gate=post_gate, skip=skip, bias=bias)


def _depthwise(v: Tensor, h: Tensor) -> Tensor:
    # conv1d correlates, so the taps are flipped; the padding in front makes it causal.
    padded = F.pad(v, (h.shape[-1] - 1, 0))
    return F.conv1d(padded, h.flip(-1)[:, None], groups=h.shape[0])
