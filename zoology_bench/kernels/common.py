"""What every convolution kernel shares: argument checks, the choice of implementation, the gates.

Letters: B batch, D channels, L length, K filter taps, J shifts.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec

import torch
from torch import Tensor

from zoology_bench.kernels import table
from zoology_bench.validation import check_name

IMPLS = ("auto", "reference", "triton")
PRECISIONS = ("ieee", "tf32x3", "tf32")
"""How fp32 products may be computed on a GPU; the torch references always compute in full."""

_TRITON_INSTALLED = find_spec("triton") is not None
_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The elementwise part of ``post_gate * (h conv (pre_gate * u) + skip * v + bias)``."""

    pre_gate: Tensor | None
    post_gate: Tensor | None
    skip: Tensor | None
    bias: Tensor | None


def dense_conv(
    op: str,
    reference: Callable[[Tensor, Tensor], Tensor],
    triton: Callable[[Tensor, Tensor, Gates, str | None], Tensor],
    u: Tensor,
    h: Tensor,
    gates: Gates,
    *,
    precision: str | None,
    impl: str,
) -> Tensor:
    """Check, choose and run a convolution with a dense filter: the body of the public functions.

    Args:
        op: fft or toeplitz.
        reference: maps v (B, D, L) and h to (B, D, L) in their dtype.
        triton: the same with gates and the narrower dtypes, imported when called.
        u: (B, D, L).
        h: (D, K) or (B, D, K).
        gates: what is multiplied and added around the convolution.
        precision: one of PRECISIONS or None.
        impl: one of IMPLS.

    Returns:
        (B, D, L) in the dtype of ``u``.
    """
    check_names(impl, precision)
    u, h, gates = promote_under_autocast(u, h, gates)
    check_signal(u, gates)
    check_filter(h, u)
    if choose_impl(op, impl, u, per_example=h.ndim == 3) == "triton":
        return triton(u, h, gates, precision)
    with without_autocast(u):
        dtype = compute_dtype(u)
        v = gated_input(u, gates)
        return apply_gates(reference(v, h.to(dtype)), v, gates).to(u.dtype)


def check_names(impl: str, precision: str | None) -> None:
    """Raise ``ValueError`` for an unknown ``impl`` or ``precision``."""
    check_name("impl", impl, IMPLS)
    if precision is not None:
        check_name("precision", precision, PRECISIONS)


def choose_impl(op: str, impl: str, u: Tensor, *, per_example: bool) -> str:
    """Resolve ``impl`` to reference or triton; a named implementation is taken or refused.

    Raises:
        ValueError: ``impl="triton"`` and a dtype or length it does not take.
        RuntimeError: ``impl="triton"`` and nothing here can run it.
    """
    if impl == "triton":
        require_triton(u)
        return impl
    if impl == "reference":
        return impl
    return table.auto_impl(
        op,
        length=u.shape[-1],
        per_example=per_example,
        dtype=u.dtype,
        capability=table.capability_of(u),
    )


def require_triton(u: Tensor) -> None:
    """Raise in one line unless a Triton kernel can take the signal ``u``, here and now."""
    if u.dtype == torch.float64:
        raise ValueError(
            "u has dtype torch.float64; expected torch.float32, torch.bfloat16 or torch.float16"
            " for impl='triton'"
        )
    if u.shape[-1] > table.MAX_LENGTH:
        raise ValueError(
            f"u has L = {u.shape[-1]}; expected L <= {table.MAX_LENGTH} for impl='triton'"
        )
    if not _TRITON_INSTALLED:
        raise RuntimeError("impl='triton' needs the package triton, which is not installed")
    if u.is_cuda:
        capability = torch.cuda.get_device_capability(u.device)
        if capability < table.MIN_CAPABILITY:
            raise RuntimeError(
                f"u is on a GPU of compute capability {capability}; expected at least"
                f" {table.MIN_CAPABILITY} for impl='triton'"
            )
    elif u.device.type != "cpu" or os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError(
            f"u is on {u.device}; expected a CUDA device for impl='triton',"
            " or the CPU with TRITON_INTERPRET=1 set before Python starts"
        )


def promote_under_autocast(u: Tensor, h: Tensor, gates: Gates) -> tuple[Tensor, Tensor, Gates]:
    """Give signal and gates their widest dtype, and the filter no narrower one; only in autocast.

    There a residual stream is wide, and what a linear layer makes of it is narrow. Outside, dtypes
    must agree.
    """
    if not _in_autocast(u):
        return u, h, gates
    pre, post = gates.pre_gate, gates.post_gate
    dtype = u.dtype
    for gate in (pre, post):
        if gate is not None:
            dtype = torch.promote_types(dtype, gate.dtype)
    pre = None if pre is None else pre.to(dtype)
    post = None if post is None else post.to(dtype)
    h = h.to(torch.promote_types(h.dtype, dtype))
    return u.to(dtype), h, replace(gates, pre_gate=pre, post_gate=post)


def without_autocast(u: Tensor) -> AbstractContextManager[object]:
    """Keep autocast from narrowing the products of a reference, which computes in fp32 or wider."""
    return torch.autocast(u.device.type, enabled=False) if _in_autocast(u) else nullcontext()


def _in_autocast(u: Tensor) -> bool:
    # A meta tensor computes nothing, and torch refuses the question.
    return not u.is_meta and torch.is_autocast_enabled(u.device.type)


def check_signal(u: Tensor, gates: Gates) -> tuple[int, int, int]:
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
    for name, gate in (("pre_gate", gates.pre_gate), ("post_gate", gates.post_gate)):
        if gate is not None:
            check_operand(name, gate, u, [(batch, channels, length)], (u.dtype,))
    wide = (u.dtype, torch.float32)
    if gates.skip is not None:
        check_operand("skip", gates.skip, u, [(channels,)], wide)
    if gates.bias is not None:
        check_operand("bias", gates.bias, u, [(channels,), (channels, length)], wide)
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


def gated_input(u: Tensor, gates: Gates) -> Tensor:
    """``pre_gate * u`` in the dtype that the references compute in."""
    dtype = compute_dtype(u)
    return u.to(dtype) if gates.pre_gate is None else u.to(dtype) * gates.pre_gate.to(dtype)


def apply_gates(y: Tensor, v: Tensor, gates: Gates) -> Tensor:
    """``post_gate * (y + skip * v + bias)`` on (B, D, L), leaving out what is None."""
    if gates.skip is not None:
        y = y + gates.skip.to(y.dtype)[:, None] * v
    if gates.bias is not None:
        bias = gates.bias.to(y.dtype)
        y = y + (bias[:, None] if bias.ndim == 1 else bias)
    return y if gates.post_gate is None else gates.post_gate.to(y.dtype) * y
