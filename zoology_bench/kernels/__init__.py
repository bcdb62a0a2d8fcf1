"""Convolution kernels: one room per operation, each with a torch reference as its oracle."""

from zoology_bench.kernels.causal import causal_conv
from zoology_bench.kernels.fft.api import fft_conv
from zoology_bench.kernels.shift.api import shift_conv
from zoology_bench.kernels.toeplitz.api import toeplitz_conv

__all__ = ["causal_conv", "fft_conv", "shift_conv", "toeplitz_conv"]
