"""A gated causal convolution as a torch operator with gradients, over the two passes of a room.

With v = pre_gate * u, z = h conv v + skip * v + bias and y = post_gate * z, and with
dz = post_gate * dy, the gradients are: d(post_gate) = dy * z, which is a forward pass with dy in
the gate's place; dv = h corr dz + skip * dz, so that du = pre_gate * dv and d(pre_gate) = u * dv;
dh = dz corr v; sums of dz and dz * v. Only the inputs are kept between forward and backward.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from zoology_bench.kernels.common import Gates
from zoology_bench.kernels.triton_common import skip_and_bias_grads

OutGates = tuple[Tensor | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """Of the operands named; None where none was asked for."""

    u: Tensor | None = None
    h: Tensor | None = None
    pre_gate: Tensor | None = None
    post_gate: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """The launchers of one room. A filter of deltas comes as weights h and ``shifts``."""

    signal: Callable[..., list[Tensor]]
    """(x, x_gate, h, out_gates, *, skip, bias, correlate, precision[, shifts]) to one
    ``out_gate * (h conv v + skip * v + bias)`` per out_gate, with ``v = x_gate * x``. With
    ``correlate`` it is sum_n v[n] h[n - m] in place of sum_m v[m] h[n - m]."""
    filter: Callable[..., Tensor]
    """(dy, post_gate, u, pre_gate, h, *, precision[, shifts]) to dh[k] = sum_n dz[n] v[n - k],
    summed over the batch where h is shared; shaped like h."""
    joint: Callable[..., Gradients | None] | None = None
    """(dy, u, h, gates, *, need_pre, need_post, precision) to the gradients of u and h, and of the
    gates if needed, in one launch; or None where the room has no kernel for the call."""


def register(op: str, passes: Passes) -> Callable[..., Tensor]:
    """Register ``zoology_bench::<op>_conv`` and its backward, and return the call.

    Args:
        op: fft, toeplitz or shift.
        passes: the kernels' launchers.
    """
    backward = _register_backward(op, passes)

    def forward(
        u: Tensor,
        h: Tensor,
        pre_gate: Tensor | None,
        post_gate: Tensor | None,
        skip: Tensor | None,
        bias: Tensor | None,
        shifts: Tensor | None,
        precision: str | None,
    ) -> Tensor:
        if u.numel() == 0:
            return u.new_empty(u.shape)
        (y,) = passes.signal(
            u,
            pre_gate,
            h,
            (post_gate,),
            skip=skip,
            bias=bias,
            correlate=False,
            **_options(precision, shifts),
        )
        return y

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.precision = inputs
        ctx.save_for_backward(*tensors)

    def differentiate(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        needs = list(ctx.needs_input_grad[:6])
        grads = backward(dy, *ctx.saved_tensors, ctx.precision, needs)
        return (*(g if need else None for g, need in zip(grads, needs, strict=True)), None, None)

    conv = torch.library.custom_op(f"zoology_bench::{op}_conv", forward, mutates_args=())
    conv.register_fake(lambda u, *rest: u.new_empty(u.shape))
    conv.register_autograd(differentiate, setup_context=setup)

    def call(
        u: Tensor, h: Tensor, gates: Gates, precision: str | None, shifts: Tensor | None = None
    ) -> Tensor:
        elementwise = (gates.pre_gate, gates.post_gate, gates.skip, gates.bias)
        return conv(u, h, *elementwise, shifts, precision)

    return call


def _options(precision: str | None, shifts: Tensor | None) -> dict[str, Any]:
    """What every launcher of a room gets besides its operands."""
    deltas = {} if shifts is None else {"shifts": shifts}
    return {"precision": precision, **deltas}


def _register_backward(op: str, passes: Passes) -> Callable[..., list[Tensor]]:
    def backward(
        dy: Tensor,
        u: Tensor,
        h: Tensor,
        pre_gate: Tensor | None,
        post_gate: Tensor | None,
        skip: Tensor | None,
        bias: Tensor | None,
        shifts: Tensor | None,
        precision: str | None,
        needs: list[bool],
    ) -> list[Tensor]:
        inputs = (u, h, pre_gate, post_gate, skip, bias)
        if u.numel() == 0:
            empty = fake(dy, *inputs, shifts, precision, needs)
            return [torch.zeros_like(grad) for grad in empty]
        gates = Gates(pre_gate=pre_gate, post_gate=post_gate, skip=skip, bias=bias)
        grads = _gradients(passes, dy, u, h, gates, needs, _options(precision, shifts))
        return [g if g is not None else u.new_empty(0) for g in grads]

    def fake(
        dy: Tensor,
        u: Tensor,
        h: Tensor,
        pre_gate: Tensor | None,
        post_gate: Tensor | None,
        skip: Tensor | None,
        bias: Tensor | None,
        shifts: Tensor | None,
        precision: str | None,
        needs: list[bool],
    ) -> list[Tensor]:
        inputs = (u, h, pre_gate, post_gate, skip, bias)
        return [
            x.new_empty(x.shape) if x is not None and need else u.new_empty(0)
            for x, need in zip(inputs, needs, strict=True)
        ]

    opaque = torch.library.custom_op(f"zoology_bench::{op}_conv_grad", backward, mutates_args=())
    opaque.register_fake(fake)
    return opaque


def _gradients(
    passes: Passes,
    dy: Tensor,
    u: Tensor,
    h: Tensor,
    gates: Gates,
    needs: list[bool],
    options: dict[str, Any],
) -> list[Tensor | None]:
    """Gradients of u, h, pre_gate, post_gate, skip and bias, where needed."""
    need_u, need_h, need_pre, need_post, need_skip, need_bias = needs
    found = None
    if need_u and need_h and passes.joint is not None:
        found = passes.joint(dy, u, h, gates, need_pre=need_pre, need_post=need_post, **options)
    if found is None:
        found = _separately(passes, dy, u, h, gates, needs, options)
    d_skip = d_bias = None
    if need_skip or need_bias:
        d_skip, d_bias = skip_and_bias_grads(dy, u, gates)
    present = (found.u, found.h, found.pre_gate, found.post_gate, d_skip, d_bias)
    return [grad if need else None for grad, need in zip(present, needs, strict=True)]


def _separately(
    passes: Passes,
    dy: Tensor,
    u: Tensor,
    h: Tensor,
    gates: Gates,
    needs: list[bool],
    options: dict[str, Any],
) -> Gradients:
    """One pass each for the output's gate, for signal and input gate, and for the filter."""
    need_u, need_h, need_pre, need_post, *_ = needs
    pre, post, skip, bias = gates.pre_gate, gates.post_gate, gates.skip, gates.bias
    du = d_pre = d_post = dh = None
    if need_post:
        (d_post,) = passes.signal(
            u, pre, h, (dy,), skip=skip, bias=bias, correlate=False, **options
        )
    if need_u or need_pre:
        out_gates: OutGates = (pre, u) if need_pre else (pre,)
        du, *rest = passes.signal(
            dy, post, h, out_gates, skip=skip, bias=None, correlate=True, **options
        )
        d_pre = rest[0] if rest else None
    if need_h:
        dh = passes.filter(dy, post, u, pre, h, **options)
    return Gradients(u=du, h=dh, pre_gate=d_pre, post_gate=d_post)
