"""Causal convolution with a few weighted deltas: a gather, memory bound and exact in any dtype.

Letters: B batch, D channels, L length, J shifts.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from zoology_bench.kernels import table
from zoology_bench.kernels.common import Gates
from zoology_bench.kernels.gated_op import OutGates, Passes, register
from zoology_bench.kernels.triton_common import (
    batch_chunk,
    bias_rows,
    empty_output,
    filter_rows,
    gate_rows,
    launch,
    load_gated,
    n_blocks,
    out_rows,
    rows,
    store_gated,
)


@triton.jit
def shift_kernel(
    x_ptr,
    x_b,
    x_d,
    gate_ptr,
    gate_b,
    gate_d,
    shift_ptr,
    shift_b,
    shift_d,
    weight_ptr,
    weight_b,
    weight_d,
    skip_ptr,
    bias_ptr,
    bias_d,
    bias_l,
    out_ptr,
    out_gate_ptr,
    out_gate_b,
    out_gate_d,
    out2_ptr,
    out2_gate_ptr,
    out2_gate_b,
    out2_gate_d,
    D,
    L,
    J,
    CORRELATE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """BLOCK positions of one channel of one example, at lags of its own or of the batch."""
    b = (tl.program_id(0) // D).to(tl.int64)
    d = (tl.program_id(0) % D).to(tl.int64)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x_base = b * x_b + d * x_d
    gate_base = b * gate_b + d * gate_d
    shift_base = shift_ptr + b * shift_b + d * shift_d
    weight_base = weight_ptr + b * weight_b + d * weight_d
    acc = tl.zeros((BLOCK,), tl.float32)
    for j in range(J):
        lag = tl.load(shift_base + j)
        source = n + lag if CORRELATE else n - lag
        mask = (source >= 0) & (source < L)
        weight = tl.load(weight_base + j).to(tl.float32)
        acc += weight * load_gated(x_ptr, x_base, gate_ptr, gate_base, source, mask)
    mask = n < L
    if skip_ptr is not None:
        skip = tl.load(skip_ptr + d).to(tl.float32)
        acc += skip * load_gated(x_ptr, x_base, gate_ptr, gate_base, n, mask)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + d * bias_d + n * bias_l, mask=mask, other=0.0)
        acc += bias.to(tl.float32)
    out_base = (b * D + d) * L
    out_gate_base = b * out_gate_b + d * out_gate_d
    store_gated(out_ptr, out_base, out_gate_ptr, out_gate_base, acc, n, mask)
    if out2_ptr is not None:
        out2_gate_base = b * out2_gate_b + d * out2_gate_d
        store_gated(out2_ptr, out_base, out2_gate_ptr, out2_gate_base, acc, n, mask)


@triton.jit
def shift_weight_kernel(
    dy_ptr,
    dy_b,
    dy_d,
    post_ptr,
    post_b,
    post_d,
    u_ptr,
    u_b,
    u_d,
    pre_ptr,
    pre_b,
    pre_d,
    shift_ptr,
    shift_b,
    shift_d,
    out_ptr,
    B,
    D,
    L,
    J,
    CHUNK,
    BLOCK: tl.constexpr,
):
    """The gradient of one weight over CHUNK examples: sum of dz[n] v[n - lag]."""
    chunk = (tl.program_id(0) // D).to(tl.int64)
    d = (tl.program_id(0) % D).to(tl.int64)
    j = tl.program_id(1)
    acc = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) // D * CHUNK
    for b in range(first, tl.minimum(first + CHUNK, B)):
        row = d * 0 + b
        lag = tl.load(shift_ptr + row * shift_b + d * shift_d + j)
        for start in range(0, L, BLOCK):
            n = start + tl.arange(0, BLOCK)
            mask = (n >= lag) & (n < L)
            dz = load_gated(
                dy_ptr, row * dy_b + d * dy_d, post_ptr, row * post_b + d * post_d, n, mask
            )
            acc += dz * load_gated(
                u_ptr, row * u_b + d * u_d, pre_ptr, row * pre_b + d * pre_d, n - lag, mask
            )
    tl.store(out_ptr + (chunk * D + d) * J + j, tl.sum(acc, axis=0))


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
        shift_kernel,
        (batch * channels, n_blocks(length, table.SHIFT_BLOCK)),
        *rows(x),
        *gate_rows(x_gate),
        *filter_rows(shifts),
        *filter_rows(h),
        skip,
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
            shift_weight_kernel,
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
