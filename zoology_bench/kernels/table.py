"""The static table: which implementation, route and tile a convolution gets, and nothing measured.

Every choice depends on length, filter kind, dtype and compute capability alone, so that the same
call takes the same path in every run. Letters: R sub-transforms, M = N1 N2 points of each.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

SHORT_MAX_TAPS = 8
"""Up to here a shared filter goes to torch's depthwise convolution, which nothing beats."""
TOEPLITZ_MAX_LENGTH = 256
"""Up to here, and up to twice the batch, the product of a shared filter's L x L matrices beats two
FFTs of length 2L on one CPU thread: making the matrices costs as much for one example as for many.
"""
MIN_SPEEDUP = 2.0
"""A kernel is chosen only where it was measured to be this many times as fast as torch's FFT."""
MAX_LENGTH = 32_768
"""The longest signal of a Triton kernel."""
MIN_CAPABILITY = (8, 0)
"""The first compute capability with bf16 matrix instructions."""

HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Where ``impl="auto"`` may take a Triton kernel on a GPU, and how fast it was seen there."""

    op: str
    per_example: bool
    dtypes: tuple[torch.dtype, ...]
    capability: tuple[int, int]
    """The compute capability from which on the rule holds."""
    min_length: int
    max_length: int
    speedup: float | None
    """Over the torch route, forward and backward; None where nobody has measured it."""


RULES = (
    Rule(
        op="toeplitz",
        per_example=False,
        dtypes=HALF,
        capability=(8, 0),
        min_length=1,
        max_length=512,
        speedup=None,
    ),
    Rule(
        op="toeplitz",
        per_example=True,
        dtypes=HALF,
        capability=(8, 0),
        min_length=1,
        max_length=512,
        speedup=None,
    ),
    Rule(
        op="fft",
        per_example=False,
        dtypes=HALF,
        capability=(8, 0),
        min_length=1,
        max_length=MAX_LENGTH,
        speedup=None,
    ),
    Rule(
        op="fft",
        per_example=True,
        dtypes=HALF,
        capability=(8, 0),
        min_length=1,
        max_length=MAX_LENGTH,
        speedup=None,
    ),
    Rule(
        op="shift",
        per_example=False,
        dtypes=(*HALF, torch.float32),
        capability=(8, 0),
        min_length=1,
        max_length=MAX_LENGTH,
        speedup=None,
    ),
)
"""The candidates. None has a measured speed-up yet, so ``auto`` takes the torch route for each."""


def capability_of(u: Tensor) -> tuple[int, int] | None:
    """The compute capability of the GPU that holds ``u``; None on a CPU."""
    return torch.cuda.get_device_capability(u.device) if u.is_cuda else None


def auto_impl(
    op: str,
    *,
    length: int,
    per_example: bool,
    dtype: torch.dtype,
    capability: tuple[int, int] | None,
    rules: tuple[Rule, ...] = RULES,
) -> str:
    """Choose ``"triton"`` or ``"reference"`` for one call.

    Args:
        op: fft, toeplitz or shift.
        length: L.
        per_example: whether every example brings its own filter.
        dtype: of the signal.
        capability: of the GPU that holds the signal; None on a CPU.
        rules: the table.
    """
    if capability is None:
        return "reference"
    for rule in rules:
        if (
            rule.op == op
            and rule.per_example == per_example
            and dtype in rule.dtypes
            and capability >= rule.capability
            and rule.min_length <= length <= rule.max_length
            and (rule.speedup or 0.0) >= MIN_SPEEDUP
        ):
            return "triton"
    return "reference"


def dense_route(u: Tensor, h: Tensor, rules: tuple[Rule, ...] = RULES) -> str:
    """Choose depthwise, toeplitz or fft for a causal convolution with a dense filter.

    A route that has a kernel is taken before torch's, the product before the transform.

    Args:
        u: (B, D, L).
        h: (D, K) or (B, D, K).
        rules: the table.
    """
    if h.ndim == 2 and h.shape[-1] <= SHORT_MAX_TAPS:
        return "depthwise"
    for op in ("toeplitz", "fft"):
        impl = auto_impl(
            op,
            length=u.shape[-1],
            per_example=h.ndim == 3,
            dtype=u.dtype,
            capability=capability_of(u),
            rules=rules,
        )
        if impl == "triton":
            return op
    if h.ndim == 2 and u.shape[-1] <= min(TOEPLITZ_MAX_LENGTH, 2 * u.shape[0]):
        return "toeplitz"
    return "fft"


TOEPLITZ_PRECISION = "tf32x3"
"""As accurate as fp32 products, on matrix instructions."""


def toeplitz_batch_tile(batch: int, dtype: torch.dtype) -> dict[str, int]:
    """Block sizes of the Toeplitz kernel for shared filters: rows are examples.

    fp32 products, each of three of tf32, spill registers in larger blocks.
    """
    widest, block_m = (32, 32) if dtype == torch.float32 else (64, 64)
    block_b = next((size for size in (16, 32) if batch <= size), widest)
    return {"BLOCK_B": block_b, "BLOCK_N": 64, "BLOCK_M": block_m, "num_warps": 4, "num_stages": 2}


def toeplitz_split_tile(n_outputs: int, dtype: torch.dtype) -> dict[str, int]:
    """Block sizes of the Toeplitz kernel for two varying operands: ROWS * COLS outputs each."""
    side = 16 if n_outputs <= 256 else 32
    block_m, num_warps = (32, 4) if dtype == torch.float32 else (64, 2)
    return {
        "ROWS": side,
        "COLS": side,
        "BLOCK_M": block_m,
        "num_warps": num_warps,
        "num_stages": 2,
    }


SHIFT_BLOCK = 1024
"""Positions per program of the shift kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FftTile:
    """How a transform is cut: parts of n1 * n2 points, and the warps that share one."""

    parts: int
    n1: int
    n2: int
    num_warps: int
    num_stages: int = 1


