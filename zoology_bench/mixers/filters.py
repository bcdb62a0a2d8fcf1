"""Filters of the convolutional mixers: one weight per lag, or a small network of the lag.

Letters: T time, D d_model, K taps.
"""

import math
import sys
from itertools import pairwise

import torch
from torch import Tensor, nn

from zoology_bench.mixers.base import init_linear_, linear

FILTERS = ("short", "explicit", "implicit")

D_HIDDEN = 16
N_INNER_OFFICIAL = 2
FREQUENCY_OFFICIAL = 1e-4
"""What the published code evaluates to for three features (an interpolation between 1e-4 and 0)."""
DECAY_TARGET = 1e-2
FAST_DECAY, SLOW_DECAY = 0.3, 1.5
"""Fractions of seq_len after which the fastest and slowest channel have decayed to the target."""


class ExplicitFilter(nn.Module):
    """One trained weight per channel and lag 0..K-1; zero beyond."""

    def __init__(self, d_model: int, n_taps: int) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.empty(d_model, n_taps))

    @property
    def max_lag(self) -> int:
        """The largest lag with a weight."""
        return self.taps.shape[1] - 1

    def forward(self, length: int) -> Tensor:
        """(D, min(K, length)) weights by lag."""
        return self.taps[:, :length]


class ImplicitFilter(nn.Module):
    """A sine network 3 -> 16 -> D of the features [t, cos, sin] of the lag (arXiv:2302.10866).

    Args:
        d_model: channels D.
        seq_len: lag at which t reaches 1; longer inputs extrapolate.
        official: the published code's filter instead: two more inner layers, an exponential
            window over lags, and cosine and sine so slow (1e-4 turns) that t is nearly its only
            feature.
    """

    decay: Tensor
    max_lag = sys.maxsize

    def __init__(self, d_model: int, seq_len: int, *, official: bool = False) -> None:
        super().__init__()
        self.seq_len = seq_len
        self.turns = FREQUENCY_OFFICIAL if official else 1.0
        n_inner = N_INNER_OFFICIAL if official else 0
        widths = [3] + [D_HIDDEN] * (1 + n_inner)
        self.hidden = nn.ModuleList(linear(a, b, bias=True) for a, b in pairwise(widths))
        self.frequency = nn.Parameter(torch.empty(D_HIDDEN))
        self.out = linear(D_HIDDEN, d_model)
        slow, fast = (-math.log(DECAY_TARGET) / part for part in (SLOW_DECAY, FAST_DECAY))
        rates = torch.linspace(slow, fast, d_model) if official else torch.zeros(d_model)
        self.register_buffer("decay", rates)

    def forward(self, length: int) -> Tensor:
        """(D, length) weights by lag."""
        lag = torch.arange(length, device=self.decay.device, dtype=self.decay.dtype)
        t = lag / max(self.seq_len - 1, 1)
        angle = 2 * math.pi * self.turns / self.seq_len * lag
        z = torch.stack([t, angle.cos(), -angle.sin()], dim=-1)
        for layer in self.hidden:
            z = torch.sin(self.frequency * layer(z))
        return (self.out(z) * torch.exp(-t[:, None] * self.decay)).T


def latest_output(window: Tensor, taps: ExplicitFilter | ImplicitFilter) -> Tensor:
    """The convolution at the last of the tokens so far: (B, n, D) -> (B, D), for decode forms."""
    # The last row of the window is lag 0.
    weights = taps(window.shape[1]).flip(-1)
    return torch.einsum("bkd,dk->bd", window[:, -weights.shape[1] :], weights)


def remembered(window: Tensor, taps: ExplicitFilter | ImplicitFilter) -> Tensor:
    """The tokens of (B, n, D) that a later output can still reach, in memory of their own."""
    kept = min(window.shape[1], taps.max_lag)
    return window[:, window.shape[1] - kept :].clone()


def init_filter_(
    module: ExplicitFilter | ImplicitFilter,
    kind: str,
    scheme: str,
    generator: torch.Generator,
) -> None:
    """Fill a filter in place.

    Args:
        module: the filter.
        kind: one of ``FILTERS``.
        scheme: one of ``INITS``; recipe makes a short filter a delta at lag 1 and an explicit one
            a running sum, 1/sqrt(K) at every lag.
        generator: the only source of randomness.
    """
    if isinstance(module, ImplicitFilter):
        for layer in module.hidden:
            assert isinstance(layer, nn.Linear)
            init_linear_(layer, scheme, generator)
        init_linear_(module.out, scheme, generator)
        nn.init.ones_(module.frequency)
        return
    n_taps = module.taps.shape[1]
    if scheme == "recipe" and kind == "short":
        nn.init.zeros_(module.taps)
        with torch.no_grad():
            module.taps[:, min(1, n_taps - 1)] = 1.0
    elif scheme == "recipe":
        nn.init.constant_(module.taps, n_taps**-0.5)
    elif scheme == "gpt2":
        # The published presets leave convolutions at torch's default.
        bound = n_taps**-0.5
        nn.init.uniform_(module.taps, -bound, bound, generator=generator)
    else:
        nn.init.normal_(module.taps, std=n_taps**-0.5, generator=generator)
