"""Check, then time the kernels on a GPU: the part of bench_kernels.py behind --gpu.

Each route is compared with fp64 first, outputs and gradients, and one that is wrong gets no time.
Needs torch, triton and the package's kernels only. What it writes is what a card did: nothing here
estimates a time but the column of the roofline.
"""

import csv
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoology_bench.kernels import fft_conv, toeplitz_conv

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
BATCH, CHANNELS = 64, 768
DTYPES = (torch.bfloat16, torch.float32)
TOEPLITZ_MAX = 512
"""Up to here the Toeplitz kernel is timed beside the FFT kernel."""
TOLERANCE = {torch.bfloat16: 1.5e-2, torch.float32: 2e-5}
"""Of the L2 error; fp32 allows for tf32x3 products that truncate."""
TIMED_SECONDS = 0.4
PEAKS = {
    "H200": (4800.0, 989.0, 67.0),
    "H100": (3350.0, 989.0, 67.0),
    "A100": (2039.0, 312.0, 19.5),
}
"""GB/s, and dense TFLOP/s in bf16 and in fp32, from the vendor's data sheets."""

Conv = Callable[..., Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One route at one length on a GPU; ``note`` says why a number is absent."""

    card: str
    length: int
    dtype: str
    route: str
    passes: str
    error: float | None
    median_ms: float | None = None
    peak_mb: float | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None
    roofline_ms: float | None = None
    speedup: float | None = None
    note: str = ""


def bench(seconds: float, out: Path) -> int:
    """Check and time every route; write gpu.csv and gpu.md."""
    if not torch.cuda.is_available():
        raise SystemExit("--gpu needs a CUDA device; none is available")
    deadline = time.monotonic() + seconds
    rows: list[Row] = []
    for length in LENGTHS:
        for dtype in DTYPES:
            for row in time_cell(length, dtype, deadline):
                rows.append(row)
                print(row, flush=True)
    write_csv(out / "gpu.csv", rows)
    (out / "gpu.md").write_text(table(rows))
    return int(any(row.note.startswith("wrong") for row in rows))


def time_cell(length: int, dtype: torch.dtype, deadline: float) -> Iterator[Row]:
    """One row per route and pass at one length and dtype, the torch route first."""
    card = torch.cuda.get_device_name()
    routes = routes_of(length, dtype)
    baseline: dict[str, float] = {}
    for name, conv in routes.items():
        common: dict[str, Any] = {
            "card": card,
            "length": length,
            "dtype": str(dtype).removeprefix("torch."),
            "route": name,
        }
        try:
            error = error_of(conv, length, dtype)
        except Exception as reason:
            yield Row(**common, passes="", error=None, note=f"refused: {one_line(reason)}")
            continue
        if not error <= TOLERANCE[dtype]:
            yield Row(**common, passes="", error=error, note="wrong: not timed")
            continue
        for passes in ("forward", "forward + backward"):
            if time.monotonic() > deadline:
                yield Row(**common, passes=passes, error=error, note="not reached in time")
                continue
            row = timed_row(conv, length, dtype, passes, {**common, "error": error}, baseline)
            yield row


def routes_of(length: int, dtype: torch.dtype) -> dict[str, Conv]:
    """Routes by name; those of other packages only where they import."""
    routes: dict[str, Conv] = {"torch.fft": rfft_conv, "torch.fft gates apart": gates_apart}
    routes["triton fft"] = lambda u, h, **gates: fft_conv(u, h, **gates, impl="triton")
    if length <= TOEPLITZ_MAX:
        routes["triton toeplitz"] = lambda u, h, **g: toeplitz_conv(u, h, **g, impl="triton")
    return {**routes, **cudnn_route(), **flash_route(length, dtype)}


def gates_apart(u: Tensor, h: Tensor, *, pre_gate: Tensor, post_gate: Tensor) -> Tensor:
    """The eager route: gates as multiplications of their own in the signal's dtype."""
    return post_gate * fft_conv(pre_gate * u, h, impl="reference")


def cudnn_route() -> dict[str, Conv]:
    """cuDNN's causal FFT convolution (9.26 and newer), ungated itself."""
    try:
        from cudnn.ops import fft_causal_conv1d  # pyright: ignore[reportMissingImports]
    except ImportError:
        return {}

    def conv(u: Tensor, h: Tensor, *, pre_gate: Tensor, post_gate: Tensor) -> Tensor:
        return post_gate * fft_causal_conv1d(pre_gate * u, h)

    return {"cudnn": conv}


def flash_route(length: int, dtype: torch.dtype) -> dict[str, Conv]:
    """FlashFFTConv, whose FFT size is twice the causal length, with its fused gates."""
    try:
        from flashfftconv import FlashFFTConv  # pyright: ignore[reportMissingImports]
    except ImportError:
        return {}
    if dtype == torch.float32:
        return {}
    flash = FlashFFTConv(2 * length, dtype=dtype).cuda()

    def conv(u: Tensor, h: Tensor, *, pre_gate: Tensor, post_gate: Tensor) -> Tensor:
        return flash(u, h.float(), pre_gate, post_gate)

    return {"flashfftconv": conv}


def operands_of(length: int, dtype: torch.dtype, batch: int, channels: int) -> dict[str, Tensor]:
    """Signal, filter and both gates."""
    generator = torch.Generator("cuda").manual_seed(length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device="cuda").to(dtype).requires_grad_()

    shape = (batch, channels, length)
    return {
        "u": normal(*shape),
        "h": normal(channels, length),
        "pre_gate": normal(*shape),
        "post_gate": normal(*shape),
    }


def error_of(conv: Conv, length: int, dtype: torch.dtype) -> float:
    """The largest L2 error, over the exact norm, of the output and all gradients."""
    operands = operands_of(length, dtype, 3, 4)
    wide = {name: x.detach().double().requires_grad_() for name, x in operands.items()}
    y, exact = call(conv, operands), call(rfft_conv, wide)
    dy = torch.randn_like(y)
    got = (y, *torch.autograd.grad(y, list(operands.values()), dy))
    expected = (exact, *torch.autograd.grad(exact, list(wide.values()), dy.double()))
    pairs = zip(got, expected, strict=True)
    return max(float((a.double() - b).detach().norm() / b.detach().norm()) for a, b in pairs)


def timed_row(
    conv: Conv,
    length: int,
    dtype: torch.dtype,
    passes: str,
    common: dict[str, Any],
    baseline: dict[str, float],
) -> Row:
    """Time one route; the first of a cell is what the others are compared with."""
    try:
        operands = operands_of(length, dtype, BATCH, CHANNELS)
        milliseconds, peak = median_and_peak(conv, operands, passes != "forward")
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return Row(**common, passes=passes, note="out of memory")
    # Reads u and both gates and writes y; backward reads these and dy and writes three gradients.
    tensors = 4 if passes == "forward" else 4 + 7
    moved = tensors * operands["u"].nbytes / 1e9
    flops = fft_flops(length) * BATCH * CHANNELS * (1 if passes == "forward" else 3) / 1e12
    bandwidth, half_peak, full_peak = card_peaks(common["card"])
    peak_flops = full_peak if dtype == torch.float32 else half_peak
    first = baseline.setdefault(passes, milliseconds)
    return Row(
        **common,
        passes=passes,
        median_ms=milliseconds,
        peak_mb=peak / 1e6,
        gb_per_s=moved / milliseconds * 1e3,
        tflop_per_s=flops / milliseconds * 1e3,
        roofline_ms=1e3 * max(moved / bandwidth, flops / peak_flops) if bandwidth else None,
        speedup=first / milliseconds,
    )


def median_and_peak(conv: Conv, operands: dict[str, Tensor], backward: bool) -> tuple[float, int]:
    """Median milliseconds of a step, and the bytes it allocates beyond its operands."""
    step(conv, operands, backward)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times: list[float] = []
    begin = time.monotonic()
    while len(times) < 5 or (time.monotonic() - begin < TIMED_SECONDS and len(times) < 100):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step(conv, operands, backward)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times), torch.cuda.max_memory_allocated() - before


