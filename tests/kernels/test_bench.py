"""The kernel benches check before they time, and say in one line what they cannot do."""

import csv
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from zoology_bench.kernels import fft_conv, toeplitz_conv
from zoology_bench.kernels.table import RULES


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
    return import_module("bench_kernels"), import_module("bench_kernels_gpu")


@pytest.fixture
def routes(scripts: tuple[ModuleType, ModuleType]) -> ModuleType:
    return import_module("bench_kernels_routes")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """On a busy machine threads that share small work wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def card(
    scripts: tuple[ModuleType, ModuleType],
    routes: ModuleType,
    one_thread: None,
    monkeypatch: pytest.MonkeyPatch,
) -> ModuleType:
    """The GPU bench on a CPU that says it is a card, with one small cell."""
    _, gpu = scripts
    monkeypatch.setattr(routes, "DEVICE", "cpu")
    monkeypatch.setattr(gpu, "TIMED_SECONDS", 0.0)
    monkeypatch.setattr(gpu, "CELLS", (small_cell(routes),))
    fakes: dict[str, object] = {
        "is_available": lambda: True,
        "get_device_name": lambda: "pretended H100",
        "empty_cache": lambda: None,
        "synchronize": lambda: None,
        "memory_allocated": lambda: 0,
        "reset_peak_memory_stats": lambda: None,
        "max_memory_allocated": lambda: 0,
        "Event": ClockEvent,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return gpu


class ClockEvent:
    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "ClockEvent") -> float:
        return 1e3 * (end.at - self.at)


def small_cell(routes: ModuleType, **changes: object) -> object:
    cell = routes.Cell(filters="shared", dtype=torch.float32, length=33, batch=9, channels=5)
    return dataclasses.replace(cell, **changes)


def offer(
    monkeypatch: pytest.MonkeyPatch, gpu: ModuleType, convs: dict[str, Callable[..., Tensor]]
) -> None:
    monkeypatch.setattr(gpu, "routes_of", lambda cell: convs)


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


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
        card="none",
        length=8,
        dtype="bfloat16",
        filters="shared",
        route="r",
        passes="",
        error=0.5,
        note="wrong | not timed",
    )
    assert (
        gpu.table([row]).splitlines()[-1]
        == "| 8 | bfloat16 | shared | r |  | 0.5 |  |  |  |  |  |  | wrong \\| not timed |"
    )


def test_an_exception_while_timing_costs_one_row(
    card: ModuleType, routes: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def breaks(u: Tensor, h: Tensor, **gates: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            raise ValueError("two\nlines")
        return routes.rfft_conv(u, h, **gates)

    offer(monkeypatch, card, {"triton fft": breaks, "torch.fft": routes.rfft_conv})
    assert card.bench(60.0, tmp_path) == 1
    forward, backward, *others = rows_in(tmp_path / "gpu.csv")
    assert (forward["note"], forward["median_ms"]) == ("refused: ValueError: two lines", "")
    assert float(backward["median_ms"]) > 0
    assert [float(row["median_ms"]) > 0 for row in others] == [True, True]
    assert "refused: ValueError: two lines" in (tmp_path / "gpu.md").read_text()


def test_a_route_without_memory_or_construction_costs_one_row(
    card: ModuleType, routes: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hungry(u: Tensor, h: Tensor, **gates: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("tried to allocate 20 GiB")

    monkeypatch.setattr(routes, "find_spec", lambda name: True)
    found = routes.routes_of(small_cell(routes, dtype=torch.bfloat16))
    others = {name: found[name] for name in ("cudnn", "flashfftconv", "torch.fft")}
    offer(monkeypatch, card, {"triton fft": hungry, **others})
    assert card.bench(60.0, tmp_path) == 0
    notes = [row["note"] for row in rows_in(tmp_path / "gpu.csv")]
    assert notes[0] == "out of memory"
    assert notes[1].startswith("refused: ModuleNotFoundError: No module named 'cudnn'")
    assert notes[2].startswith("refused: ModuleNotFoundError: No module named 'flashfftconv'")
    assert notes[3:] == ["", ""]


def test_what_was_measured_is_on_disk_when_a_later_cell_ends_the_run(
    card: ModuleType, routes: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stops(u: Tensor, h: Tensor, **gates: Tensor) -> Tensor:
        if u.shape[-1] == 7:
            raise KeyboardInterrupt
        return routes.rfft_conv(u, h, **gates)

    monkeypatch.setattr(card, "CELLS", (small_cell(routes), small_cell(routes, length=7)))
    offer(monkeypatch, card, {"torch.fft": stops})
    with pytest.raises(KeyboardInterrupt):
        card.bench(60.0, tmp_path)
    assert [row["length"] for row in rows_in(tmp_path / "gpu.csv")] == ["33", "33"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.csv", "gpu.md"]


@pytest.mark.parametrize("broken", [False, True], ids=["torch.fft timed", "torch.fft not timed"])
def test_a_speed_up_is_over_torch_fft_or_absent(
    card: ModuleType,
    routes: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    broken: bool,
) -> None:
    milliseconds = {"torch.fft": 8.0, "torch.fft gates apart": 10.0, "triton fft": 2.0}
    # Three objects, so that a time can be told by the route that has it.
    found: dict[str, Callable[..., Tensor]] = {n: partial(routes.rfft_conv) for n in milliseconds}
    times = {found[name]: value for name, value in milliseconds.items()}

    def measure(conv: Callable[..., Tensor], operands: object, backward: bool) -> object:
        if broken and conv is found["torch.fft"]:
            raise torch.OutOfMemoryError
        return times[conv] * (3 if backward else 1), 0

    monkeypatch.setattr(card, "median_and_peak", measure)
    offer(monkeypatch, card, found)
    assert card.bench(60.0, tmp_path) == 0
    speedups = [row["speedup"] for row in rows_in(tmp_path / "gpu.csv")]
    assert speedups == ([""] * 6 if broken else ["1.0", "1.0", "0.8", "0.8", "4.0", "4.0"])


def wrong_in_y(y: Tensor, mask: Tensor) -> Tensor:
    return y.where(mask, 2 * y)


def wrong_in_gradients(y: Tensor, mask: Tensor) -> Tensor:
    return y.where(mask, 2 * y - y.detach())


def nan_in_gradients(y: Tensor, mask: Tensor) -> Tensor:
    y = y.clone()
    y.register_hook(lambda grad: grad.where(mask, torch.nan))
    return y


@pytest.mark.parametrize("mistake", [wrong_in_y, wrong_in_gradients, nan_in_gradients])
@pytest.mark.parametrize("filters", ["shared", "per example", "shift"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_route_wrong_in_the_last_example_only_is_not_timed(
    card: ModuleType,
    routes: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    mistake: Callable[[Tensor, Tensor], Tensor],
    filters: str,
    dtype: torch.dtype,
) -> None:
    name, right = routes.baseline_of(filters)

    def wrong(u: Tensor, h: Tensor, **gates: Tensor) -> Tensor:
        mask = torch.ones(u.shape, dtype=torch.bool)
        mask[-1] = False
        return mistake(right(u, h, **gates), mask)

    monkeypatch.setattr(card, "CELLS", (small_cell(routes, filters=filters, dtype=dtype),))
    offer(monkeypatch, card, {name: right, "other": wrong})
    assert card.bench(60.0, tmp_path) == 1
    *rows, row = rows_in(tmp_path / "gpu.csv")
    assert all(float(row["median_ms"]) > 0 for row in rows)
    assert (row["median_ms"], row["note"]) == ("", "wrong: not timed")
    flops = [row["nominal_tflop_per_s"] for row in rows]
    assert (flops == ["", ""]) == (filters == "shift")


def test_after_the_deadline_nothing_is_checked_or_timed(
    card: ModuleType,
    routes: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls: list[object] = []

    def counted(u: Tensor, h: Tensor, **gates: Tensor) -> Tensor:
        calls.append(u)
        return routes.rfft_conv(u, h, **gates)

    offer(monkeypatch, card, {"torch.fft": counted, "triton fft": counted})
    assert card.bench(-1.0, tmp_path) == 0
    assert not calls
    assert [row["note"] for row in rows_in(tmp_path / "gpu.csv")] == ["not reached in time"] * 2
    assert "2 rows were not reached in time" in capsys.readouterr().out


@pytest.mark.parametrize("bias", ["(D,)", "(D, L)"])
@pytest.mark.parametrize("filters", ["shared", "shift"])
@pytest.mark.parametrize("dropped", [None, "skip", "bias"])
def test_skip_and_bias_are_checked_and_not_timed(
    card: ModuleType,
    routes: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    bias: str,
    filters: str,
    dropped: str | None,
) -> None:
    right = routes.baseline_of(filters)[1]

    def conv(u: Tensor, h: Tensor, **gates: Tensor) -> Tensor:
        if dropped is not None:
            gates[dropped] = 0 * gates[dropped]
        return right(u, h, **gates)

    cell = small_cell(routes, filters=filters, bias=bias)
    assert all(name.endswith(f", skip, bias {bias}") for name in routes.routes_of(cell))
    monkeypatch.setattr(card, "CELLS", (cell,))
    offer(monkeypatch, card, {"triton": conv})
    assert card.bench(60.0, tmp_path) == (dropped is not None)
    (row,) = rows_in(tmp_path / "gpu.csv")
    assert (row["passes"], row["median_ms"]) == ("check", "")
    assert row["note"] == ("" if dropped is None else "wrong: not timed")


def test_a_kernel_that_refuses_fails_the_run(
    card: ModuleType, routes: ModuleType, tmp_path: Path
) -> None:
    # The routes as they are: on a CPU without the interpreter the kernels refuse.
    assert card.bench(60.0, tmp_path) == 1
    notes = {row["route"]: row["note"] for row in rows_in(tmp_path / "gpu.csv")}
    assert notes["torch.fft"] == notes["torch.fft gates apart"] == ""
    assert notes["triton fft"].startswith("refused: RuntimeError: u is on cpu")


def test_every_rule_has_cells_and_the_deciding_ones_come_first(
    scripts: tuple[ModuleType, ModuleType], routes: ModuleType
) -> None:
    _, gpu = scripts
    timed = [cell for cell in gpu.CELLS if not cell.bias]
    assert gpu.CELLS[: len(timed)] == tuple(timed)
    first = [(cell.filters, cell.dtype, cell.length) for cell in timed[:16]]
    assert first == [
        ("shared", dtype, length)
        for dtype in (torch.bfloat16, torch.float32)
        for length in (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
    ]
    for rule in RULES:
        covering = [
            cell
            for cell in timed
            if f"triton {rule.op}" in routes.routes_of(cell)
            and (cell.filters == "per example") == rule.per_example
            and cell.dtype in rule.dtypes
            and rule.min_length <= cell.length <= rule.max_length
        ]
        assert covering, rule
    checked = {
        (name.split(",")[0], cell.dtype, cell.length, cell.bias)
        for cell in gpu.CELLS[len(timed) :]
        for name in routes.routes_of(cell)
    }
    assert len(checked) == 3 * 3 * 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("length", [1, 100, 1000, 4096, 10_000, 32_768])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_kernels_on_a_gpu_agree_with_fp64(
    scripts: tuple[ModuleType, ModuleType], routes: ModuleType, length: int, dtype: torch.dtype
) -> None:
    _, gpu = scripts
    # So many channels that a program takes several examples, and the last one fewer.
    operands = routes.operands_of(
        routes.Cell(filters="shared", dtype=dtype, length=length, batch=9, channels=257)
    )
    for conv in (fft_conv, toeplitz_conv):
        error = routes.error_of(partial(conv, impl="triton"), routes.rfft_conv, operands)
        assert error <= gpu.TOLERANCE[dtype]
