"""Kernels with one changed line fail the checks that the shipped ones pass."""

import importlib.util
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.kernels.interpreted.oracle import Cell, Conv, check
from zoology_bench.kernels import fft_conv, shift_conv, toeplitz_conv
from zoology_bench.kernels.fft import reference
from zoology_bench.kernels.toeplitz import triton as toeplitz

OPS: dict[str, Conv] = {"fft": fft_conv, "toeplitz": toeplitz_conv, "shift": shift_conv}
FP32 = torch.float32
TILE = Cell(length=70, taps=70, dtype=FP32, channels=1)
BATCH = Cell(length=10, taps=10, dtype=FP32, batch=17, channels=1)
OWN = Cell(length=70, taps=50, dtype=FP32, per_example=True, channels=2)
PARTS = Cell(length=1100, taps=1100, dtype=FP32, channels=1)
JOINT = Cell(length=70, taps=70, dtype=torch.float16, batch=6, channels=1)
JOINT_OWN = Cell(length=70, taps=50, dtype=torch.float16, per_example=True)
DELTAS = Cell(length=70, taps=3, dtype=FP32)
MUTATIONS = [
    ("fft", TILE, "multiply(xr, xi, hr, hi, CORRELATE)", "multiply(xr, xi, hr, hi, False)"),
    ("fft", TILE, "multiply(er, ei, vr, vi, True)", "multiply(er, ei, vr, vi, False)"),
    ("fft", TILE, "turned = ar * tr + ai * ti", "turned = ar"),
    ("fft", TILE, "mask = n < L_OUT", "mask = n < L_OUT - 1"),
    ("fft", TILE, "row = d * 0 + b", "row = d * 0 + b // 2"),
    ("fft", OWN, "hr *= SCALE", "hr *= 1.0"),
    ("fft", OWN, "row * w_b + d * w_d", "d * w_d"),
    ("fft", PARTS, "for r in range(R):", "for r in range(R - 1):"),
    ("fft", PARTS, "minus_xi = rounded(-xi,", "minus_xi = rounded(xi,"),
    ("fft", PARTS, "acc /= R", "acc /= 1"),
    ("fft", JOINT, "multiply(er, ei, vr, vi, True)", "multiply(vr, vi, er, ei, True)"),
    ("fft", JOINT, "multiply(er, ei, hr, hi, True)", "multiply(er, ei, hr, hi, False)"),
    ("fft", JOINT, "multiply(vr, vi, hr, hi, False)", "multiply(vr, vi, hr, hi, True)"),
    ("fft", JOINT, "gr += pr", "gr = pr"),
    ("fft", JOINT, "z += skip", "z -= skip"),
    ("fft", JOINT, "dv += skip", "dv -= skip"),
    ("fft", JOINT, "d_pre_ptr, base, u_ptr, u_base", "d_pre_ptr, base, pre_ptr, pre_base"),
    ("fft", JOINT, "d_post_ptr, base, dy_ptr, dy_base", "d_post_ptr, base, post_ptr, post_base"),
    ("fft", JOINT_OWN, "SCALE * dw", "dw"),
    ("fft", JOINT_OWN, "multiply(er, ei, vr, vi, True)", "multiply(vr, vi, er, ei, True)"),
    ("fft", JOINT_OWN, "None, 0, n, n < L_W)", "None, 0, n, n < L_W - 1)"),
    ("toeplitz", TILE, "lag = -lag", "lag = lag"),
    ("toeplitz", TILE, "(lag >= 0) & (lag < K)", "(lag > 0) & (lag < K)"),
    ("toeplitz", TILE, "m_stop = tl.minimum(n_start + BLOCK_N, L)", "m_stop = n_start"),
    ("toeplitz", BATCH, "row = b.to(tl.int64)", "row = (b % 16).to(tl.int64)"),
    ("toeplitz", OWN, "m_start = -COLS", "m_start = 0"),
    ("toeplitz", OWN, "m_stop = tl.minimum(last + 1, L_W)", "m_stop = BLOCK_M"),
    ("shift", DELTAS, "n + lag if CORRELATE else n - lag", "n - lag"),
    ("shift", DELTAS, "mask = (n >= lag) & (n < L)", "mask = (n > lag) & (n < L)"),
    ("shift", DELTAS, "(source >= 0) & (source < L)", "(source >= 0) & (source < L - 1)"),
]
PRODUCT = """acc = tl.dot(
            rounded(x, DOT, EMULATE),
            rounded(taps.to(tl.float32), DOT, EMULATE),
            acc,
            input_precision=PRECISION,
        )"""
