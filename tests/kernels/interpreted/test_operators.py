"""The kernels as torch operators: schema, tracing, autocast, layouts, causality, bad input."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.interpreted.oracle import (
    TOLERANCE,
    Cell,
    Conv,
    assert_within,
    call,
    check,
    draw,
    exact,
)
from zoology_bench.kernels import fft_conv, shift_conv, table, toeplitz_conv
from zoology_bench.kernels.table import MAX_LENGTH

OPS: dict[str, Conv] = {"fft": fft_conv, "toeplitz": toeplitz_conv, "shift": shift_conv}
EVERY = pytest.mark.parametrize("op", OPS)
KINDS = pytest.mark.parametrize(
    ("per_example", "dtype"),
    [(False, torch.float32), (False, torch.float16), (True, torch.float16)],
    ids=["shared-fp32", "shared-fp16", "per-example-fp16"],
)
"""Filter kinds and dtypes that take different kernels backward."""
CELL = Cell(length=21, taps=5, dtype=torch.float32)
LEAK = {torch.float32: 2e-6, torch.float16: 3e-3, torch.bfloat16: 3e-2}
"""How far a changed second half moves the first half of an FFT convolution, over its rms."""


def triton_of(op: str) -> Conv:
    return lambda *args, **gates: OPS[op](*args, **gates, impl="triton")


@EVERY
@KINDS
def test_operator_passes_torchs_own_checks(op: str, per_example: bool, dtype: torch.dtype) -> None:
    cell = Cell(length=9, taps=3, dtype=dtype, per_example=per_example, channels=1)
    inputs, dy, shifts = draw(cell, op)
    call(triton_of(op), inputs, shifts)  # registers the operator
    lags = None if shifts is None else shifts.to(torch.int32)
    tensors = [x.requires_grad_() for x in inputs.values()]
    order = ("u", "h", "pre_gate", "post_gate", "skip", "bias")
    assert tuple(inputs) == order
    operator = getattr(torch.ops.zoology_bench, f"{op}_conv").default
    torch.library.opcheck(operator, (*tensors, lags, None))
    backward = getattr(torch.ops.zoology_bench, f"{op}_conv_grad").default
    detached = [x.detach() for x in tensors]
    torch.library.opcheck(backward, (dy, *detached, lags, None, [True] * 6))
    if op == "fft":  # whose other kernels make a part of the gradients
        some = [True, False, False, True, False, True]
        torch.library.opcheck(backward, (dy, *detached, lags, None, some))


# torch's own tracer instantiates an autograd.Function, and warns of it.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@EVERY
@pytest.mark.parametrize("impl", ["triton", "reference"])
def test_compiles_into_one_graph(op: str, impl: str) -> None:
    inputs, dy, shifts = draw(CELL, op)
    leaves = {name: x.requires_grad_() for name, x in inputs.items()}

    def forward(inputs: dict[str, Tensor]) -> Tensor:
        return call(lambda *args, **gates: OPS[op](*args, **gates, impl=impl), inputs, shifts)

    compiled = torch.compile(forward, backend="aot_eager", fullgraph=True)
    y, expected = compiled(leaves), forward(leaves)
    assert torch.allclose(y, expected, atol=1e-5)
    grads = torch.autograd.grad(y, list(leaves.values()), dy)
    exact_grads = torch.autograd.grad(expected, list(leaves.values()), dy)
    for grad, exact_grad in zip(grads, exact_grads, strict=True):
        assert torch.allclose(grad, exact_grad, atol=1e-4)


@EVERY
def test_autocast_takes_a_narrow_gate_beside_a_wide_signal(op: str) -> None:
    inputs, _, shifts = draw(CELL, op)
    expected = call(triton_of(op), inputs, shifts)
    mixed = {**inputs, "post_gate": inputs["post_gate"].bfloat16()}
    with pytest.raises(ValueError, match="post_gate has dtype"):
        call(triton_of(op), mixed, shifts)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = call(triton_of(op), mixed, shifts)
    assert y.dtype == torch.float32
    assert torch.allclose(y, expected, atol=2e-2 * float(expected.abs().max()))


def with_gradients(
    op: str, inputs: dict[str, Tensor], dy: Tensor, shifts: Tensor | None
) -> list[Tensor]:
    leaves = {name: x.detach().requires_grad_() for name, x in inputs.items()}
    y = call(triton_of(op), leaves, shifts)
    return [y, *torch.autograd.grad(y, list(leaves.values()), dy)]


@EVERY
@KINDS
def test_layouts_do_not_matter(op: str, per_example: bool, dtype: torch.dtype) -> None:
    cell = Cell(length=21, taps=5, dtype=dtype, per_example=per_example)
    inputs, dy, shifts = draw(cell, op)
    expected = with_gradients(op, inputs, dy, shifts)
    apart = dict(inputs)
    apart["u"] = inputs["u"].transpose(1, 2).contiguous().transpose(1, 2)
    apart["post_gate"] = torch.stack([inputs["post_gate"]] * 2, dim=-1)[..., 0]
    apart["pre_gate"] = torch.cat([inputs["pre_gate"]] * 2, dim=1)[:, : cell.channels]
    apart["skip"] = inputs["skip"].repeat_interleave(2)[::2]
    apart["bias"] = inputs["bias"].T.contiguous().T
    apart["h"] = inputs["h"].mT.contiguous().mT
    turned = dy.mT.contiguous().mT
    for got, right in zip(with_gradients(op, apart, turned, shifts), expected, strict=True):
        assert torch.equal(got, right)
    one = {**inputs, "u": inputs["u"][:1].expand_as(inputs["u"])}
    copied = {**one, "u": one["u"].contiguous()}
    pairs = zip(
        with_gradients(op, one, dy[:1].expand_as(dy), shifts),
        with_gradients(op, copied, dy[:1].expand_as(dy).contiguous(), shifts),
        strict=True,
    )
    assert all(torch.equal(got, right) for got, right in pairs)


@EVERY
@KINDS
def test_gradients_do_not_depend_on_which_are_asked_for(
    op: str, dtype: torch.dtype, per_example: bool
) -> None:
    cell = Cell(length=21, taps=5, dtype=dtype, per_example=per_example)
    inputs, dy, shifts = draw(cell, op)
    leaves = {name: x.requires_grad_() for name, x in inputs.items()}
    y = call(triton_of(op), leaves, shifts)
    whole = dict(zip(leaves, torch.autograd.grad(y, list(leaves.values()), dy), strict=True))
    for asked in (["u"], ["h", "post_gate"], ["u", "h", "pre_gate"]):
        some = {name: x.detach().requires_grad_(name in asked) for name, x in inputs.items()}
        y = call(triton_of(op), some, shifts)
        grads = torch.autograd.grad(y, [some[name] for name in asked], dy)
        for name, grad in zip(asked, grads, strict=True):
            # Fewer kernels or others: the same sums, in another order.
            gap = float((grad - whole[name]).double().norm() / whole[name].double().norm())
            assert gap <= {torch.float32: 1e-6, torch.float16: 1e-3}[dtype]


@EVERY
def test_an_empty_batch_gives_an_empty_result(op: str) -> None:
    inputs, _, shifts = draw(Cell(length=5, taps=2, dtype=torch.float32, gated=False), op)
    u = inputs["u"][:0].requires_grad_()
    h = inputs["h"].requires_grad_()
    y = call(triton_of(op), {"u": u, "h": h}, shifts)
    assert y.shape == u.shape
    assert torch.equal(torch.autograd.grad(y.sum(), h)[0], torch.zeros_like(h))


@pytest.mark.parametrize("dtype", list(LEAK), ids=str)
@EVERY
def test_later_inputs_leak_no_further_than_documented(op: str, dtype: torch.dtype) -> None:
    cell = Cell(length=300, taps=300 if op != "shift" else 3, dtype=dtype, gated=False, channels=1)
    inputs, other, shifts = draw(cell, op)
    changed = {**inputs, "u": torch.cat([inputs["u"][..., :150], other[..., 150:]], dim=-1)}
    before, after = (call(triton_of(op), x, shifts)[..., :150].double() for x in (inputs, changed))
    moved = float((before - after).abs().max())
    if op == "fft":
        rms = float(call(triton_of(op), inputs, shifts).double().square().mean().sqrt())
        assert moved <= LEAK[dtype] * rms
    else:
        assert moved == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_programs_that_take_several_examples_agree(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "fft_chunk", lambda batch, channels: 3)
    check("fft", triton_of("fft"), Cell(length=70, taps=70, dtype=dtype, batch=7))


# Range: fp16 ends at 65,504 and at 6e-8, which spectra and products of gradients pass.
@pytest.mark.parametrize("per_example", [False, True], ids=["shared", "per-example"])
@pytest.mark.parametrize(("length", "scale"), [(600, 1.0), (2100, 1.0), (600, 1e-2), (600, 30.0)])
def test_fp16_transforms_keep_to_the_range_of_their_results(
    length: int, scale: float, per_example: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    h_shape = (2, 1, length) if per_example else (1, length)
    u = scale * torch.rand(2, 1, length, generator=generator)
    gate = (torch.ones(2, 1, length) / scale).half()
    leaves = {
        "u": u.half().requires_grad_(),
        "h": (torch.rand(h_shape, generator=generator) / scale).half().requires_grad_(),
        "post_gate": gate.requires_grad_(),
    }
    wide = {name: x.detach().double().requires_grad_() for name, x in leaves.items()}
    dy = (torch.rand(2, 1, length, generator=generator) * min(scale, 1.0)).half()
    y, exact_y = call(triton_of("fft"), leaves, None), call(exact, wide, None)
    got = (y, *torch.autograd.grad(y, list(leaves.values()), dy))
    right = (exact_y, *torch.autograd.grad(exact_y, list(wide.values()), dy.double()))
    for a, b in zip(got, right, strict=True):
        assert_within("fp16", a, b, b, TOLERANCE["fft", torch.float16])


def test_batches_that_exceed_the_scratch_are_taken_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from zoology_bench.kernels.fft import triton

    cell = Cell(length=1100, taps=5, dtype=torch.float32, batch=3, channels=1, gated=False)
    monkeypatch.setattr(triton, "SCRATCH_BYTES", 8 * 2 * 2048)
    check("fft", triton_of("fft"), cell)


@EVERY
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"length": MAX_LENGTH + 1}, ValueError, "u has L = 32769; expected L <= 32768"),
        ({"dtype": torch.float64}, ValueError, "u has dtype torch.float64; expected torch.float32"),
        ({"device": "meta"}, RuntimeError, "u is on meta; expected a CUDA device"),
    ],
    ids=["too-long", "fp64", "no-gpu"],
)
def test_a_named_kernel_is_refused_not_replaced(
    op: str, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    made = {"dtype": torch.float32, "device": "cpu", **change}
    length = made.pop("length", 8)
    u, h = torch.zeros(1, 1, length, **made), torch.zeros(1, 1, **made)
    shifts = torch.zeros(1, 1, dtype=torch.int64, device=made["device"])
    with pytest.raises(error, match=message):
        call(triton_of(op), {"u": u, "h": h}, shifts if op == "shift" else None)
