"""Check, then time the kernels on a GPU: the part of bench_kernels.py behind --gpu.

Each route is compared with fp64 first, outputs and gradients, on the operands that are timed, and
one that is wrong gets no time. Cells come in the order in which they decide something, and both
files are written after each, so that a run that ends early has told what it could. Needs torch,
triton and the package's kernels only. What it writes is what a card did: nothing here estimates a
time but the column of the roofline.
"""

import csv
import gc
import io
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import torch
from bench_kernels_routes import Cell, Conv, baseline_of, error_of, operands_of, routes_of, step
from torch import Tensor

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
GRIDS = (
    ("shared", (BF16, FP32), LENGTHS),
    ("per example", (BF16,), (512, 4096)),
    ("shift", (BF16, FP32), (1024, 8192)),
    ("shared", (FP16,), (512, 4096)),
)
BIASES = ((301, "(D,)"), (2001, "(D, L)"))
CELLS = (
    *[
        Cell(filters=filters, dtype=dtype, length=length)
        for filters, dtypes, lengths in GRIDS
        for dtype, length in product(dtypes, lengths)
    ],
    # Odd numbers, and so many channels that programs take several examples, the last one fewer.
    *[
        Cell(filters=filters, dtype=dtype, length=length, bias=bias, batch=9, channels=257)
        for filters, dtype, (length, bias) in product(
            ("shared", "shift"), (BF16, FP16, FP32), BIASES
        )
    ],
)
"""What decides most comes first."""
TOLERANCE = {BF16: 1.5e-2, FP16: 2e-3, FP32: 2e-5}
"""Of the L2 error; fp32 allows for tf32x3 products that truncate."""
TIMED_SECONDS = 0.15
LATE = "not reached in time"
PEAKS = {
    "H200": (4800.0, 989.0, 67.0),
    "H100": (3350.0, 989.0, 67.0),
    "A100": (2039.0, 312.0, 19.5),
}
"""GB/s, and dense TFLOP/s in bf16 and in fp32, from the vendor's data sheets."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One route on one set of operands on a GPU; ``note`` says why a number is absent."""

    card: str
    length: int
    dtype: str
    filters: str
    route: str
    passes: str
    error: float | None
    median_ms: float | None = None
    peak_mb: float | None = None
    gb_per_s: float | None = None
    nominal_tflop_per_s: float | None = None
    """Of ``nominal_flops``, whatever a route computes: it compares times. None for deltas."""
    roofline_ms: float | None = None
    speedup: float | None = None
    """Over torch.fft, or torch.gather for deltas, on the same operands."""
    note: str = ""


def bench(seconds: float, out: Path) -> int:
    """Check and time every route, and write gpu.csv and gpu.md; return 1 if one is wrong."""
    if not torch.cuda.is_available():
        raise SystemExit("--gpu needs a CUDA device; none is available")
    deadline = time.monotonic() + seconds
    card = torch.cuda.get_device_name()
    rows: list[Row] = []
    for cell in CELLS:
        for row in time_cell(cell, card, deadline):
            rows.append(row)
            print(row, flush=True)
        write_csv(out / "gpu.csv", rows)
        write_text(out / "gpu.md", table(rows))
    late = sum(row.note == LATE for row in rows)
    if late:
        print(f"{late} rows were not reached in time; a second run finds the kernels compiled")
    return int(any(failed(row) for row in rows))


def failed(row: Row) -> bool:
    """Whether a row shows a mistake: other packages may refuse a call, the kernels may not."""
    refused = row.route.startswith("triton") and row.note.startswith("refused")
    return refused or row.note.startswith("wrong")


def time_cell(cell: Cell, card: str, deadline: float) -> Iterator[Row]:
    """One row per route and pass, or one per route that has no time."""
    baseline: dict[str, float] = {}
    for name, conv in routes_of(cell).items():
        yield from time_route(cell, name, conv, card, deadline, baseline)


