"""Launches the Toeplitz kernels.

Letters: B batch, D channels, L length, K filter taps.
"""

import torch
from torch import Tensor

from zoology_bench.kernels import table
from zoology_bench.kernels.gated_op import OutGates, Passes, register
from zoology_bench.kernels.toeplitz import triton_kernels as kernels
from zoology_bench.kernels.triton_common import (
    batch_chunk,
    bias_rows,
    empty_output,
    filter_rows,
    gate_rows,
    launch,
    n_blocks,
    operand_options,
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
) -> list[Tensor]:
    """The convolution or correlation of a signal with a filter; see ``Passes.signal``."""
    batch, channels, length = x.shape
    outs = [empty_output(x, (batch, channels, length), x.dtype) for _ in out_gates]
    signal = (*rows(x), *gate_rows(x_gate))
    epilogue = (packed(skip), *bias_rows(bias), *out_rows(outs, out_gates))
    options = operand_options(x.dtype, precision, table.TOEPLITZ_PRECISION)
    sizes = (batch, channels, length, h.shape[-1])
    if h.ndim == 2:
        tile = table.toeplitz_batch_tile(batch, x.dtype)
        n_rows, n_cols = n_blocks(batch, tile["BLOCK_B"]), n_blocks(length, tile["BLOCK_N"])
        launch(
            kernels.toeplitz_batch_kernel,
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
        tile = table.toeplitz_split_tile(length, x.dtype)
        launch(
            kernels.toeplitz_split_kernel,
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
    tile = table.toeplitz_split_tile(taps, u.dtype)
    partial = torch.empty(chunks, channels, taps, dtype=torch.float32, device=u.device)
    launch(
        kernels.toeplitz_split_kernel,
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
