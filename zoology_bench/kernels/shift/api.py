"""Causal convolution with a few weighted deltas, with optional gates."""

import torch
from torch import Tensor

from zoology_bench.kernels import common
from zoology_bench.kernels.shift import reference


def shift_conv(
    u: Tensor,
    shifts: Tensor,
    weights: Tensor,
    *,
    pre_gate: Tensor | None = None,
    post_gate: Tensor | None = None,
    skip: Tensor | None = None,
    bias: Tensor | None = None,
    precision: str | None = None,
    impl: str = "auto",
) -> Tensor:
    """Compute ``post_gate * (h conv v + skip * v + bias)`` for a filter of J deltas.

    ``v = pre_gate * u``, and h is weights[j] at lag shifts[j]. Exactly causal; O(J L) work.

    Args:
        u: (B, D, L) signal.
        shifts: (D, J) or (B, D, J) non-negative integers; L or more shifts everything out.
        weights: the shape of ``shifts``.
        pre_gate: (B, D, L) or None for ones.
        post_gate: (B, D, L) or None for ones.
        skip: (D,) or None for zeros.
        bias: (D,), (D, L) or None for zeros.
        precision: as in ``fft_conv``; nothing here rounds more than one product.
        impl: reference, triton, or auto; a named one never falls back to another.

    Returns:
        (B, D, L) in the dtype of ``u``; narrower types than fp32 are computed in fp32.

    Raises:
        ValueError: a shape, dtype, device, name or negative shift, in one line.
        RuntimeError: ``impl="triton"`` where nothing can run it, in one line.
    """
    common.check_names(impl, precision)
    gates = common.Gates(pre_gate=pre_gate, post_gate=post_gate, skip=skip, bias=bias)
    u, weights, gates = common.promote_under_autocast(u, weights, gates)
    batch, channels, _ = common.check_signal(u, gates)
    n_shifts = shifts.shape[-1] if shifts.ndim else 0
    shapes = [(channels, n_shifts), (batch, channels, n_shifts)]
    common.check_operand("shifts", shifts, u, shapes, (torch.int32, torch.int64))
    common.check_operand("weights", weights, u, [tuple(shifts.shape)], (u.dtype, torch.float32))
    chosen = common.choose_impl("shift", impl, u, per_example=shifts.ndim == 3)
    # A compiled graph cannot branch on values: there the caller vouches for the shifts.
    if n_shifts and not torch.compiler.is_compiling() and int(shifts.min()) < 0:
        raise ValueError(f"shifts has minimum {int(shifts.min())}; expected at least 0")
    if chosen == "triton":
        from zoology_bench.kernels.shift import triton

        return triton.conv(u, shifts, weights, gates)
    with common.without_autocast(u):
        v = common.gated_input(u, gates)
        y = reference.conv(v, shifts, weights.to(common.compute_dtype(u)))
        return common.apply_gates(y, v, gates).to(u.dtype)
