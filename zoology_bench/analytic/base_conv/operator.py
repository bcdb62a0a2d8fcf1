"""The construction through the suite's convolution kernels, with filters read off each example.

The blocks of the proof's stack run one after the other instead of below each other: block l shifts
by s_l alone, which the corrected stack equals row by row.
Letters: B batch, T seq_len, V vocab_size = channels, J n_distances.
"""

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor

from zoology_bench.analytic.base_conv.rows import (
    Rows,
    block_weights,
    check_summable,
    nothing_bias,
)
from zoology_bench.data.layout import PublicLayout
from zoology_bench.kernels import fft_conv, shift_conv

MAX_ROW_BYTES = 1 << 30
"""Bound on the dense tensors of one row."""
MAX_CHUNK_BYTES = 256 << 20
"""Bound on those of the rows that run together, where one row fits."""
_LIVE_TENSORS = 8
"""Tensors of (T, V) float64 that are alive at once; the spectra of the FFT count twice."""


def check_operator(layout: PublicLayout, n_distances: int) -> None:
    """Raise ``ValueError`` where the dense tensors of one row would exceed ``MAX_ROW_BYTES``."""
    check_summable(n_distances, "operator")
    if row_bytes(layout) > MAX_ROW_BYTES:
        raise ValueError(
            f"model.implementation=operator holds {row_bytes(layout)} bytes per row of "
            f"task.seq_len={layout.seq_len} and task.vocab_size={layout.vocabulary.size}, more "
            f"than {MAX_ROW_BYTES}: use token"
        )


def row_bytes(layout: PublicLayout) -> int:
    """Bytes that one row needs."""
    return 8 * _LIVE_TENSORS * layout.seq_len * layout.vocabulary.size


def logits(rows: Rows, vocab_size: int, absent: int | None, kernel: str) -> Tensor:
    """(B, Q, V) float64 outputs at ``rows.positions``.

    Args:
        rows: B rows with Q positions and J lags each.
        vocab_size: V.
        absent: the answer where nothing matches, None for zero logits.
        kernel: one of ``KERNELS``.
    """
    conv = _SHIFTS[kernel]
    u = rearrange(F.one_hot(rows.tokens, vocab_size).double(), "b t v -> b v t")
    follows = F.pad(rows.written, (1, -1))
    q, k, v = (u * mask[:, None] for mask in (rows.asked, rows.written, follows))
    n_distances = rows.lags.shape[1]
    at = repeat(rows.positions, "b q -> b v q", v=vocab_size)
    out = nothing_bias(vocab_size, absent, n_distances).to(u.device)[:, None]
    for lag, weight in zip(rows.lags.unbind(1), block_weights(n_distances), strict=True):
        y = conv(k, lag, q)
        # Linear_E adds up the channels: all of row i is one where y has a one there.
        smeared = y.sum(1, keepdim=True).expand_as(v)
        out = out + weight * conv(v, lag - 1, smeared).gather(2, at)
    return rearrange(out, "b v q -> b q v")


def _shift_by(u: Tensor, lag: Tensor, gate: Tensor) -> Tensor:
    """``gate * shift_down(u, lag)`` with one delta per example."""
    shifts = repeat(lag, "b -> b v 1", v=u.shape[1])
    return shift_conv(u, shifts, torch.ones_like(shifts, dtype=u.dtype), post_gate=gate)


def _fft_by(u: Tensor, lag: Tensor, gate: Tensor) -> Tensor:
    """The same through filters of T taps; a lag of T has none."""
    length = u.shape[2]
    taps = F.one_hot(lag, length + 1)[:, :length].to(u.dtype)
    filters = repeat(taps, "b t -> b v t", v=u.shape[1])
    # Rounding leaves 1e-16 where zeros belong, which Linear_E and 2^-l would lift over a match.
    return gate * fft_conv(u, filters).round()


_SHIFTS = {"shift": _shift_by, "fft": _fft_by}
KERNELS = tuple(_SHIFTS)
"""shift: a filter of one delta per channel; fft: one of T taps through the FFT, in float64."""
