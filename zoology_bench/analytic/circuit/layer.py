"""The paper's BaseConv layer with biases for every row, on the suite's convolution kernels.

``y = (u W + b1) * (h conv u + b2)``, Definition 4.1 of arXiv:2312.04927 as its theorems use it. The
learned layer (``mixers.base_conv``) is the special case of biases that are equal in every row.
Letters: B batch, D channels, L rows, J taps of a sparse filter. Channels come before rows, as in
the kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoology_bench.kernels import fft_conv, shift_conv


@dataclass(frozen=True, slots=True)
class BaseConvLayer:
    """Parameters of one layer."""

    weight: Tensor
    """(D, D): W, from column to column."""
    gate_bias: Tensor
    """(D, L): b1."""
    shifts: Tensor
    """(D, J) int64, with ``taps`` the sparse form of h."""
    taps: Tensor
    """(D, J)."""
    conv_bias: Tensor
    """(D, L): b2."""

    @classmethod
    def of(
        cls,
        weight: NDArray[np.float64],
        gate_bias: NDArray[np.float64],
        shifts: NDArray[np.int64],
        taps: NDArray[np.float64],
        conv_bias: NDArray[np.float64],
    ) -> "BaseConvLayer":
        """Take over NumPy arrays of these shapes."""
        return cls(*map(torch.from_numpy, (weight, gate_bias, shifts, taps, conv_bias)))

    def to(self, like: Tensor) -> "BaseConvLayer":
        """The layer with the dtype and device of ``like``."""
        device = like.device
        return BaseConvLayer(
            self.weight.to(like),
            self.gate_bias.to(like),
            self.shifts.to(device),
            self.taps.to(like),
            self.conv_bias.to(like),
        )

    def filters(self) -> Tensor:
        """h in full, (D, L)."""
        return torch.zeros_like(self.conv_bias).scatter_add_(1, self.shifts, self.taps)


Convolution = Callable[[Tensor, BaseConvLayer], Tensor]
"""(u (B, D, L), layer) -> h conv u (B, D, L)."""


def base_conv(u: Tensor, layer: BaseConvLayer, convolve: Convolution) -> Tensor:
    """``(u W + b1) * (h conv u + b2)``.

    Args:
        u: (B, D, L).
        layer: its parameters, of the dtype of ``u``.
        convolve: how h conv u is computed.

    Returns:
        (B, D, L).
    """
    gate = layer.weight.T @ u + layer.gate_bias
    return gate * (convolve(u, layer) + layer.conv_bias)


def causal_shifts(u: Tensor, layer: BaseConvLayer) -> Tensor:
    """h conv u, zeros before the first row, as shifted copies: exact."""
    convolved = torch.zeros_like(u)
    # Most channels of a circuit's layer pass through the gate alone; their filter is zero.
    live = torch.nonzero((layer.taps != 0).any(1))[:, 0]
    if len(live):
        convolved[:, live] = shift_conv(u[:, live], layer.shifts[live], layer.taps[live])
    return convolved


def cyclic_shifts(u: Tensor, layer: BaseConvLayer) -> Tensor:
    """h conv u on a cycle of L rows, as shifted copies: exact."""
    # The lower half of two periods has a whole period above each of its rows.
    return causal_shifts(torch.cat([u, u], dim=-1), layer)[..., u.shape[-1] :]


def causal_fft(u: Tensor, layer: BaseConvLayer) -> Tensor:
    """``causal_shifts`` up to rounding, by FFT."""
    return fft_conv(u, layer.filters())


def cyclic_fft(u: Tensor, layer: BaseConvLayer) -> Tensor:
    """``cyclic_shifts`` up to rounding, by FFT."""
    return fft_conv(torch.cat([u, u], dim=-1), layer.filters())[..., u.shape[-1] :]


def rounded(convolve: Convolution) -> Convolution:
    """``convolve``, rounded to multiples of 1/2, which all true values of a circuit are."""

    def to_halves(u: Tensor, layer: BaseConvLayer) -> Tensor:
        return torch.round(2 * convolve(u, layer)) / 2

    return to_halves
