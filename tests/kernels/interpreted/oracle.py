"""Cells, the fp64 oracle, tolerances, and wrong convolutions that every check must reject."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoology_bench.kernels.fft import reference as fft_reference
from zoology_bench.kernels.shift import reference as shift_reference

Conv = Callable[..., Tensor]
BLOCK = 64
"""Positions that the mutant with a dropped block loses."""

TOLERANCE = {
    ("fft", torch.float32): 2e-6,
    ("fft", torch.float16): 2e-3,
    ("fft", torch.bfloat16): 1.5e-2,
    ("toeplitz", torch.float32): 1e-6,
    ("toeplitz", torch.float16): 1e-3,
    ("toeplitz", torch.bfloat16): 5e-3,
    ("shift", torch.float32): 5e-7,
    ("shift", torch.float16): 6e-4,
    ("shift", torch.bfloat16): 5e-3,
}
"""Of the error's L2 norm over the exact one's, and of its maximum over the exact maximum. The two
roundings of gated bf16 operands and that of the result are 1.7e-3 each."""
FEW, FEW_OVER_L2 = 16, 1.5
"""Below so many elements roundings do not average out, and their L2 may be so much more."""
MAX_OVER_L2 = 2.0
"""How much more the maximum may be off: short signals have few elements to find a maximum among."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One call: sizes, dtype, and which operands it has."""

    length: int
    taps: int
    dtype: torch.dtype
    per_example: bool = False
    gated: bool = True
    batch: int = 2
    channels: int = 2

    def __str__(self) -> str:
        kind = "per-example" if self.per_example else "shared"
        gates = "gated" if self.gated else "plain"
        return f"L{self.length}-K{self.taps}-{str(self.dtype)[6:]}-{kind}-{gates}"


def draw(cell: Cell, op: str) -> tuple[dict[str, Tensor], Tensor, Tensor | None]:
    """Inputs by name, the gradient of the output, and the shifts if it takes any."""
    generator = torch.Generator().manual_seed(cell.length + 7)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(cell.dtype)

    batch, channels, length = cell.batch, cell.channels, cell.length
    h_shape = (batch, channels, cell.taps) if cell.per_example else (channels, cell.taps)
    inputs = {"u": normal(batch, channels, length), "h": normal(*h_shape)}
    if cell.gated:
        inputs["pre_gate"] = normal(batch, channels, length)
        inputs["post_gate"] = normal(batch, channels, length)
        inputs["skip"] = normal(channels)
        inputs["bias"] = normal(channels, length) if length % 2 else normal(channels)
    shifts = None
    if op == "shift":
        # One delta wraps around, one reaches the last block, the others are anywhere.
        shifts = torch.randint(0, length + 1, h_shape, generator=generator)
        shifts[..., 0] = length // 2
        shifts[..., -1] = 0
    return inputs, normal(batch, channels, length), shifts


def call(conv: Conv, inputs: dict[str, Tensor], shifts: Tensor | None) -> Tensor:
    """Call a convolution of either signature."""
    gates = {name: x for name, x in inputs.items() if name not in ("u", "h")}
    filters = (inputs["h"],) if shifts is None else (shifts, inputs["h"])
    return conv(inputs["u"], *filters, **gates)


