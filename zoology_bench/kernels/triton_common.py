"""What the Triton kernels share: rounding of matrix operands, gated loads, epilogue, gate sums.

Letters: B batch, D channels, L length, S chunks of the batch. Signals, gates and outputs are
addressed by their strides over B and D; positions are adjacent.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zoology_bench.kernels import table
from zoology_bench.kernels.common import Gates

SUMS_BLOCK = 256
"""Positions that one program of the gate sums covers."""
MAX_CHUNKS = 4
"""Partial results that a sum over the batch is split into: programs, but also memory."""
COUNTS = ("B", "D", "J", "R", "CHUNK", "FIRST")
"""Arguments of kernels that no address is aligned by: a kernel is compiled once for all values."""


@triton.jit
def rounded(x, DOT: tl.constexpr, EMULATE: tl.constexpr):
    """Round to the type of a matrix operand. The interpreter truncates to bf16 and multiplies its
    bit patterns, so there (EMULATE) a value is rounded to nearest even and kept in fp32."""
    if EMULATE:
        bits = x.to(tl.float32).to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536
        return bits.to(tl.float32, bitcast=True)
    return x.to(DOT)


@triton.jit
def load_gated(x_ptr, x_base, gate_ptr, gate_base, offset, mask):
    """Load x, times its gate if there is one, in fp32."""
    x = tl.load(x_ptr + x_base + offset, mask=mask, other=0.0).to(tl.float32)
    if gate_ptr is not None:
        x *= tl.load(gate_ptr + gate_base + offset, mask=mask, other=0.0).to(tl.float32)
    return x


@triton.jit
def store_gated(out_ptr, out_base, gate_ptr, gate_base, y, offset, mask):
    """Store y, times its gate if there is one."""
    if gate_ptr is not None:
        y *= tl.load(gate_ptr + gate_base + offset, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + out_base + offset, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=COUNTS)
def gate_sums_kernel(
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
    dz_ptr,
    dzv_ptr,
    B,
    D,
    L,
    BLOCK: tl.constexpr,
):
    """Sum dz = post * dy, and dz * pre * u, over the batch: one program per channel and block.

    The sums serve the gradients of bias and skip.
    """
    d = tl.program_id(0).to(tl.int64)
    position = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = position < L
    dz_sum = tl.zeros((BLOCK,), tl.float32)
    dzv_sum = tl.zeros((BLOCK,), tl.float32)
    for b in range(B):
        row = d * 0 + b
        dz = load_gated(
            dy_ptr, row * dy_b + d * dy_d, post_ptr, row * post_b + d * post_d, position, mask
        )
        dz_sum += dz
        if dzv_ptr is not None:
            dzv_sum += dz * load_gated(
                u_ptr, row * u_b + d * u_d, pre_ptr, row * pre_b + d * pre_d, position, mask
            )
    tl.store(dz_ptr + d * L + position, dz_sum, mask=mask)
    if dzv_ptr is not None:
        tl.store(dzv_ptr + d * L + position, dzv_sum, mask=mask)


INTERPRETED = not isinstance(gate_sums_kernel, triton.JITFunction)
"""Whether TRITON_INTERPRET=1 was set when Triton was imported: kernels then run on the CPU."""

_DOT = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


def n_blocks(total: int, size: int) -> int:
    """Blocks of ``size`` that cover ``total``."""
    return -(-total // size)


def launch(kernel: Any, grid: tuple[int, ...], x: Tensor, *args: Any, **options: Any) -> None:
    """Run a kernel on the device of its first argument, which need not be the current one."""
    with torch.cuda.device_of(x):
        kernel[grid](x, *args, **options)


def capability_of(x: Tensor) -> tuple[int, int]:
    """The compute capability of the GPU that holds x; that of an H100 in the interpreter."""
    return table.capability_of(x) or (9, 0)


def operand_options(dtype: torch.dtype, precision: str | None, default: str) -> dict[str, Any]:
    """The constexpr arguments that say how a kernel multiplies signals of ``dtype``.

    Args:
        dtype: of the signal.
        precision: of fp32 products, or None for the kernel's own.
        default: the kernel's own.
    """
    emulate = INTERPRETED and dtype == torch.bfloat16
    return {
        "DOT": tl.float32 if emulate else _DOT[dtype],
        "PRECISION": (precision or default) if dtype == torch.float32 else "ieee",
        "EMULATE": emulate,
    }


def empty_output(like: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A fresh contiguous output; fp32 in place of bf16 in the interpreter, whose store truncates.

    The caller rounds to ``dtype`` at the end, which costs nothing where it already holds.
    """
    held = torch.float32 if INTERPRETED and dtype == torch.bfloat16 else dtype
    return torch.empty(shape, dtype=held, device=like.device)