def fft_flops(length: int) -> float:
    """Of the 12 real matrix products of a quarter-shift convolution in square tiles."""
    return 2 * length * 12 * length**0.5


def card_peaks(card: str) -> tuple[float, float, float]:
    """GB/s and TFLOP/s in bf16 and fp32; zeros for a card that is not in the table."""
    return next((peaks for name, peaks in PEAKS.items() if name in card), (0.0, 0.0, 0.0))


def one_line(reason: Exception) -> str:
    """The start of a message, without line breaks."""
    return f"{type(reason).__name__}: {' '.join(str(reason).split())[:120]}"


def rfft_conv(u: Tensor, h: Tensor, **gates: Any) -> Tensor:
    """The plain route: two real FFTs of twice the length, and one back."""
    return fft_conv(u, h, **gates, impl="reference")


def call(conv: Conv, operands: dict[str, Tensor]) -> Tensor:
    """Call with u and h by position."""
    gates = {name: x for name, x in operands.items() if name not in ("u", "h")}
    return conv(operands["u"], operands["h"], **gates)


def step(conv: Conv, operands: dict[str, Tensor], backward: bool) -> None:
    """One forward pass, and one backward pass if asked."""
    if backward:
        y = call(conv, operands)
        torch.autograd.grad(y, list(operands.values()), torch.ones_like(y))
    else:
        with torch.no_grad():
            call(conv, operands)


def write_csv(path: Path, rows: list[Any]) -> None:
    """One line per row, with the names of its fields on top."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def table(rows: list[Row]) -> str:
    """Markdown for readers; the CSV has every column."""
    names = ("length", "dtype", "route", "passes", "error", "median_ms", "peak_mb")
    names += ("gb_per_s", "tflop_per_s", "roofline_ms", "speedup", "note")
    lines = [f"# Kernels on {rows[0].card}", "", f"torch {torch.__version__}", ""]
    lines += [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for row in rows:
        values = (asdict(row)[name] for name in names)
        lines.append("| " + " | ".join(shown(value) for value in values) + " |")
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """A cell of a table: four digits, or nothing."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
