"""Weighted sampling without replacement, in drawing order, as an exponential race in integers.

Drawing items one by one without replacement with p ~ w is the same law, order included, as sorting
E_g / w_g for iid exponential E_g. Here the sorted key is log2 E_g - log2 w_g in fixed point with
the item's index in the low bits, so that no two keys are equal. All E come from one monotone map
of uniform bits (a table with linear interpolation): equal weights stay exactly exchangeable.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from zoology_bench.data.logarithm import LOG2_BITS, log2_fixed, neg_log_survival
from zoology_bench.data.random import by_cached_rows, lanes32, sort_rows

_TABLE_BITS = 16
_FRACTION_BITS = 11
"""Interpolation between table entries: with more, its product would leave int32."""
_MAX_KEY_BITS = 18
"""Fractional bits of a key. Ties closer than that fall to the lower index, p < 10^-5."""
_MIN_KEY_BITS = 15
"""Below this int32 keys are too coarse and int64 keys take over."""
_FIRST_CELL = 2.3
"""log2 width given to the table's first cell [0, 2^-16): keeps the mean of E there (2^-17)."""
_LAST_CELL = 0.245
"""log2 width given to the last cell, where E - 16 ln 2 is exponential with mean 1."""


class Race:
    """Sampler of the first k of n items drawn with p(g) ~ (g + 1)^-exponent.

    Args:
        n: number of items.
        k: how many are drawn, k <= n.
        exponent: exact, so that every machine computes the same tables.
        stream: stream number of the random bits.
    """

    def __init__(self, n: int, k: int, exponent: Fraction, stream: int) -> None:
        assert 1 <= k <= n, (k, n)
        self.n, self.k, self._stream = n, k, stream
        self._index_bits = (n - 1).bit_length()
        handicap = _power_log2(n, exponent)
        handicap -= handicap.min()
        log_e = _log2_exponential()
        span = int(log_e[-1] + handicap.max()) >> LOG2_BITS
        bits = min(_MAX_KEY_BITS, 31 - self._index_bits - span.bit_length())
        self._dtype = torch.int32
        if bits < _MIN_KEY_BITS:
            bits, self._dtype = _MAX_KEY_BITS, torch.int64
        table = log_e >> (LOG2_BITS - bits)
        handicap = (handicap >> (LOG2_BITS - bits) << self._index_bits) + np.arange(n)
        self._start = torch.from_numpy(table[:-1]).to(self._dtype)
        self._rise = torch.from_numpy(np.diff(table)).to(self._dtype)
        self._handicap = torch.from_numpy(handicap).to(self._dtype)

    def __call__(self, keys: Tensor) -> Tensor:
        """(B, k) items 0..n-1 in drawing order, int32 or int64, for row keys (B,)."""
        return by_cached_rows(self._order, keys, self.n)

    def _order(self, keys: Tensor) -> Tensor:
        device = keys.device
        bits = lanes32(keys, self._stream, self.n)
        cell = bits >> _TABLE_BITS
        cell &= (1 << _TABLE_BITS) - 1
        cell = cell.view(-1)
        key = (bits & ((1 << _FRACTION_BITS) - 1)).to(self._dtype)
        key *= self._rise.to(device).index_select(0, cell).view_as(key)
        key >>= _FRACTION_BITS
        key += self._start.to(device).index_select(0, cell).view_as(key)
        key <<= self._index_bits
        key += self._handicap.to(device)
        return sort_rows(key)[:, : self.k] & ((1 << self._index_bits) - 1)


def _power_log2(n: int, exponent: Fraction) -> np.ndarray:
    """-log2 of the weights: exponent * log2 g for g = 1..n, LOG2_BITS fractional bits."""
    logs = log2_fixed(np.arange(1, n + 1, dtype=np.int64)).tolist()
    scaled = [log * exponent.numerator // exponent.denominator for log in logs]
    return np.array(scaled, dtype=np.int64)


@lru_cache(maxsize=1)
def _log2_exponential() -> np.ndarray:
    """(2^16 + 1,) log2 of -ln(1 - i / 2^16) above its value at 0; both ends are made finite."""
    e = neg_log_survival(_TABLE_BITS)
    log = np.empty((1 << _TABLE_BITS) + 1, dtype=np.int64)
    log[1:-1] = log2_fixed(e[1:])
    log[0] = log[1] - int(_FIRST_CELL * 2**LOG2_BITS)
    log[-1] = log[-2] + int(_LAST_CELL * 2**LOG2_BITS)
    return log - log[0]