def time_route(
    cell: Cell, name: str, conv: Conv, card: str, deadline: float, baseline: dict[str, float]
) -> Iterator[Row]:
    """Check one route, and time it if it is right; ``baseline`` gets the times of its own route."""
    dtype = str(cell.dtype).removeprefix("torch.")
    row = partial(Row, card=card, length=cell.length, dtype=dtype, filters=cell.filters, route=name)
    untimed = partial(row, passes="check" if cell.bias else "")
    if time.monotonic() > deadline:
        yield untimed(error=None, note=LATE)
        return
    checked = attempt(check, cell, conv)
    if isinstance(checked, str):
        yield untimed(error=None, note=checked)
        return
    operands, error = checked
    if not error <= TOLERANCE[cell.dtype]:
        yield untimed(error=error, note="wrong: not timed")
        return
    if cell.bias:
        yield untimed(error=error)
        return
    for passes in ("forward", "forward + backward"):
        if time.monotonic() > deadline:
            yield row(passes=passes, error=error, note=LATE)
            continue
        measured = attempt(median_and_peak, conv, operands, passes != "forward")
        if isinstance(measured, str):
            yield row(passes=passes, error=error, note=measured)
            continue
        milliseconds, peak = measured
        if name == baseline_of(cell.filters)[0]:
            baseline[passes] = milliseconds
        yield row(
            passes=passes,
            error=error,
            median_ms=milliseconds,
            peak_mb=peak / 1e6,
            speedup=baseline[passes] / milliseconds if passes in baseline else None,
            **rates(cell, card, passes, milliseconds),
        )


def attempt(action: Callable[..., T], *args: Any) -> T | str:
    """What a call returns, or in one line why it does not."""
    try:
        return action(*args)
    except torch.OutOfMemoryError:
        note = "out of memory"
    except Exception as reason:
        note = f"refused: {one_line(reason)}"
    # By now no traceback holds the tensors of the failed call; a cycle among them still may.
    gc.collect()
    return note


def check(cell: Cell, conv: Conv) -> tuple[dict[str, Tensor], float]:
    """Fresh operands, and the error on them."""
    torch.cuda.empty_cache()
    operands = operands_of(cell)
    return operands, error_of(conv, baseline_of(cell.filters)[1], operands)


def median_and_peak(conv: Conv, operands: dict[str, Tensor], backward: bool) -> tuple[float, int]:
    """Median milliseconds of a step, and the bytes it allocates beyond its operands."""
    torch.cuda.empty_cache()
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


def rates(cell: Cell, card: str, passes: str, milliseconds: float) -> dict[str, float | None]:
    """The columns that set a time beside what a card could do."""
    forward = passes == "forward"
    # Reads u and both gates and writes y; backward reads these and dy and writes three gradients.
    tensors = 4 if forward else 4 + 7
    if cell.filters == "per example":
        # As large as a signal: read by both passes, and a gradient written.
        tensors += 1 if forward else 3
    signals = cell.batch * cell.channels
    moved = tensors * signals * cell.length * cell.dtype.itemsize / 1e9
    flops = 0.0
    if cell.filters != "shift":
        flops = nominal_flops(cell.length) * signals * (1 if forward else 3) / 1e12
    bandwidth, half_peak, full_peak = card_peaks(card)
    peak_flops = full_peak if cell.dtype == FP32 else half_peak
    return {
        "gb_per_s": moved / milliseconds * 1e3,
        "nominal_tflop_per_s": flops / milliseconds * 1e3 if flops else None,
        "roofline_ms": 1e3 * max(moved / bandwidth, flops / peak_flops) if bandwidth else None,
    }


def nominal_flops(length: int) -> float:
    """Of the 12 real matrix products of a quarter-shift convolution in square tiles."""
    return 2 * length * 12 * length**0.5


def card_peaks(card: str) -> tuple[float, float, float]:
    """GB/s and TFLOP/s in bf16 and fp32; zeros for a card that is not in the table."""
    return next((peaks for name, peaks in PEAKS.items() if name in card), (0.0, 0.0, 0.0))


def one_line(reason: Exception) -> str:
    """The start of a message, without line breaks."""
    return f"{type(reason).__name__}: {' '.join(str(reason).split())[:120]}"


def write_csv(path: Path, rows: list[Any]) -> None:
    """One line per row, with the names of its fields on top."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [field.name for field in fields(rows[0])])
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_text(path, text.getvalue())


def write_text(path: Path, text: str) -> None:
    """Replace a file whole: whoever stops the run finds the last one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, newline="")
    os.replace(part, path)


def table(rows: list[Row]) -> str:
    """Markdown for readers; the CSV has every column."""
    names = [field.name for field in fields(Row) if field.name != "card"]
    lines = [f"# Kernels on {rows[0].card}", "", f"torch {torch.__version__}", ""]
    lines += [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for row in rows:
        values = (asdict(row)[name] for name in names)
        lines.append("| " + " | ".join(shown(value) for value in values) + " |")
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """A cell of a table: four digits, or nothing."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", r"\|")