def gated(
    core: Callable[[Tensor, Tensor], Tensor],
    u: Tensor,
    h: Tensor,
    *,
    pre_gate: Tensor | None = None,
    post_gate: Tensor | None = None,
    skip: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The definition around any convolution ``core`` of v and h."""
    v = u if pre_gate is None else pre_gate * u
    y = core(v, h)
    if skip is not None:
        y = y + skip[:, None] * v
    if bias is not None:
        y = y + (bias[:, None] if bias.ndim == 1 else bias)
    return y if post_gate is None else post_gate * y


def exact(u: Tensor, *filters: Tensor, **gates: Tensor) -> Tensor:
    """The oracle, in the dtype of its inputs."""
    if len(filters) == 1:
        return gated(fft_reference.conv, u, filters[0], **gates)
    shifts, weights = filters
    return gated(lambda v, w: shift_reference.conv(v, shifts, w), u, weights, **gates)


def check(op: str, conv: Conv, cell: Cell) -> None:
    """Assert that outputs and all gradients of ``conv`` are within the table of the oracle's."""
    inputs, dy, shifts = draw(cell, op)
    narrow = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    wide = {name: x.double().requires_grad_() for name, x in inputs.items()}
    y = call(conv, narrow, shifts)
    assert y.dtype == cell.dtype
    expected = call(exact, wide, shifts)
    tolerance = TOLERANCE[op, cell.dtype]
    assert_within("y", y, expected, expected, tolerance)
    grads = torch.autograd.grad(y, list(narrow.values()), dy)
    exact_grads = torch.autograd.grad(expected, list(wide.values()), dy.double())
    for (name, x), grad, exact_grad in zip(wide.items(), grads, exact_grads, strict=True):
        assert grad.dtype == cell.dtype
        scale = exact_grad.abs()
        if name == "h":
            scale = torch.maximum(scale, _terms_of_filter_grad(wide, dy, shifts))
        if x.ndim == 1:
            # A sum over batch and positions may cancel: its terms say how far it may be off.
            terms = wide["post_gate"] * dy
            if name == "skip":
                terms = terms * wide["pre_gate"] * wide["u"]
            scale = torch.maximum(scale, terms.detach().square().sum((0, 2)).sqrt())
        assert_within(name, grad, exact_grad, scale, tolerance)


def _terms_of_filter_grad(wide: dict[str, Tensor], dy: Tensor, shifts: Tensor | None) -> Tensor:
    """Root of the summed squares of each lag's terms dz[n] v[n - lag], which may cancel."""
    dz, v, h = dy.double(), wide["u"].detach(), wide["h"].detach().requires_grad_()
    if "pre_gate" in wide:
        dz, v = dz * wide["post_gate"].detach(), v * wide["pre_gate"].detach()
    y = call(exact, {"u": v.square(), "h": h}, shifts)
    return torch.autograd.grad(y, h, dz.square())[0].clamp(min=0).sqrt()


def assert_within(
    name: str, got: Tensor, expected: Tensor, scale: Tensor, tolerance: float
) -> None:
    """Assert the L2 and the maximum error of ``got``, relative to ``scale``."""
    gap, scale = got.detach().double() - expected.detach(), scale.detach().double()
    l2 = float(gap.norm() / scale.norm())
    largest = float(gap.abs().max() / scale.abs().max())
    allowed = tolerance * (FEW_OVER_L2 if gap.numel() < FEW else 1.0)
    assert l2 <= allowed, f"{name}: L2 error {l2:.1e}, allowed {allowed:.1e}"
    assert largest <= MAX_OVER_L2 * tolerance, f"{name}: maximum error {largest:.1e}"


def dense(shifts: Tensor, weights: Tensor, length: int) -> Tensor:
    """The filter of L taps that a few deltas are; those past the end fall off."""
    taps = weights.new_zeros(*shifts.shape[:-1], length + 1)
    return taps.scatter_add(-1, shifts.clamp(max=length), weights)[..., :length]


def in_fp64(conv: Conv) -> Conv:
    """A dense convolution in fp64, callable like a kernel of either signature."""

    def narrow(u: Tensor, *filters: Tensor, **gates: Tensor) -> Tensor:
        wide = {name: x.double() for name, x in gates.items()}
        h = filters[-1].double()
        if len(filters) == 2:
            h = dense(filters[0], h, u.shape[-1])
        return conv(u.double(), h, **wide).to(u.dtype)

    return narrow


def _around(core: Callable[[Tensor, Tensor], Tensor]) -> Conv:
    return lambda u, h, **gates: gated(core, u, h, **gates)


def _circular(v: Tensor, h: Tensor) -> Tensor:
    n = v.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(v) * torch.fft.rfft(h, n=n), n=n)


def _conjugate(v: Tensor, h: Tensor) -> Tensor:
    n = 2 * v.shape[-1]
    product = torch.fft.rfft(v, n=n) * torch.fft.rfft(h, n=n).conj()
    return torch.fft.irfft(product, n=n)[..., : v.shape[-1]]


def _one_step(v: Tensor, h: Tensor) -> Tensor:
    return fft_reference.conv(F.pad(v, (1, 0))[..., :-1], h)


def _dropped_block(v: Tensor, h: Tensor) -> Tensor:
    kept = (v.shape[-1] - 1) // BLOCK * BLOCK
    return fft_reference.conv(F.pad(v[..., :kept], (0, v.shape[-1] - kept)), h)


def _mixed_batch(v: Tensor, h: Tensor) -> Tensor:
    return fft_reference.conv(v.roll(1, 0), h)


def _forgotten(name: str) -> Conv:
    neutral = float(name.endswith("gate"))
    return lambda u, h, **gates: exact(u, h, **{**gates, name: 0 * gates[name] + neutral})


MUTANTS: dict[str, Conv] = {
    "zeros": _around(lambda v, h: 0 * fft_reference.conv(v, h)),
    "circular": _around(_circular),
    "one-step": _around(_one_step),
    "conjugate": _around(_conjugate),
    "dropped-block": _around(_dropped_block),
    "mixed-batch": _around(_mixed_batch),
    "no-pre-gate": _forgotten("pre_gate"),
    "no-post-gate": _forgotten("post_gate"),
    "no-skip": _forgotten("skip"),
    "no-bias": _forgotten("bias"),
}
"""Dense convolutions with one mistake each."""


def mutants_of(op: str, cell: Cell) -> list[str]:
    """The mutants that differ from the right convolution on a cell's operands."""
    names = list(MUTANTS) if cell.gated else [n for n in MUTANTS if not n.startswith("no-")]
    reach = cell.length if op == "shift" else cell.taps
    # A filter of lag 0 alone does not wrap around, and its spectrum is its own conjugate.
    return [n for n in names if reach > 1 or n not in ("circular", "conjugate")]


def with_gradient_of(wrong: Conv) -> Conv:
    """Right outputs with the gradients of ``wrong``."""

    def conv(u: Tensor, h: Tensor, **gates: Tensor) -> Tensor:
        y = wrong(u, h, **gates)
        return y + (exact(u, h, **gates) - y).detach()

    return conv
