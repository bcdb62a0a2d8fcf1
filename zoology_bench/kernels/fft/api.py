"""Causal long convolution through the FFT, with optional gates."""

from torch import Tensor

from zoology_bench.kernels import common
from zoology_bench.kernels.fft import reference


def fft_conv(
    u: Tensor,
    h: Tensor,
    *,
    pre_gate: Tensor | None = None,
    post_gate: Tensor | None = None,
    skip: Tensor | None = None,
    bias: Tensor | None = None,
    precision: str | None = None,
    impl: str = "auto",
) -> Tensor:
    """Compute ``post_gate * (h conv v + skip * v + bias)`` with ``v = pre_gate * u``.

    Rounding leaks across positions: outputs depend on later inputs at the level of one part in
    1e16 (fp64) or 1e7 (fp32) of the signal's size. Where that matters use ``toeplitz_conv``.

    Args:
        u: (B, D, L) signal.
        h: (D, K) filters, or (B, D, K) one per example, 1 <= K <= L.
        pre_gate: (B, D, L) or None for ones.
        post_gate: (B, D, L) or None for ones.
        skip: (D,) or None for zeros.
        bias: (D,), (D, L) or None for zeros.
        precision: how fp32 is multiplied on a GPU: None or ieee, tf32x3, or tf32 to lower it.
        impl: reference, triton, or auto; a named one never falls back to another.

    Returns:
        (B, D, L) in the dtype of ``u``; narrower types than fp32 are computed in fp32.

    Raises:
        ValueError: a shape, dtype, device or name that does not fit, in one line.
        RuntimeError: ``impl="triton"`` where nothing can run it, in one line.
    """
    gates = common.Gates(pre_gate=pre_gate, post_gate=post_gate, skip=skip, bias=bias)
    return common.dense_conv(
        "fft", reference.conv, _triton_conv, u, h, gates, precision=precision, impl=impl
    )


def _triton_conv(u: Tensor, h: Tensor, gates: common.Gates, precision: str | None) -> Tensor:
    from zoology_bench.kernels.fft import triton

    return triton.conv(u, h, gates, precision)
