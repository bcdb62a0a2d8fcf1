"""Counter-based random bits: every draw is a pure function of (row, stream, attempt, j).

So rows never depend on how they are batched.
``draw = mix(row_key[i] + column_key[stream, attempt, j])`` with splitmix64's finaliser as ``mix``.
Column keys are themselves mixed counters, not an arithmetic progression: two rows can then share
single 64-bit coincidences only, never a shifted segment.
Everything is int64 arithmetic that wraps, the same on every device; on CPU the same bits are
computed by NumPy's faster unsigned kernels.
"""

import hashlib
import sys
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

BIT_STREAM_VERSION = 1
"""Part of every hashed tag: raise it if any bit of any draw can change."""

_CACHED_WORDS = 1 << 13
"""64-bit words mixed at once on CPU."""
_CACHED_ELEMENTS = 1 << 16
"""Elements of each intermediate of a sampler."""

_NUMPY_ON_CPU = True
"""Cleared by tests, to prove that the torch path gives the same bits."""

if sys.byteorder != "little":
    raise ImportError("zoology_bench.data views 64-bit draws as smaller lanes: little endian only")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MUL_1 = 0xBF58476D1CE4E5B9
_MUL_2 = 0x94D049BB133111EB


def mix_torch(z: Tensor) -> Tensor:
    """splitmix64's finaliser, in place, on int64 (a bijection of 64-bit words)."""
    for shift, multiplier in ((30, _MUL_1), (27, _MUL_2), (31, None)):
        # int64 has only the arithmetic right shift: the mask makes it logical.
        z ^= (z >> shift) & ((1 << (64 - shift)) - 1)
        if multiplier is not None:
            z *= _signed(multiplier)
    return z


def _mix_numpy(z: np.ndarray) -> None:
    words = z.reshape(-1)
    scratch = np.empty(min(len(words), _CACHED_WORDS), dtype=np.uint64)
    # In pieces that stay in the cache over all eight passes: two to three times faster.
    for first in range(0, len(words), _CACHED_WORDS):
        x = words[first : first + _CACHED_WORDS]
        t = scratch[: len(x)]
        np.right_shift(x, np.uint64(30), out=t)
        x ^= t
        x *= np.uint64(_MUL_1)
        np.right_shift(x, np.uint64(27), out=t)
        x ^= t
        x *= np.uint64(_MUL_2)
        np.right_shift(x, np.uint64(31), out=t)
        x ^= t


def mix(z: Tensor) -> Tensor:
    """splitmix64's finaliser, in place; z is contiguous int64."""
    if _NUMPY_ON_CPU and z.device.type == "cpu":
        _mix_numpy(z.numpy().view(np.uint64))
        return z
    return mix_torch(z)


def row_keys(tag: str, split: str, seed: int, rows: Tensor) -> Tensor:
    """(B,) int64 keys of rows (B,) int64: distinct for distinct rows of one (tag, split, seed).

    Args:
        tag: everything about the task that may change a row, as text.
        split: train, select or report.
        seed: any integer.
        rows: row indices.
    """
    text = f"{BIT_STREAM_VERSION}|{tag}|{split}|{seed}"
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
    return mix(mix(rows * _GOLDEN + _signed(digest)) ^ _signed(digest >> 64))


@lru_cache(maxsize=4096)
def column_keys(stream: int, attempt: int, n: int, device: str = "cpu") -> Tensor:
    """(n,) int64 keys of the n columns of one stream and attempt; do not write to the result."""
    if not (0 <= stream < 1 << 15 and 0 <= attempt < 1 << 16):
        raise ValueError(f"stream={stream} must be below 2^15 and attempt={attempt} below 2^16")
    counter = torch.arange(n, dtype=torch.int64, device=device)
    return mix(mix(counter + _signed(stream << 48 | attempt << 32)) ^ _GOLDEN)


def draws(keys: Tensor, stream: int, n: int, attempt: int = 0) -> Tensor:
    """(B, n) int64 of 64 random bits each, for row keys (B,)."""
    return mix(keys[:, None] + column_keys(stream, attempt, n, str(keys.device)))


def lanes32(keys: Tensor, stream: int, n: int, attempt: int = 0) -> Tensor:
    """(B, n) int32 of 32 random bits each (may be a view of an even number of columns)."""
    return draws(keys, stream, -(-n // 2), attempt).view(torch.int32)[:, :n]


def lanes16(keys: Tensor, stream: int, n: int, attempt: int = 0) -> Tensor:
    """(B, n) int16 of 16 random bits each (may be a view of more columns)."""
    return draws(keys, stream, -(-n // 4), attempt).view(torch.int16)[:, :n]


def bounded(bits32: Tensor, bound: Tensor | int) -> Tensor:
    """int64 in [0, bound) from 32 random bits by multiply-shift; relative error bound / 2^32."""
    return ((bits32.to(torch.int64) & 0xFFFFFFFF) * bound) >> 32


def by_cached_rows(draw: Callable[[Tensor], Tensor], keys: Tensor, width: int) -> Tensor:
    """``draw(keys)`` computed for so few rows at a time that the intermediates stay in the cache.

    Args:
        draw: maps row keys (B,) to (B, k), row by row.
        keys: (B,) row keys.
        width: elements per row of the widest intermediate.
    """
    n_rows = max(64, _CACHED_ELEMENTS // width)
    if len(keys) <= n_rows or keys.device.type != "cpu":
        return draw(keys)
    return torch.cat([draw(part) for part in keys.split(n_rows)])


def sort_rows(x: Tensor) -> Tensor:
    """Ascending sort of the last dimension, by value; may sort in place.

    Never ask for indices: ties would be broken differently on different devices. Pack the index
    into the low bits instead. NumPy's sort is ten times faster than torch's on CPU.
    """
    if _NUMPY_ON_CPU and x.device.type == "cpu":
        x = x.contiguous()
        x.numpy().sort(-1)
        return x
    return torch.sort(x, dim=-1).values
