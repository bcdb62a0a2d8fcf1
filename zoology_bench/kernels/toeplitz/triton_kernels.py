"""Causal convolution as Toeplitz blocks: matrix products whose second operand is gathered.

Two kernels. With one filter for the whole batch the rows of a product are examples, so a gathered
block of the Toeplitz matrix serves BLOCK_B of them. Without (a filter per example, or the filter's
gradient, where both operands vary) a lag r = COLS a + c is split: then

    y[COLS a + c] = sum_m x[COLS a - m] w[m + c]      (convolution)
    y[COLS a + c] = sum_m w[m - COLS a] x[m + c]      (correlation)

are products of a matrix that depends on (a, m) and one that depends on (m, c).

Letters: B batch, D channels, L length, K filter taps. Later inputs meet exact zeros only.

Verified in the interpreter and by compilation; never run on a GPU so far.
"""

import triton
import triton.language as tl

from zoology_bench.kernels.triton_common import COUNTS, load_gated, rounded, store_gated


@triton.jit(do_not_specialize=COUNTS)
def toeplitz_batch_kernel(
    x_ptr,
    x_b,
    x_d,
    gate_ptr,
    gate_b,
    gate_d,
    h_ptr,
    h_d,
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
    B,
    D,
    L,
    K,
    CORRELATE: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """Outputs (BLOCK_B examples, BLOCK_N positions) of one channel; h (D, K) is shared."""
    d = tl.program_id(0).to(tl.int64)
    n_start = tl.program_id(1) * BLOCK_N
    b = tl.program_id(2) * BLOCK_B + tl.arange(0, BLOCK_B)[:, None]
    n = n_start + tl.arange(0, BLOCK_N)
    row = b.to(tl.int64)
    x_base = row * x_b + d * x_d
    gate_base = row * gate_b + d * gate_d
    # Blocks that no lag 0..K-1 connects to these outputs are left out.
    if CORRELATE:
        m_start = n_start // BLOCK_M * BLOCK_M
        m_stop = tl.minimum(n_start + BLOCK_N + K - 1, L)
    else:
        m_start = tl.maximum(n_start - K + 1, 0) // BLOCK_M * BLOCK_M
        m_stop = tl.minimum(n_start + BLOCK_N, L)
    acc = tl.zeros((BLOCK_B, BLOCK_N), tl.float32)
    for m_block in range(m_start, m_stop, BLOCK_M):
        m = m_block + tl.arange(0, BLOCK_M)
        mask = (b < B) & (m[None, :] < L)
        x = load_gated(x_ptr, x_base, gate_ptr, gate_base, m[None, :], mask)
        lag = n[None, :] - m[:, None]
        if CORRELATE:
            lag = -lag
        taps = tl.load(h_ptr + d * h_d + lag, mask=(lag >= 0) & (lag < K), other=0.0)
        acc = tl.dot(
            rounded(x, DOT, EMULATE),
            rounded(taps.to(tl.float32), DOT, EMULATE),
            acc,
            input_precision=PRECISION,
        )
    n = n[None, :]
    mask = (b < B) & (n < L)
    if skip_ptr is not None:
        skip = tl.load(skip_ptr + d).to(tl.float32)
        acc += skip * load_gated(x_ptr, x_base, gate_ptr, gate_base, n, mask)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + d * bias_d + n * bias_l, mask=n < L, other=0.0)
        acc += bias.to(tl.float32)
    out_base = (row * D + d) * L
    out_gate_base = row * out_gate_b + d * out_gate_d
    store_gated(out_ptr, out_base, out_gate_ptr, out_gate_base, acc, n, mask)
    if out2_ptr is not None:
        out2_gate_base = row * out2_gate_b + d * out2_gate_d
        store_gated(out2_ptr, out_base, out2_gate_ptr, out2_gate_base, acc, n, mask)


@triton.jit(do_not_specialize=COUNTS)
def toeplitz_split_kernel(
    x_ptr,
    x_b,
    x_d,
    x_gate_ptr,
    x_gate_b,
    x_gate_d,
    w_ptr,
    w_b,
    w_d,
    w_gate_ptr,
    w_gate_b,
    w_gate_d,
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
    B,
    D,
    L,
    L_W,
    L_OUT,
    CHUNK,
    CORRELATE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """ROWS * COLS outputs of one channel, summed over CHUNK examples; out (chunks, D, L_OUT)."""
    chunk = (tl.program_id(0) // D).to(tl.int64)
    d = (tl.program_id(0) % D).to(tl.int64)
    a_start = tl.program_id(1) * ROWS
    start = COLS * (a_start + tl.arange(0, ROWS)[:, None])
    c = tl.arange(0, COLS)[None, :]
    last = COLS * (a_start + ROWS - 1)
    if CORRELATE:
        m_start = a_start * COLS
        m_stop = tl.minimum(last + L_W, L)
    else:
        m_start = -COLS
        m_stop = tl.minimum(last + 1, L_W)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    first = tl.program_id(0) // D * CHUNK
    for b in range(first, tl.minimum(first + CHUNK, B)):
        row = d * 0 + b
        x_base = row * x_b + d * x_d
        x_gate_base = row * x_gate_b + d * x_gate_d
        w_base = row * w_b + d * w_d
        w_gate_base = row * w_gate_b + d * w_gate_d
        for m_block in range(m_start, m_stop, BLOCK_M):
            m = m_block + tl.arange(0, BLOCK_M)
            if CORRELATE:
                i = m[None, :] - start
                j = m[:, None] + c
                left_mask = (i >= 0) & (i < L_W)
                right_mask = j < L
                left = load_gated(w_ptr, w_base, w_gate_ptr, w_gate_base, i, left_mask)
                right = load_gated(x_ptr, x_base, x_gate_ptr, x_gate_base, j, right_mask)
            else:
                i = start - m[None, :]
                j = m[:, None] + c
                left_mask = (i >= 0) & (i < L)
                right_mask = (j >= 0) & (j < L_W)
                left = load_gated(x_ptr, x_base, x_gate_ptr, x_gate_base, i, left_mask)
                right = load_gated(w_ptr, w_base, w_gate_ptr, w_gate_base, j, right_mask)
            acc = tl.dot(
                rounded(left, DOT, EMULATE),
                rounded(right, DOT, EMULATE),
                acc,
                input_precision=PRECISION,
            )
    n = start + c
    mask = n < L_OUT
    if skip_ptr is not None:
        skip = tl.load(skip_ptr + d).to(tl.float32)
        x_base = chunk * x_b + d * x_d
        x_gate_base = chunk * x_gate_b + d * x_gate_d
        acc += skip * load_gated(x_ptr, x_base, x_gate_ptr, x_gate_base, n, mask)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + d * bias_d + n * bias_l, mask=mask, other=0.0)
        acc += bias.to(tl.float32)
    out_base = (chunk * D + d) * L_OUT
    out_gate_base = chunk * out_gate_b + d * out_gate_d
    store_gated(out_ptr, out_base, out_gate_ptr, out_gate_base, acc, n, mask)
    if out2_ptr is not None:
        out2_gate_base = chunk * out2_gate_b + d * out2_gate_d
        store_gated(out2_ptr, out_base, out2_gate_ptr, out2_gate_base, acc, n, mask)
