"""Causal convolution as Toeplitz blocks: matrix products whose second operand is gathered.

Two kernels. With one filter for the whole batch the rows of a product are examples, so a gathered
block of the Toeplitz matrix serves BLOCK_B of them. Without (a filter per example, or the filter's
gradient, where both operands vary) a lag r = COLS a + c is split: then

    y[COLS a + c] = sum_m x[COLS a - m] w[m + c]      (convolution)
    y[COLS a + c] = sum_m w[m - COLS a] x[m + c]      (correlation)

are products of a matrix that depends on (a, m) and one that depends on (m, c).

Letters: B batch, D channels, L length, K filter taps. Later inputs meet exact zeros only.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from zoology_bench.kernels import table
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
    operand_options,
    out_rows,
    rounded,
    rows,
    store_gated,
)


@triton.jit
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


@triton.jit
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
) -> list[Tensor]:
    """The convolution or correlation of a signal with a filter; see ``Passes.signal``."""
    batch, channels, length = x.shape
    outs = [empty_output(x, (batch, channels, length), x.dtype) for _ in out_gates]
    signal = (*rows(x), *gate_rows(x_gate))
    epilogue = (skip, *bias_rows(bias), *out_rows(outs, out_gates))
    options = operand_options(x.dtype, precision, table.TOEPLITZ_PRECISION)
    sizes = (batch, channels, length, h.shape[-1])
    if h.ndim == 2:
        tile = table.toeplitz_batch_tile(batch)
        n_rows, n_cols = n_blocks(batch, tile["BLOCK_B"]), n_blocks(length, tile["BLOCK_N"])
        launch(
            toeplitz_batch_kernel,
            (channels, n_cols, n_rows),
            *signal,
            *filter_rows(h)[::2],
            *epilogue,
            *sizes,
            CORRELATE=correlate,
            **tile,
            **options,
        )
    else:
        tile = table.toeplitz_split_tile(length)
        launch(
            toeplitz_split_kernel,
            (batch * channels, n_blocks(length, tile["ROWS"] * tile["COLS"])),
            *signal,
            *filter_rows(h),
            *gate_rows(None),
            *epilogue,
            *sizes,
            length,
            1,
            CORRELATE=correlate,
            **tile,
            **options,
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
) -> Tensor:
    """The gradient of the filter; see ``Passes.filter``."""
    batch, channels, length = u.shape
    taps = h.shape[-1]
    chunk = batch_chunk(batch) if h.ndim == 2 else 1
    chunks = n_blocks(batch, chunk)
    tile = table.toeplitz_split_tile(taps)
    partial = torch.empty(chunks, channels, taps, dtype=torch.float32, device=u.device)
    launch(
        toeplitz_split_kernel,
        (chunks * channels, n_blocks(taps, tile["ROWS"] * tile["COLS"])),
        *rows(dy),
        *gate_rows(post_gate),
        *rows(u),
        *gate_rows(pre_gate),
        None,
        *bias_rows(None),
        *out_rows([partial], (None,)),
        batch,
        channels,
        length,
        length,
        taps,
        chunk,
        CORRELATE=True,
        **tile,
        **operand_options(u.dtype, precision, table.TOEPLITZ_PRECISION),
    )
    return (partial.sum(0) if h.ndim == 2 else partial).to(h.dtype)


conv = register("toeplitz", Passes(signal=signal_pass, filter=filter_pass))
