"""What the kernel benches run: convolutions, operands for them, and their error beside fp64.

Letters: B batch, D channels, L length. A filter of deltas comes as weights ``h`` and ``shifts``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from zoology_bench.kernels import fft_conv, shift_conv, toeplitz_conv

DEVICE = "cuda"
BATCH, CHANNELS = 64, 768
N_DELTAS = 4
COMPARED_CHANNELS = 4
TOEPLITZ_MAX = 512
"""Up to here the Toeplitz kernel is timed beside the FFT kernel."""

Conv = Callable[..., Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One set of operands, the same for every route."""

    filters: str
    """shared, (D, L); per example, (B, D, L); or shift, a few deltas per channel."""
    dtype: torch.dtype
    length: int
    batch: int = BATCH
    channels: int = CHANNELS
    bias: str = ""
    """The shape of a bias, (D,) or (D, L), that comes with a skip: checked and not timed."""


def baseline_of(filters: str) -> tuple[str, Conv]:
    """The route through torch that others are compared with, exact in fp64."""
    if filters == "shift":
        return "torch.gather", partial(deltas_conv, impl="reference")
    return "torch.fft", rfft_conv


def routes_of(cell: Cell) -> dict[str, Conv]:
    """Routes by name, the baseline first; those of other packages only where these are there."""
    kernels: dict[str, Conv] = {}
    if cell.filters == "shift":
        kernels["triton shift"] = partial(deltas_conv, impl="triton")
    else:
        kernels["triton fft"] = partial(fft_conv, impl="triton")
        if cell.length <= TOEPLITZ_MAX or cell.bias:
            kernels["triton toeplitz"] = partial(toeplitz_conv, impl="triton")
    if cell.bias:
        return {f"{name}, skip, bias {cell.bias}": conv for name, conv in kernels.items()}
    routes = dict([baseline_of(cell.filters)])
    if cell.filters != "shared":
        return routes | kernels
    routes |= {"torch.fft gates apart": gates_apart} | kernels
    if find_spec("cudnn"):
        routes["cudnn"] = cudnn_conv
    if find_spec("flashfftconv") and cell.dtype != torch.float32:
        routes["flashfftconv"] = flash_conv
    return routes


def rfft_conv(u: Tensor, h: Tensor, **gates: Any) -> Tensor:
    """The plain route: two real FFTs of twice the length, and one back."""
    return fft_conv(u, h, **gates, impl="reference")


def deltas_conv(u: Tensor, h: Tensor, *, shifts: Tensor, impl: str, **gates: Any) -> Tensor:
    """``shift_conv`` with its operands named as in the other routes."""
    return shift_conv(u, shifts, h, **gates, impl=impl)


def gates_apart(u: Tensor, h: Tensor, *, pre_gate: Tensor, post_gate: Tensor) -> Tensor:
    """The eager route: gates as multiplications of their own in the signal's dtype."""
    return post_gate * fft_conv(pre_gate * u, h, impl="reference")


def cudnn_conv(u: Tensor, h: Tensor, *, pre_gate: Tensor, post_gate: Tensor) -> Tensor:
    """cuDNN's causal FFT convolution (9.26 and newer), ungated itself."""
    from cudnn.ops import fft_causal_conv1d  # pyright: ignore[reportMissingImports]

    return post_gate * fft_causal_conv1d(pre_gate * u, h)


def flash_conv(u: Tensor, h: Tensor, *, pre_gate: Tensor, post_gate: Tensor) -> Tensor:
    """FlashFFTConv, whose FFT size is twice the causal length, with its fused gates."""
    return flash_module(2 * u.shape[-1], u.dtype)(u, h.float(), pre_gate, post_gate)


@lru_cache(maxsize=1)
def flash_module(size: int, dtype: torch.dtype) -> Any:
    """FlashFFTConv's constants of one size, made outside what is timed."""
    from flashfftconv import FlashFFTConv  # pyright: ignore[reportMissingImports]

    return FlashFFTConv(size, dtype=dtype).to(DEVICE)


def operands_of(cell: Cell) -> dict[str, Tensor]:
    """Signal, filter and both gates, and what else the cell asks for."""
    generator = torch.Generator(DEVICE).manual_seed(cell.length)

    def normal(*shape: int) -> Tensor:
        x = torch.randn(*shape, generator=generator, device=DEVICE, dtype=cell.dtype)
        return x.requires_grad_()

    signal = (cell.batch, cell.channels, cell.length)
    shapes = {"shared": signal[1:], "per example": signal, "shift": (cell.channels, N_DELTAS)}
    operands = {
        "u": normal(*signal),
        "h": normal(*shapes[cell.filters]),
        "pre_gate": normal(*signal),
        "post_gate": normal(*signal),
    }
    if cell.filters == "shift":
        operands["shifts"] = torch.randint(
            cell.length, shapes["shift"], generator=generator, device=DEVICE
        )
    if cell.bias:
        operands["skip"] = normal(cell.channels)
        operands["bias"] = normal(*(signal[1:] if cell.bias == "(D, L)" else signal[1:2]))
    return operands


def call(conv: Conv, operands: dict[str, Tensor]) -> Tensor:
    """Call with u and h by position."""
    gates = {name: x for name, x in operands.items() if name not in ("u", "h")}
    return conv(operands["u"], operands["h"], **gates)


def step(conv: Conv, operands: dict[str, Tensor], backward: bool) -> None:
    """One forward pass, and one backward pass if asked."""
    if backward:
        y = call(conv, operands)
        torch.autograd.grad(y, leaves(operands), torch.ones_like(y))
    else:
        with torch.no_grad():
            call(conv, operands)


def leaves(operands: dict[str, Tensor]) -> list[Tensor]:
    """The operands that have a gradient: all but the shifts."""
    return [x for x in operands.values() if x.requires_grad]


def error_of(conv: Conv, exact: Conv, operands: dict[str, Tensor]) -> float:
    """The largest L2 error, over the exact norm, of the output and all gradients; NaN if any is.

    The route runs on all operands. Compared with fp64 are its last channels, in every example and
    at every position: channels are independent, and the filter's gradient sums over examples.
    """
    u = operands["u"]
    generator = torch.Generator(u.device).manual_seed(1)
    dy = torch.randn(u.shape, generator=generator, device=u.device, dtype=u.dtype)
    got = compared_outputs(conv, operands, dy)
    wide = {
        name: last_channels(x).double().requires_grad_() if x.requires_grad else last_channels(x)
        for name, x in operands.items()
    }
    expected = compared_outputs(exact, wide, last_channels(dy).double())
    errors = [(a - b).norm() / b.norm() for a, b in zip(got, expected, strict=True)]
    # Python's max drops a NaN that does not come first.
    return float(torch.stack(errors).max())


def compared_outputs(conv: Conv, operands: dict[str, Tensor], dy: Tensor) -> list[Tensor]:
    """The last channels of the output and of every gradient; the others are freed on return."""
    y = call(conv, operands)
    gradients = torch.autograd.grad(y, leaves(operands), dy)
    return [last_channels(x).double() for x in (y, *gradients)]


def last_channels(x: Tensor) -> Tensor:
    """A view of the last channels of (B, D, ...), (D, ...) or (D,)."""
    x = x.detach()
    return x[:, -COMPARED_CHANNELS:] if x.ndim == 3 else x[-COMPARED_CHANNELS:]
