"""Causal convolution with a few weighted deltas: a gather, memory bound and exact in any dtype.

Letters: B batch, D channels, L length, J shifts.

Verified in the interpreter and by compilation; never run on a GPU so far.
"""

import triton
import triton.language as tl

from zoology_bench.kernels.triton_common import COUNTS, load_gated, store_gated


@triton.jit(do_not_specialize=COUNTS)
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


@triton.jit(do_not_specialize=COUNTS)
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
