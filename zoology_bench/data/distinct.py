"""k of m without replacement, in order, exactly: every ordered k-tuple is equally likely.

Draws are ceil(log2 m) masked bits; values >= m and repeats are skipped and the first k survivors
count. A procedure that looks only at the range and equality pattern of iid uniform draws is
equivariant under relabelling of the values, hence exact, with no multiply-shift bias.
"""

import math

import torch
from torch import Tensor

from zoology_bench.data.random import by_cached_rows, lanes16, lanes32, sort_rows

_MAX_EXPECTED_SURPLUS = 0.35
"""Below this many skipped draws per list it is cheaper to redraw the few lists that skip any."""
_COMPARE_PAIRWISE = 8
"""Up to this k, k^2 / 2 whole-column comparisons beat a sort of each row."""


class Distinct:
    """Sampler of ordered lists of k distinct integers of [0, m).

    Args:
        k: list length, 1 <= k <= m.
        m: number of values.
        stream: stream number of the random bits (see ``data.random``).
    """

    def __init__(self, k: int, m: int, stream: int) -> None:
        assert 1 <= k <= m, (k, m)
        self.k, self.m, self._stream = k, m, stream
        self._value_bits = (m - 1).bit_length()
        self._lanes = lanes16 if self._value_bits <= 15 else lanes32
        # The j-th survivor takes a geometric number of draws with success probability p_j.
        success = [(m - j) / (1 << self._value_bits) for j in range(k)]
        mean = sum(1 / p for p in success)
        self._whole_lists = mean - k < _MAX_EXPECTED_SURPLUS
        if self._whole_lists:
            self._n_draws = k
        else:
            deviation = math.sqrt(sum((1 - p) / p**2 for p in success))
            per_word = 4 if self._lanes is lanes16 else 2
            self._n_draws = -(-math.ceil(mean + 6 * deviation + 1) // per_word) * per_word
        self._pos_bits = (self._n_draws - 1).bit_length()
        small = self._pos_bits + self._value_bits <= 30
        self._packed = torch.int32 if small else torch.int64

    def __call__(self, keys: Tensor) -> Tensor:
        """(B, k) lists for row keys (B,), of the narrowest integer type that was at hand."""
        return by_cached_rows(self._lists, keys, self._n_draws)

    def _lists(self, keys: Tensor) -> Tensor:
        draws = self._draw(keys, attempt=0)
        return self._redraw_lists(draws, keys) if self._whole_lists else self._first(draws, keys)

    def _draw(self, keys: Tensor, attempt: int) -> Tensor:
        bits = self._lanes(keys, self._stream, self._n_draws, attempt)
        return bits & ((1 << self._value_bits) - 1)

    def _redraw_lists(self, lists: Tensor, keys: Tensor) -> Tensor:
        """Replace every list that skips a draw by the list of the next attempt."""
        bad = torch.nonzero(self._skips(lists))[:, 0]
        attempt = 1
        while bad.numel():
            again = self._draw(keys[bad], attempt)
            lists[bad] = again
            bad = bad[self._skips(again)]
            attempt += 1
        return lists

    def _skips(self, lists: Tensor) -> Tensor:
        """(B,) bool: the list repeats a value or leaves the range."""
        may_leave = self.m < 1 << self._value_bits
        if self.k <= _COMPARE_PAIRWISE:
            columns = lists.t().contiguous()
            last = columns.amax(0)
            found = torch.zeros_like(last, dtype=torch.bool)
            for i in range(1, self.k):
                found |= (columns[i] == columns[:i]).any(0)
        else:
            ordered = sort_rows(lists.clone())
            last = ordered[:, -1]
            found = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        return found | (last >= self.m) if may_leave else found

    def _first(self, draws: Tensor, keys: Tensor) -> Tensor:
        """The first k distinct values in range, by two sorts: by (value, time), then by time."""
        spent = torch.iinfo(self._packed).max
        time = torch.arange(self._n_draws, dtype=self._packed, device=draws.device)
        packed = draws.to(self._packed)
        packed <<= self._pos_bits
        packed |= time
        packed = sort_rows(packed)
        value = packed >> self._pos_bits
        packed &= (1 << self._pos_bits) - 1
        packed <<= self._value_bits
        packed |= value
        packed[:, 1:].masked_fill_(value[:, 1:] == value[:, :-1], spent)
        if self.m < 1 << self._value_bits:
            packed.masked_fill_(value >= self.m, spent)
        lists = sort_rows(packed)[:, : self.k]
        short = torch.nonzero(lists[:, -1] == spent)[:, 0]
        lists = lists & ((1 << self._value_bits) - 1)
        for row in short.tolist():
            lists[row] = torch.tensor(self._keep_drawing(keys[row : row + 1]), dtype=lists.dtype)
        return lists

    def _keep_drawing(self, key: Tensor) -> list[int]:
        """One list (of about 10^8) whose draws did not suffice: go on through further attempts."""
        seen: dict[int, None] = {}
        attempt = 0
        while len(seen) < self.k:
            for value in self._draw(key, attempt)[0].tolist():
                if value < self.m:
                    seen.setdefault(value)
            attempt += 1
        return list(seen)[: self.k]