def rows(x: Tensor) -> tuple[Tensor, int, int]:
    """A (B, D, L) operand with its strides over B and D; copied only if positions are apart."""
    if x.stride(-1) != 1 and x.shape[-1] > 1:
        x = x.contiguous()
    return x, x.stride(0), x.stride(1)


def gate_rows(gate: Tensor | None) -> tuple[Tensor | None, int, int]:
    """The same for a gate, or for its absence."""
    return (None, 0, 0) if gate is None else rows(gate)


def filter_rows(h: Tensor) -> tuple[Tensor, int, int]:
    """A (D, K) or (B, D, K) filter with its strides over B and D, 0 over B if shared."""
    if h.stride(-1) != 1 and h.shape[-1] > 1:
        h = h.contiguous()
    return (h, 0, h.stride(0)) if h.ndim == 2 else (h, h.stride(0), h.stride(1))


def packed(skip: Tensor | None) -> Tensor | None:
    """A (D,) skip whose channels are adjacent."""
    return None if skip is None else skip.contiguous()


def bias_rows(bias: Tensor | None) -> tuple[Tensor | None, int, int]:
    """A (D,) or (D, L) bias with its strides over D and L, 0 over L if it has none."""
    if bias is None:
        return None, 0, 0
    return bias, bias.stride(0), bias.stride(1) if bias.ndim == 2 else 0


def out_rows(outs: list[Tensor], gates: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    """The arguments for one or two outputs, each with its gate."""
    second = (None, *gate_rows(None)) if len(outs) == 1 else (outs[1], *gate_rows(gates[1]))
    return (outs[0], *gate_rows(gates[0]), *second)


def batch_chunk(batch: int) -> int:
    """Examples that one program of a sum over the batch takes."""
    return n_blocks(batch, min(batch, MAX_CHUNKS))


def skip_and_bias_grads(dy: Tensor, u: Tensor, gates: Gates) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of skip, (D,), and bias, (D,) or (D, L), as far as there are any.

    Args:
        dy: (B, D, L) gradient of the output.
        u: (B, D, L).
        gates: of the forward pass.
    """
    if gates.skip is None and gates.bias is None:
        return None, None
    batch, channels, length = u.shape
    dz = torch.empty(channels, length, dtype=torch.float32, device=u.device)
    dzv = None if gates.skip is None else torch.empty_like(dz)
    launch(
        gate_sums_kernel,
        (channels, n_blocks(length, SUMS_BLOCK)),
        *rows(dy),
        *gate_rows(gates.post_gate),
        *rows(u),
        *gate_rows(gates.pre_gate),
        dz,
        dzv,
        batch,
        channels,
        length,
        BLOCK=SUMS_BLOCK,
    )
    d_skip = None if dzv is None or gates.skip is None else dzv.sum(-1).to(gates.skip.dtype)
    if gates.bias is None:
        return d_skip, None
    return d_skip, (dz.sum(-1) if gates.bias.ndim == 1 else dz).to(gates.bias.dtype)
