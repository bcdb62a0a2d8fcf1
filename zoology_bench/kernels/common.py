"""What every convolution kernel shares: argument checks, the choice of implementation, the gates.

Letters: B batch, D channels, L length, K filter taps, J shifts.
"""

import torch
from torch import Tensor

from zoology_bench.validation import check_name

IMPLS = ("auto", "reference", "triton")
PRECISIONS = ("ieee", "tf32x3", "tf32")
"""How fp32 products may be computed on a GPU; the torch references always compute in full."""

_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def check_impl(op: str, impl: str, precision: str | None) -> None:
    """Raise ``ValueError`` for an unknown ``impl`` or ``precision``, or one this build lacks."""
    check_name("impl", impl, IMPLS)
    if precision is not None:
        check_name("precision", precision, PRECISIONS)
    if impl == "triton":
        raise ValueError(f"impl='triton' is not built for {op} yet; available: auto, reference")


def check_signal(
    u: Tensor,
    *,
    pre_gate: Tensor | None,
    post_gate: Tensor | None,
    skip: Tensor | None,
    bias: Tensor | None,
) -> tuple[int, int, int]:
    """Check the signal with its gates and return (B, D, L).

    Raises:
        ValueError: one line with the argument, what came and what was expected.
    """
    if u.ndim != 3:
        raise ValueError(f"u has shape {tuple(u.shape)}; expected (B, D, L)")
    if u.dtype not in _DTYPES:
        raise ValueError(f"u has dtype {u.dtype}; expected one of {', '.join(map(str, _DTYPES))}")
    batch, channels, length = u.shape
    if length == 0:
        raise ValueError("u has L = 0; expected at least one position")
    for name, gate in (("pre_gate", pre_gate), ("post_gate", post_gate)):
        if gate is not None:
            check_operand(name, gate, u, [(batch, channels, length)], (u.dtype,))
    wide = (u.dtype, torch.float32)
    if skip is not None:
        check_operand("skip", skip, u, [(channels,)], wide)
    if bias is not None:
        check_operand("bias", bias, u, [(channels,), (channels, length)], wide)
    return batch, channels, length


def check_filter(h: Tensor, u: Tensor) -> None:
    """Raise ``ValueError`` unless ``h`` is (D, K) or (B, D, K) with 1 <= K <= L."""
    batch, channels, length = u.shape
    taps = h.shape[-1] if h.ndim else 0
    check_operand("h", h, u, [(channels, taps), (batch, channels, taps)], (u.dtype, torch.float32))
    if not 1 <= taps <= length:
        raise ValueError(f"h has K = {taps} taps; expected 1 <= K <= L = {length}")


def check_operand(
    name: str,
    x: Tensor,
    u: Tensor,
    shapes: list[tuple[int, ...]],
    dtypes: tuple[torch.dtype, ...],
) -> None:
    """Raise ``ValueError`` unless ``x`` has one of the shapes and dtypes and lives with ``u``."""
    if tuple(x.shape) not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {expected}")
    if x.dtype not in dtypes:
        expected = " or ".join(dict.fromkeys(map(str, dtypes)))
        raise ValueError(f"{name} has dtype {x.dtype}; expected {expected}")
    if x.device != u.device:
        raise ValueError(f"{name} is on {x.device}; expected {u.device}, where u is")


def compute_dtype(u: Tensor) -> torch.dtype:
    """fp64 stays fp64; everything narrower is computed in fp32."""
    return torch.float64 if u.dtype == torch.float64 else torch.float32


def apply_gates(
    y: Tensor, v: Tensor, post_gate: Tensor | None, skip: Tensor | None, bias: Tensor | None
) -> Tensor:
    """``post_gate * (y + skip * v + bias)`` on (B, D, L), leaving out what is None."""
    if skip is not None:
        y = y + skip.to(y.dtype)[:, None] * v
    if bias is not None:
        y = y + (bias[:, None] if bias.ndim == 1 else bias).to(y.dtype)
    return y if post_gate is None else post_gate.to(y.dtype) * y
