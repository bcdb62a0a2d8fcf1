"""Constants of the quarter-shift transform, and the spectra of shared filters, in plain torch.

N = R M points, M = N1 N2, frequencies k + 1/4 with k = j + R (k1 + N1 k2), positions
n = r M + n1 N2 + n2. Part j of a signal x is z_j[m] = sum_r phase[j, r] x[r M + m]; its transform
of M points at frequencies shifted by s_j = (j + 1/4) / R factors into F1, a twiddle T, and F2:

    X_j[k1, k2] = sum_n2 F2[n2, k2] T_j[k1, n2] sum_n1 F1_j[k1, n1] z_j[n1 N2 + n2].
"""

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

SHIFT = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The factors of a transform of N = parts * n1 * n2 points."""

    parts: int
    n1: int
    n2: int

    @property
    def points(self) -> int:
        """M, the points of one part."""
        return self.n1 * self.n2

    @property
    def length(self) -> int:
        """N, the longest signal that fits."""
        return self.parts * self.points


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """fp32, real and imaginary planes apart; F1 and F2 are unitary, so nothing else is scaled."""

    f1: Tensor
    """(R, 2, N1, N1)."""
    f2: Tensor
    """(2, N2, N2), symmetric."""
    twiddle: Tensor
    """(R, 2, N1, N2)."""
    phase: Tensor
    """(R, R, 2)."""


@functools.cache
def tables(shape: Shape, device: torch.device) -> Tables:
    """Build the constants in fp64 and keep them as fp32 on ``device``."""
    n1 = torch.arange(shape.n1, dtype=torch.float64)
    n2 = torch.arange(shape.n2, dtype=torch.float64)
    part = torch.arange(shape.parts, dtype=torch.float64)
    shifted = n1 + ((part + SHIFT) / shape.parts)[:, None]
    f1 = _unit(shifted[..., None] * n1 / shape.n1) / math.sqrt(shape.n1)
    f2 = _unit(n2[:, None] * n2 / shape.n2) / math.sqrt(shape.n2)
    twiddle = _unit(shifted[..., None] * n2 / shape.points)
    phase = _unit((part[:, None] + SHIFT) * part / shape.parts)
    return Tables(
        f1=_planes(f1, device),
        f2=_planes(f2, device),
        twiddle=_planes(twiddle, device),
        phase=torch.view_as_real(phase).float().to(device),
    )


def spectrum(h: Tensor, shape: Shape) -> Tensor:
    """The transform of filters (D, K), not scaled, as (D, R, 2, N1, N2) in fp32."""
    turned = torch.fft.fft(h.float() * _turns(h.shape[-1], shape, h.device), n=shape.length)
    parts = turned.reshape(-1, shape.n2, shape.n1, shape.parts).permute(0, 3, 2, 1)
    return torch.stack([parts.real, parts.imag], dim=2).contiguous()


def filters(spectra: Tensor, shape: Shape, taps: int) -> Tensor:
    """The first taps of the real filters, (D, taps), whose transforms are (D, R, 2, N1, N2)."""
    turned = torch.complex(spectra[:, :, 0], spectra[:, :, 1]).permute(0, 3, 2, 1)
    h = torch.fft.ifft(turned.reshape(-1, shape.length))[:, :taps]
    turns = _turns(taps, shape, spectra.device)
    # The real part of h conj(turns). conj() would be lazy, and inside a traced operator nobody
    # resolves it: the result was off in the fourth digit.
    return h.real * turns.real + h.imag * turns.imag


@functools.cache
def _turns(taps: int, shape: Shape, device: torch.device) -> Tensor:
    # In fp64 first: the angle of a late position has few digits left in fp32.
    n = torch.arange(taps, dtype=torch.float64)
    return _unit(SHIFT * n / shape.length).to(torch.complex64).to(device)


def _unit(turns: Tensor) -> Tensor:
    """exp(-2 pi i turns)."""
    return torch.polar(torch.ones_like(turns), -2 * math.pi * turns)


def _planes(x: Tensor, device: torch.device) -> Tensor:
    return torch.stack([x.real, x.imag], dim=-3).float().contiguous().to(device)