FFT_PRECISION = "ieee"
"""Of fp32 products in the transform."""
COMBINE_POINTS = 4096
"""Outputs per program of the kernel that combines parts."""
CROSS_BLOCK_K1 = 32
"""Rows of a cross-spectrum per program."""

_TILES = (
    FftTile(parts=1, n1=16, n2=16, num_warps=1),
    FftTile(parts=1, n1=32, n2=16, num_warps=2),
    FftTile(parts=1, n1=32, n2=32, num_warps=4),
    FftTile(parts=1, n1=64, n2=32, num_warps=4),
)
_TILES_FP32 = (
    FftTile(parts=1, n1=16, n2=16, num_warps=2),
    FftTile(parts=1, n1=32, n2=16, num_warps=8),
)


def fft_tile(
    length: int, dtype: torch.dtype, capability: tuple[int, int], *, per_example: bool
) -> FftTile:
    """The smallest transform that holds a signal: any number of parts, so no powers of two.

    Longer signals are cut into parts of the largest tile that does not spill registers: 64 x 64
    points do, and in fp32, whose products have no matrix instructions, 32 x 32, and 32 x 16 in
    parts where the filter is transformed in the same program. Below (9, 0) a part of 64 x 32 needs
    twice the warps.

    Args:
        length: L.
        dtype: of the signal.
        capability: of the GPU.
        per_example: whether each example has a filter of its own.
    """
    fp32 = dtype == torch.float32
    tiles = _TILES_FP32 if fp32 else _TILES
    for tile in tiles:
        if length <= tile.n1 * tile.n2:
            return tile
    if fp32:
        largest = replace(tiles[0] if per_example else tiles[-1], num_warps=8)
    else:
        largest = replace(tiles[-1], num_warps=4 if capability >= (9, 0) else 8)
    return replace(largest, parts=-(-length // (largest.n1 * largest.n2)))


def fft_gradients_tile(
    length: int, dtype: torch.dtype, capability: tuple[int, int], *, per_example: bool
) -> FftTile | None:
    """The tile whose kernel makes all gradients of a call; None if there is none.

    It holds two spectra and, for a shared filter, the sum of a third at once. That spills registers
    in fp32, with the scales of fp16 beyond 512 points, and below (9, 0) in 64 x 32 points without
    twice the warps.

    Args:
        length: L.
        dtype: of the signal.
        capability: of the GPU.
        per_example: whether each example has a filter of its own.
    """
    tile = fft_tile(length, dtype, capability, per_example=per_example)
    most_points = {torch.bfloat16: 2048, torch.float16: 512}.get(dtype, 0)
    if tile.parts > 1 or tile.n1 * tile.n2 > most_points:
        return None
    if capability < (9, 0) and tile.n1 * tile.n2 == 64 * 32:
        return replace(tile, num_warps=8)
    return tile


def fft_chunk(batch: int, channels: int) -> int:
    """Examples per program: few enough that the programs fill a large GPU a few times over."""
    return max(1, min(8, batch * channels // 1024, batch))
