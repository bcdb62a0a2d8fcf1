"""Every convolution, and its gradient, equals a loop over positions and lags."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from zoology_bench.kernels import causal_conv, fft_conv, shift_conv, toeplitz_conv
from zoology_bench.kernels.table import SHORT_MAX_TAPS, TOEPLITZ_MAX_LENGTH, dense_route

DENSE = pytest.mark.parametrize("conv", [fft_conv, toeplitz_conv], ids=lambda f: f.__name__)
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.bfloat16: 2e-2,
    torch.float16: 3e-3,
}
"""Error allowed per dtype, over the largest output."""


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def slow_conv(
    u: Tensor,
    h: Tensor,
    *,
    pre_gate: Tensor | None = None,
    post_gate: Tensor | None = None,
    skip: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The definition, position by position and lag by lag, in float64."""
    u, h = u.double(), h.double()
    v = u if pre_gate is None else pre_gate.double() * u
    y = torch.zeros_like(v)
    for n in range(v.shape[-1]):
        for k in range(min(n + 1, h.shape[-1])):
            y[..., n] += h[..., k] * v[..., n - k]
    if skip is not None:
        y = y + skip.double()[:, None] * v
    if bias is not None:
        y = y + (bias.double()[:, None] if bias.ndim == 1 else bias.double())
    return y if post_gate is None else post_gate.double() * y