ROUNDED_PRODUCTS = """acc += tl.sum(
            rounded(
                rounded(x, DOT, EMULATE)[:, :, None]
                * rounded(taps.to(tl.float32), DOT, EMULATE)[None, :, :],
                DOT,
                True,
            ),
            axis=1,
        )"""
ROUNDED_SUMS = "acc = rounded(" + PRODUCT.removeprefix("acc = ") + ", DOT, True)"


def mutate(op: str, old: str, new: str, folder: Path) -> ModuleType:
    """The kernels of a room with every ``old`` replaced, as a module of their own."""
    source = Path(str(import_module(f"zoology_bench.kernels.{op}.triton_kernels").__file__))
    text = source.read_text()
    assert old in text
    path = folder / f"mutant_{op}.py"
    path.write_text(text.replace(old, new))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("op", "cell", "old", "new"), MUTATIONS, ids=[f"{m[0]}-{m[3]}" for m in MUTATIONS]
)
def test_a_changed_line_is_noticed(
    op: str, cell: Cell, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = import_module(f"zoology_bench.kernels.{op}.triton")
    monkeypatch.setattr(launcher, "kernels", mutate(op, old, new, tmp_path))
    with pytest.raises(AssertionError, match="error"):
        check(op, lambda *args, **gates: OPS[op](*args, **gates, impl="triton"), cell)


def test_without_the_quarter_shift_a_convolution_wraps_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from zoology_bench.kernels.fft import tables

    cell = Cell(length=256, taps=256, dtype=FP32, channels=1, gated=False)
    monkeypatch.setattr(tables, "SHIFT", 0.0)
    tables.tables.cache_clear()
    with pytest.raises(AssertionError, match="y: L2 error"):
        check("fft", lambda *args, **gates: fft_conv(*args, **gates, impl="triton"), cell)
    tables.tables.cache_clear()


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_without_its_scales_an_fp16_transform_leaves_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoology_bench.kernels.fft import triton

    ones = torch.ones(1, 1, 2048, dtype=torch.float16)
    sums = torch.arange(1.0, 2049)
    gap = fft_conv(ones, ones[0], impl="triton")[0, 0] - sums
    assert float(gap.norm() / sums.norm()) <= 2e-3
    mutant = mutate("fft", "scale = magnitude(cr, ci)", "scale = 1.0", tmp_path)
    monkeypatch.setattr(triton, "kernels", mutant)
    assert not fft_conv(ones, ones[0], impl="triton").isfinite().all()


def unrounded_error(monkeypatch: pytest.MonkeyPatch) -> float:
    """The error of a bf16 Toeplitz convolution before its result is rounded to bf16."""
    held: list[Tensor] = []

    def keep(like: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        held.append(torch.empty(shape, dtype=torch.float32))
        return held[-1]

    monkeypatch.setattr(toeplitz, "empty_output", keep)
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(2, 1, 64, generator=generator).bfloat16()
    h = torch.randn(1, 64, generator=generator).bfloat16()
    toeplitz_conv(u, h, impl="triton")
    exact = reference.conv(u.double(), h.double())
    return float((held[0].double() - exact).norm() / exact.norm())


def test_bf16_products_are_summed_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unrounded_error(monkeypatch) < 1e-6


@pytest.mark.parametrize("mutant", [ROUNDED_PRODUCTS, ROUNDED_SUMS], ids=["products", "sums"])
def test_rounding_before_accumulation_is_noticed(
    mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A product rounded to bf16 in the interpreter stays in fp32, as rounded() keeps it.
    monkeypatch.setattr(toeplitz, "kernels", mutate("toeplitz", PRODUCT, mutant, tmp_path))
    assert unrounded_error(monkeypatch) > 1e-4
