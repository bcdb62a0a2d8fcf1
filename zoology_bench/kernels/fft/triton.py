"""Launches the quarter-shift kernels: tiles, scratch, and the filter's spectrum and gradient.

Letters: B batch, D channels, L length, K filter taps, R parts of M = N1 N2 points.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from zoology_bench.kernels import table
from zoology_bench.kernels.common import Gates
from zoology_bench.kernels.fft import triton_kernels as kernels
from zoology_bench.kernels.fft.tables import Shape, Tables, filters, spectrum, tables
from zoology_bench.kernels.gated_op import Gradients, OutGates, Passes, register
from zoology_bench.kernels.triton_common import (
    batch_chunk,
    bias_rows,
    capability_of,
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

SCRATCH_BYTES = 256 * 1024**2
"""What the parts of a long signal may occupy at a time; the batch is taken in pieces that fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one launch needs besides its operands."""

    shape: Shape
    constants: Tables
    options: dict[str, Any]


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
    plan = _plan(x, _tile(x, h), precision)
    outs = [empty_output(x, tuple(x.shape), x.dtype) for _ in out_gates]
    if h.ndim == 2:
        operand = (*_no_rows(), *_no_rows(), spectrum(h, plan.shape))
    else:
        operand = (*filter_rows(h), *_no_rows(), None)
    epilogue = (packed(skip), *bias_rows(bias), *out_rows(outs, out_gates))
    signal = (*rows(x), *gate_rows(x_gate))
    _convolve(plan, signal, operand, h.shape[-1], epilogue, outs[0], correlate)
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
    plan = _plan(u, _tile(u, h), precision)
    dz = (*rows(dy), *gate_rows(post_gate))
    v = (*rows(u), *gate_rows(pre_gate))
    if h.ndim == 2:
        return _shared_filter_grad(plan, dz, v, u, h)
    # Nothing to sum over the batch: a correlation of two signals, of which K lags are kept.
    dh = torch.empty(h.shape, dtype=torch.float32, device=h.device)
    epilogue = (None, *bias_rows(None), *out_rows([dh], (None,)))
    _convolve(plan, dz, (*v, None), u.shape[-1], epilogue, dh, True)
    return dh.to(h.dtype)


def joint_pass(
    dy: Tensor,
    u: Tensor,
    h: Tensor,
    gates: Gates,
    *,
    need_pre: bool,
    need_post: bool,
    precision: str | None,
) -> Gradients | None:
    """The gradients of signal, filter and gates from one kernel; see ``Passes.joint``."""
    per_example = h.ndim == 3
    tile = table.fft_gradients_tile(u.shape[-1], u.dtype, capability_of(u), per_example=per_example)
    if tile is None:
        return None
    plan = _plan(u, tile, precision)
    shape, constants = plan.shape, plan.constants
    batch, channels, length = u.shape
    chunk = 1 if per_example else batch_chunk(batch)
    chunks = n_blocks(batch, chunk)
    outs = [
        empty_output(u, tuple(u.shape), u.dtype) if needed else None
        for needed in (True, need_pre, need_post)
    ]
    if per_example:
        dw = empty_output(h, tuple(h.shape), h.dtype)
        operand = (*filter_rows(h), None)
    else:
        size = (chunks, channels, 1, 2, shape.n1, shape.n2)
        dw = torch.empty(size, dtype=torch.float32, device=u.device)
        operand = (*_no_rows(), spectrum(h, shape))
    launch(
        kernels.fft_gradients_kernel,
        (chunks * channels,),
        *rows(dy),
        *gate_rows(gates.post_gate),
        *rows(u),
        *gate_rows(gates.pre_gate),
        *operand,
        packed(gates.skip),
        *bias_rows(gates.bias),
        *outs,
        dw,
        constants.f1,
        constants.f2,
        constants.twiddle,
        batch,
        channels,
        length,
        h.shape[-1],
        chunk,
        SCALE=shape.points**0.5,
        **plan.options,
    )
    du, d_pre, d_post = (None if x is None else x.to(u.dtype) for x in outs)
    dh = dw.to(h.dtype) if per_example else _filter_grad(plan, dw, h)
    return Gradients(u=du, h=dh, pre_gate=d_pre, post_gate=d_post)


def _tile(x: Tensor, h: Tensor) -> table.FftTile:
    return table.fft_tile(x.shape[-1], x.dtype, capability_of(x), per_example=h.ndim == 3)


def _plan(x: Tensor, tile: table.FftTile, precision: str | None) -> Plan:
    shape = Shape(parts=tile.parts, n1=tile.n1, n2=tile.n2)
    options = {
        "N1": shape.n1,
        "N2": shape.n2,
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
        **operand_options(x.dtype, precision, table.FFT_PRECISION),
    }
    return Plan(shape=shape, constants=tables(shape, x.device), options=options)


def _no_rows() -> tuple[None, int, int]:
    return None, 0, 0


def _convolve(
    plan: Plan,
    signal: tuple[Any, ...],
    operand: tuple[Any, ...],
    operand_length: int,
    epilogue: tuple[Any, ...],
    out: Tensor,
    correlate: bool,
) -> None:
    """Launch one kernel where the signal fits one tile, else two per piece of the batch."""
    shape, constants = plan.shape, plan.constants
    batch, channels, length = signal[0].shape
    # Both operands carry the factor 1 / sqrt(M) of a unitary transform, and the product only one.
    options = {"SCALE": shape.points**0.5, "CORRELATE": correlate, **plan.options}
    if shape.parts == 1:
        chunk = table.fft_chunk(batch, channels) if operand[-1] is not None else 1
        launch(
            kernels.fft_conv_kernel,
            (channels * n_blocks(batch, chunk),),
            *signal,
            *operand,
            *epilogue,
            constants.f1,
            constants.f2,
            constants.twiddle,
            batch,
            channels,
            length,
            operand_length,
            out.shape[-1],
            chunk,
            **options,
        )
        return
    piece = max(1, min(batch, SCRATCH_BYTES // (8 * channels * shape.length)))
    scratch = torch.empty(
        piece, channels, shape.parts, 2, shape.points, dtype=torch.float32, device=out.device
    )
    padded = 1 << (shape.parts - 1).bit_length()
    block = min(shape.points, table.COMBINE_POINTS // padded)
    for first in range(0, batch, piece):
        n_examples = min(piece, batch - first)
        launch(
            kernels.fft_part_kernel,
            (n_examples * channels * shape.parts,),
            *signal,
            *operand,
            scratch,
            constants.f1,
            constants.f2,
            constants.twiddle,
            constants.phase,
            first,
            channels,
            length,
            operand_length,
            shape.parts,
            **options,
        )
        launch(
            kernels.fft_combine_kernel,
            (n_examples * channels, n_blocks(shape.points, block)),
            scratch,
            *signal,
            *epilogue,
            constants.phase,
            first,
            channels,
            length,
            out.shape[-1],
            shape.parts,
            shape.points,
            R_PADDED=padded,
            BLOCK=block,
        )


def _shared_filter_grad(
    plan: Plan, dz: tuple[Any, ...], v: tuple[Any, ...], u: Tensor, h: Tensor
) -> Tensor:
    shape, constants = plan.shape, plan.constants
    batch, channels, length = u.shape
    chunk = batch_chunk(batch)
    chunks = n_blocks(batch, chunk)
    partial = torch.empty(
        chunks, channels, shape.parts, 2, shape.n1, shape.n2, dtype=torch.float32, device=u.device
    )
    block_k1 = min(shape.n1, table.CROSS_BLOCK_K1)
    launch(
        kernels.cross_spectrum_kernel,
        (chunks * channels, shape.parts * (shape.n1 // block_k1)),
        *dz,
        *v,
        partial,
        constants.f1,
        constants.f2,
        constants.twiddle,
        constants.phase,
        batch,
        channels,
        length,
        shape.parts,
        chunk,
        BLOCK_K1=block_k1,
        COMPLEX=shape.parts > 1,
        **plan.options,
    )
    return _filter_grad(plan, partial, h)


def _filter_grad(plan: Plan, partial: Tensor, h: Tensor) -> Tensor:
    """A shared filter's gradient from the cross-spectra (chunks, D, R, 2, N1, N2)."""
    # Both spectra carry 1 / sqrt(M).
    spectra = plan.shape.points * partial.sum(0)
    return filters(spectra, plan.shape, h.shape[-1]).to(h.dtype)


conv = register("fft", Passes(signal=signal_pass, filter=filter_pass, joint=joint_pass))
