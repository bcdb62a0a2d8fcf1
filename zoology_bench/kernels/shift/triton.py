"""Launches the shift kernels.

Letters: B batch, D channels, L length, J shifts.
"""

import torch
from torch import Tensor

from zoology_bench.kernels import table
from zoology_bench.kernels.common import Gates
from zoology_bench.kernels.gated_op import OutGates, Passes, register
from zoology_bench.kernels.shift import triton_kernels as kernels
from zoology_bench.kernels.triton_common import (
    batch_chunk,
    bias_rows,
    empty_output,
    filter_rows,
    gate_rows,
    launch,
    n_blocks,
    out_rows,
    packed,
    rows,
)


def signal_pass(
    x: Tensor,
    x_gate: Tensor | None,
    h: Tensor,
    out_gates: OutGates,
    *,
    skip: Tensor | None,
    bias: Tensor | None,
    correlate: bool,
    precision: str | None,
    shifts: Tensor,
) -> list[Tensor]:
    """The convolution or correlation with deltas of weights ``h``; see ``Passes.signal``."""
    batch, channels, length = x.shape
    outs = [empty_output(x, (batch, channels, length), x.dtype) for _ in out_gates]
    launch(
        kernels.shift_kernel,
        (batch * channels, n_blocks(length, table.SHIFT_BLOCK)),
        *rows(x),
        *gate_rows(x_gate),
        *filter_rows(shifts),
        *filter_rows(h),
        packed(skip),
        *bias_rows(bias),
        *out_rows(outs, out_gates),
        channels,
        length,
        shifts.shape[-1],
        CORRELATE=correlate,
        BLOCK=table.SHIFT_BLOCK,
    )
    return [out.to(x.dtype) for out in outs]


def filter_pass(
    dy: Tensor,
    post_gate: Tensor | None,
    u: Tensor,
    pre_gate: Tensor | None,
    h: Tensor,
    *,
    precision: str | None,
    shifts: Tensor,
) -> Tensor:
    """The gradient of the weights; see ``Passes.filter``."""
    batch, channels, length = u.shape
    n_shifts = shifts.shape[-1]
    chunk = batch_chunk(batch) if h.ndim == 2 else 1
    chunks = n_blocks(batch, chunk)
    partial = torch.empty(chunks, channels, n_shifts, dtype=torch.float32, device=u.device)
    if n_shifts:
        launch(
            kernels.shift_weight_kernel,
            (chunks * channels, n_shifts),
            *rows(dy),
            *gate_rows(post_gate),
            *rows(u),
            *gate_rows(pre_gate),
            *filter_rows(shifts),
            partial,
            batch,
            channels,
            length,
            n_shifts,
            chunk,
            BLOCK=table.SHIFT_BLOCK,
        )
    return (partial.sum(0) if h.ndim == 2 else partial).to(h.dtype)


_shift_conv = register("shift", Passes(signal=signal_pass, filter=filter_pass))


def conv(u: Tensor, shifts: Tensor, weights: Tensor, gates: Gates) -> Tensor:
    """Run the operator on shifts that fit 32 bits: one of L or more moves everything out."""
    lags = shifts.clamp(max=u.shape[-1]).to(torch.int32)
    return _shift_conv(u, weights, gates, None, lags)
