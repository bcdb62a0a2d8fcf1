"""Counts by lag through the FFT, as eq. 19 of arXiv:2312.04927 reads them off the one-hot rows.

The counts are integers: the transform's rounding errors are rounded away, for a tie between two
lags must stay a tie. Letters: B batch, T seq_len, c one-hot channels of a piece.
"""

import torch
from torch import Tensor

_PIECE_BYTES = 64 << 20
"""Bound on one piece of one-hot channels and their spectra."""


def fft_counts(tokens: Tensor, later: Tensor, earlier: Tensor, channels: range) -> Tensor:
    """``r[s] = sum_i <L[i], E[i - s]>`` for s >= 1, of one-hot rows kept where a mask is true.

    Args:
        tokens: (B, T).
        later: (B, T) bool, the rows of L (queries, or every row).
        earlier: (B, T) bool, the rows of E (keys, or every row).
        channels: tokens that count.

    Returns:
        (B, T) int64, indexed by lag, 0 at lag 0; O(c T log T) per row.
    """
    n_rows, length = tokens.shape
    # Of 2T points, so that no lag wraps around.
    spectrum = torch.zeros(n_rows, length + 1, dtype=torch.complex128, device=tokens.device)
    step = max(1, _PIECE_BYTES // (64 * n_rows * length))
    for first in range(channels.start, channels.stop, step):
        ids = torch.arange(first, min(first + step, channels.stop), device=tokens.device)
        one_hot = tokens[:, None] == ids[:, None]
        left = torch.fft.rfft((one_hot & later[:, None]).double(), n=2 * length)
        right = torch.fft.rfft((one_hot & earlier[:, None]).double(), n=2 * length)
        spectrum += (left * right.conj()).sum(1)
    counts = torch.fft.irfft(spectrum, n=2 * length)[:, :length].round().long()
    counts[:, 0] = 0
    return counts