def assert_close(got: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    assert got.dtype == dtype
    gap = (got.double() - expected.double()).abs().max()
    assert gap <= TOLERANCE[dtype] * expected.double().abs().max()


@DENSE
@pytest.mark.parametrize("length", [1, 2, 63, 100])
@pytest.mark.parametrize("taps", ["one", "half", "full"])
@pytest.mark.parametrize("per_example", [False, True], ids=["shared", "per-example"])
def test_matches_the_definition(
    conv: Callable[..., Tensor], length: int, taps: str, per_example: bool
) -> None:
    n_taps = {"one": 1, "half": (length + 1) // 2, "full": length}[taps]
    u = draw(2, 3, length)
    h = draw(2, 3, n_taps, seed=1) if per_example else draw(3, n_taps, seed=1)
    assert_close(conv(u, h), slow_conv(u, h), torch.float64)


@DENSE
@pytest.mark.parametrize("bias_shape", [(3,), (3, 17)], ids=["bias-D", "bias-DL"])
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_gates_skip_and_bias_in_every_dtype(
    conv: Callable[..., Tensor], bias_shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    u, pre, post = (draw(2, 3, 17, dtype=dtype, seed=s) for s in range(3))
    extra: dict[str, Any] = {
        "pre_gate": pre,
        "post_gate": post,
        "skip": draw(3, dtype=dtype),
        "bias": draw(*bias_shape, dtype=dtype),
    }
    h = draw(3, 9, dtype=dtype, seed=4)
    assert_close(conv(u, h, **extra), slow_conv(u, h, **extra), dtype)


@DENSE
@pytest.mark.parametrize("h_shape", [(2, 5), (3, 2, 5)], ids=["shared", "per-example"])
def test_gradients_match_finite_differences(
    conv: Callable[..., Tensor], h_shape: tuple[int, ...]
) -> None:
    shapes = [(3, 2, 7), h_shape, (3, 2, 7), (3, 2, 7), (2,), (2, 7)]
    inputs = [draw(*s, seed=i).requires_grad_() for i, s in enumerate(shapes)]

    def call(u: Tensor, h: Tensor, pre: Tensor, post: Tensor, skip: Tensor, bias: Tensor) -> Tensor:
        return conv(u, h, pre_gate=pre, post_gate=post, skip=skip, bias=bias)

    assert torch.autograd.gradcheck(call, inputs)


def test_toeplitz_keeps_every_bit_when_later_inputs_change() -> None:
    u, h = draw(2, 3, 40), draw(3, 40, seed=1)
    changed = torch.cat([u[..., :20], 100 * draw(2, 3, 20, seed=2)], dim=-1)
    assert torch.equal(toeplitz_conv(u, h)[..., :20], toeplitz_conv(changed, h)[..., :20])


def test_shift_equals_a_filter_of_deltas() -> None:
    u, weights = draw(2, 3, 20), draw(3, 4, seed=1)
    shifts = torch.tensor([[0, 1, 5, 19], [2, 2, 3, 4], [19, 7, 0, 0]])
    h = torch.zeros(3, 20, dtype=torch.float64).scatter_add_(1, shifts, weights)
    assert_close(shift_conv(u, shifts, weights), slow_conv(u, h), torch.float64)


def test_shift_takes_one_set_per_example_and_drops_shifts_past_the_end() -> None:
    u, weights = draw(2, 1, 6), draw(2, 1, 2, seed=1)
    shifts = torch.tensor([[[1, 6]], [[3, 1000]]])
    y = shift_conv(u, shifts, weights)
    for i, lag in enumerate((1, 3)):
        assert torch.equal(y[i, 0, :lag], torch.zeros(lag, dtype=torch.float64))
        assert torch.allclose(y[i, 0, lag:], weights[i, 0, 0] * u[i, 0, :-lag])


def test_shift_gradients_match_finite_differences() -> None:
    u, weights = draw(2, 3, 6).requires_grad_(), draw(3, 2, seed=1).requires_grad_()
    shifts = torch.tensor([[0, 2], [1, 5], [6, 3]])
    assert torch.autograd.gradcheck(lambda a, w: shift_conv(a, shifts, w), (u, weights))


@pytest.mark.parametrize(
    ("route", "batch", "length", "taps"),
    [
        ("depthwise", 2, 30, 1),
        ("depthwise", 2, 30, SHORT_MAX_TAPS),
        ("toeplitz", 15, 30, SHORT_MAX_TAPS + 1),
        ("fft", 14, 30, SHORT_MAX_TAPS + 1),
        ("toeplitz", 130, TOEPLITZ_MAX_LENGTH, TOEPLITZ_MAX_LENGTH),
        ("fft", 130, TOEPLITZ_MAX_LENGTH + 1, 50),
    ],
)
def test_every_route_of_causal_conv_agrees(route: str, batch: int, length: int, taps: int) -> None:
    u, h, gate = draw(batch, 3, length), draw(3, taps, seed=1), draw(batch, 3, length, seed=2)
    assert dense_route(u, h) == route
    extra: dict[str, Any] = {"post_gate": gate, "skip": draw(3), "bias": draw(3, seed=5)}
    assert_close(causal_conv(u, h, **extra), fft_conv(u, h, **extra), torch.float64)


@DENSE
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": torch.zeros(3, 8)}, r"u has shape \(3, 8\); expected \(B, D, L\)"),
        ({"u": torch.zeros(2, 3, 8, dtype=torch.int64)}, "u has dtype torch.int64; expected"),
        ({"u": torch.zeros(2, 3, 0)}, "u has L = 0; expected at least one position"),
        ({"h": torch.zeros(4, 8)}, r"h has shape \(4, 8\); expected \(3, 8\) or \(2, 3, 8\)"),
        ({"h": torch.zeros(3, 9)}, "h has K = 9 taps; expected 1 <= K <= L = 8"),
        ({"h": torch.zeros(3, 0)}, "h has K = 0 taps; expected 1 <= K <= L = 8"),
        ({"h": torch.zeros(3, 8).double()}, "h has dtype torch.float64; expected torch.float32"),
        ({"h": torch.zeros(3, 8, device="meta")}, "h is on meta; expected cpu"),
        ({"pre_gate": torch.zeros(2, 3, 7)}, r"pre_gate has shape \(2, 3, 7\); expected"),
        ({"post_gate": torch.zeros(2, 3, 8).half()}, "post_gate has dtype torch.float16"),
        ({"skip": torch.zeros(2)}, r"skip has shape \(2,\); expected \(3,\)"),
        ({"bias": torch.zeros(8)}, r"bias has shape \(8,\); expected \(3,\) or \(3, 8\)"),
        ({"impl": "tritn"}, "impl='tritn' is unknown; did you mean 'triton'"),
        ({"precision": "tf23"}, "precision='tf23' is unknown; did you mean 'tf32'"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else "",
)
def test_bad_arguments_get_one_line(
    conv: Callable[..., Tensor], change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {"u": torch.zeros(2, 3, 8), "h": torch.zeros(3, 8), **change}
    with pytest.raises(ValueError, match=message) as error:
        conv(arguments.pop("u"), arguments.pop("h"), **arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("shifts", "weights", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3, 2), "shifts has dtype torch.float32"),
        (torch.zeros(3, 2).long(), torch.zeros(3, 1), r"weights has shape \(3, 1\); expected"),
        (torch.full((3, 2), -1), torch.zeros(3, 2), "shifts has minimum -1; expected at least 0"),
    ],
    ids=["float-shifts", "shapes", "negative"],
)
def test_bad_shifts_get_one_line(shifts: Tensor, weights: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shift_conv(torch.zeros(2, 3, 8), shifts, weights)


def test_kernels_import_with_torch_alone() -> None:
    blocked = ["einops", "hydra", "omegaconf", "pandas", "matplotlib", "wandb", "triton"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked}));"
        "import zoology_bench.kernels as k; k.fft_conv"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
