"""Which implementation a call gets, and that a named one is taken or refused."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.kernels.test_conv import DENSE, draw
from zoology_bench.kernels import common, shift_conv, table
from zoology_bench.kernels.fft.tables import Shape, filters, spectrum

RULE = table.Rule(
    op="fft",
    per_example=False,
    dtypes=(torch.bfloat16,),
    capability=(9, 0),
    min_length=100,
    max_length=200,
    speedup=2.5,
)
CALL: dict[str, Any] = {
    "op": "fft",
    "length": 150,
    "per_example": False,
    "dtype": torch.bfloat16,
    "capability": (9, 0),
}


@pytest.mark.parametrize(
    ("change", "impl"),
    [
        ({}, "triton"),
        ({"capability": (12, 0)}, "triton"),
        ({"capability": (8, 0)}, "reference"),
        ({"capability": None}, "reference"),
        ({"op": "toeplitz"}, "reference"),
        ({"per_example": True}, "reference"),
        ({"dtype": torch.float32}, "reference"),
        ({"length": 99}, "reference"),
        ({"length": 201}, "reference"),
    ],
    ids=lambda x: "-".join(f"{k}={v}" for k, v in x.items()) if isinstance(x, dict) else x,
)
def test_auto_takes_a_kernel_where_a_rule_holds(change: dict[str, Any], impl: str) -> None:
    assert table.auto_impl(**{**CALL, **change}, rules=(RULE,)) == impl


@pytest.mark.parametrize("speedup", [None, 1.9])
def test_auto_leaves_out_what_is_unmeasured_or_slow(speedup: float | None) -> None:
    rules = (replace(RULE, speedup=speedup),)
    assert table.auto_impl(**CALL, rules=rules) == "reference"


def test_a_measured_kernel_takes_the_mixers_route(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = tuple(replace(rule, speedup=3.0) for rule in table.RULES)
    shared, own = torch.zeros(4, 300), torch.zeros(8, 4, 300)
    u = torch.zeros(8, 4, 300, dtype=torch.bfloat16)
    assert table.dense_route(u, shared, fast) == "fft"
    monkeypatch.setattr(table, "capability_of", lambda u: (9, 0))
    for h in (shared, own):
        assert table.dense_route(u, h, fast) == "toeplitz"
        assert table.dense_route(u, h, tuple(r for r in fast if r.op != "toeplitz")) == "fft"
        longer = torch.zeros(8, 4, 600, dtype=torch.bfloat16)
        assert table.dense_route(longer, h, fast) == "fft"
    assert table.dense_route(u, shared[:, :3], fast) == "depthwise"
    short = torch.zeros(64, 4, 64, dtype=torch.bfloat16)
    assert table.dense_route(short, shared[:, :64]) == "toeplitz"


def test_no_rule_claims_a_speed_before_a_gpu_has_run_it() -> None:
    assert all(rule.speedup is None for rule in table.RULES)


@pytest.mark.parametrize(
    ("length", "dtype", "per_example", "parts", "points"),
    [
        (1, torch.bfloat16, False, 1, 256),
        (257, torch.bfloat16, True, 1, 512),
        (2048, torch.float16, False, 1, 2048),
        (512, torch.float32, True, 1, 512),
        (2048, torch.float32, False, 4, 512),
        (2048, torch.float32, True, 8, 256),
        (2049, torch.bfloat16, False, 2, 2048),
        (10_000, torch.bfloat16, True, 5, 2048),
        (32_768, torch.bfloat16, False, 16, 2048),
        (32_768, torch.float32, True, 128, 256),
    ],
)
def test_tiles_hold_the_signal(
    length: int, dtype: torch.dtype, per_example: bool, parts: int, points: int
) -> None:
    tile = table.fft_tile(length, dtype, (9, 0), per_example=per_example)
    assert (tile.parts, tile.n1 * tile.n2) == (parts, points)


@DENSE
def test_triton_without_a_gpu_is_refused(conv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RuntimeError, match="u is on cpu; expected a CUDA device") as error:
        conv(torch.zeros(1, 1, 4), torch.zeros(1, 4), impl="triton")
    assert "\n" not in str(error.value)


def test_triton_without_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "_TRITON_INSTALLED", False)
    with pytest.raises(RuntimeError, match="needs the package triton, which is not installed"):
        shift_conv(torch.zeros(1, 1, 4), torch.zeros(1, 1).long(), torch.zeros(1, 1), impl="triton")


@DENSE
def test_autocast_neither_narrows_a_reference_nor_refuses_narrow_operands(conv: Any) -> None:
    u = draw(2, 3, 40, dtype=torch.float32)
    h, gate = (draw(*s, dtype=torch.bfloat16) for s in ((3, 40), (2, 3, 40)))
    expected = conv(u, h.float(), post_gate=gate.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = conv(u, h, post_gate=gate)
    assert torch.equal(y, expected)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_spectra_and_filters_are_inverses(parts: int) -> None:
    shape = Shape(parts=parts, n1=16, n2=32)
    h = draw(2, 300, dtype=torch.float32)
    assert torch.allclose(filters(spectrum(h, shape), shape, 300), h, atol=1e-6)
