"""The kernel benches check before they time, and say in one line what they cannot do."""

import dataclasses
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from zoology_bench.kernels import fft_conv, toeplitz_conv


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
    import bench_kernels
    import bench_kernels_gpu

    return bench_kernels, bench_kernels_gpu


def test_a_cpu_row_compares_the_route_with_ffts(scripts: tuple[ModuleType, ModuleType]) -> None:
    bench, _ = scripts
    operands = bench.cpu_operands(2, 16, False)
    bench.check_cpu(operands)
    row = bench.time_cpu(operands, "shared", "forward + backward", 0.0)
    assert row.rfft_ms > 0
    assert row.repeats >= 10
    assert 0 < row.low <= row.ratio <= row.high
    assert row.low < row.high


def test_the_interval_of_a_median_covers_it_as_often_as_it_says(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    bench, _ = scripts
    rng = np.random.default_rng(0)
    for n in (10, 11, 40, 301):
        intervals = [bench.median_interval(list(rng.lognormal(size=n))) for _ in range(4000)]
        covered = np.mean([low <= 1.0 <= high for low, high in intervals])
        # Order statistics are discrete: few values cover more than they claim, never less.
        assert covered >= 0.985
    assert covered <= 0.996


def test_a_slower_route_is_told_from_an_equal_one(
    scripts: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, _ = scripts
    clock = [0.0]
    seconds = {bench.rfft_conv: 1.0, bench.causal_conv: 1.2}
    monkeypatch.setattr(bench.time, "perf_counter", lambda: clock[0])

    def step(conv: object, operands: object, backward: bool) -> None:
        # From then on the machine is half as fast: one pair has both.
        clock[0] += seconds[conv] * (1 + (clock[0] > 20))

    monkeypatch.setattr(bench, "step", step)
    operands = bench.cpu_operands(2, 16, False)
    slower = bench.time_cpu(operands, "shared", "forward", 100.0)
    assert bench.SLOWER < slower.low <= slower.ratio == pytest.approx(1.2)
    seconds[bench.causal_conv] = 1.0
    equal = bench.time_cpu(operands, "shared", "forward", 100.0)
    assert equal.high <= bench.SLOWER
    assert bench.verdict([equal, slower]) == "Of 2 cells 1 are within 1.05 x rfft, 1 are slower."
    unclear = dataclasses.replace(equal, high=1.2, route="toeplitz")
    assert "the intervals of 1 hold the limit (route toeplitz:" in bench.verdict([unclear])


def test_a_wrong_route_is_not_timed(
    scripts: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, _ = scripts
    monkeypatch.setattr(bench, "causal_conv", lambda u, h, **gates: 1.01 * fft_conv(u, h, **gates))
    with pytest.raises(SystemExit, match=r"causal_conv is off by .* in y at"):
        bench.check_cpu(bench.cpu_operands(2, 16, False))
    monkeypatch.setattr(
        bench, "causal_conv", lambda u, h, **gates: fft_conv(u, h.detach() + 0 * h, **gates)
    )
    with pytest.raises(SystemExit, match=r"causal_conv is off by .* in h at"):
        bench.check_cpu(bench.cpu_operands(2, 16, False))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_without_a_gpu_its_bench_ends_in_one_line(
    scripts: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_kernels.py", "--gpu"])
    with pytest.raises(SystemExit, match="--gpu needs a CUDA device; none is available"):
        scripts[0].main()


def test_a_table_leaves_out_what_was_not_measured(scripts: tuple[ModuleType, ModuleType]) -> None:
    _, gpu = scripts
    row = gpu.Row(
        card="none", length=8, dtype="bfloat16", route="r", passes="", error=0.5, note="wrong"
    )
    assert (
        gpu.table([row]).splitlines()[-1]
        == "| 8 | bfloat16 | r |  | 0.5 |  |  |  |  |  |  | wrong |"
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("length", [1, 100, 1000, 4096, 10_000, 32_768])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_kernels_on_a_gpu_agree_with_fp64(
    scripts: tuple[ModuleType, ModuleType], length: int, dtype: torch.dtype
) -> None:
    _, gpu = scripts
    for conv in (fft_conv, toeplitz_conv):
        error = gpu.error_of(partial(conv, impl="triton"), length, dtype)
        assert error <= gpu.TOLERANCE[dtype]
