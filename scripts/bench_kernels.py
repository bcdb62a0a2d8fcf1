"""Time the causal convolutions: the CPU's routes against plain real FFTs, or the GPU's kernels.

    python scripts/bench_kernels.py [--threads N] [--cell-seconds S] [--csv FILE]
    python scripts/bench_kernels.py --gpu [--seconds N] [--out DIR]

On the CPU ``causal_conv`` must nowhere be more than 5 % slower than the route by two real FFTs of
twice the length. Both take turns in one process; what is judged is the median of the ratios of
neighbours, which a machine that slows down for a while moves less than a ratio of medians, and a
cell is measured until the 99 % interval of that median lies on one side of the limit, or for six
times as long as the others. --gpu is in bench_kernels_gpu.py, beside this file.
"""

import argparse
import math
import statistics
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import bench_kernels_gpu
import torch
from bench_kernels_gpu import write_csv
from bench_kernels_routes import Conv, call, rfft_conv, step
from torch import Tensor

from zoology_bench.kernels import causal_conv
from zoology_bench.kernels.table import dense_route

CPU_LENGTHS = (16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)
CPU_BATCHES, CPU_CHANNELS, CPU_MAX_POSITIONS = (1, 16, 64), 64, 2**16
SLOWER = 1.05
CONFIDENCE = 0.99
LEAST_PAIRS = 10
LONGEST = 6
"""How much longer than the others a cell is measured that stays undecided."""
CPU_TOLERANCE = 1e-5


def main() -> int:
    """Print a table; return 1 if a route is wrong or, on the CPU, shown to be too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cell-seconds", type=float, default=1.0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--seconds", type=float, default=285.0, help="of GPU time, at most")
    parser.add_argument("--out", type=Path, default=Path("results/kernels"))
    args = parser.parse_args()
    if args.gpu:
        return bench_kernels_gpu.bench(args.seconds, args.out)
    torch.set_num_threads(args.threads)
    return bench_cpu(args.cell_seconds, args.csv)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRow:
    """One shape and filter kind on the CPU."""

    batch: int
    channels: int
    length: int
    filters: str
    passes: str
    route: str
    rfft_ms: float
    route_ms: float
    ratio: float
    low: float
    high: float
    repeats: int


def bench_cpu(cell_seconds: float, path: Path | None) -> int:
    """Time ``causal_conv`` against the FFT route, forward alone and with backward."""
    rows = []
    print("| L | B | D | filters | passes | route | rfft ms | route ms | route / rfft | repeats |")
    print("|---:|---:|---:|---|---|---|---:|---:|---|---:|")
    for length, batch in product(CPU_LENGTHS, CPU_BATCHES):
        if batch > 1 and batch * length > CPU_MAX_POSITIONS:
            continue
        for filters in ("shared", "per example"):
            operands = cpu_operands(batch, length, filters == "per example")
            check_cpu(operands)
            for passes in ("forward", "forward + backward"):
                row = time_cpu(operands, filters, passes, cell_seconds)
                rows.append(row)
                print(
                    f"| {row.length} | {row.batch} | {row.channels} | {row.filters} |"
                    f" {row.passes} | {row.route} | {row.rfft_ms:.2f} | {row.route_ms:.2f} |"
                    f" {row.ratio:.2f} [{row.low:.2f}, {row.high:.2f}] | {row.repeats} |",
                    flush=True,
                )
    if path is not None:
        write_csv(path, rows)
    print(f"\n{verdict(rows)}")
    slower = [row for row in rows if row.low > SLOWER]
    for row in slower:
        print(f"slower than {SLOWER} x rfft: {row}", file=sys.stderr)
    return int(bool(slower))


def verdict(rows: list[CpuRow]) -> str:
    """How many cells are within the limit, over it, or neither, and on which routes."""
    within = sum(row.high <= SLOWER for row in rows)
    slower = sum(row.low > SLOWER for row in rows)
    undecided = [row for row in rows if row.low <= SLOWER < row.high]
    text = f"Of {len(rows)} cells {within} are within {SLOWER} x rfft, {slower} are slower"
    if not undecided:
        return f"{text}."
    routes = ", ".join(sorted({row.route for row in undecided}))
    return (
        f"{text}; the intervals of {len(undecided)} hold the limit (route {routes}: "
        "fft is the code that both sides run)."
    )


def cpu_operands(batch: int, length: int, per_example: bool) -> dict[str, Tensor]:
    """Signal, filter of full length, gate and bias of a BaseConv layer."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).requires_grad_()

    h_shape = (batch, CPU_CHANNELS, length) if per_example else (CPU_CHANNELS, length)
    return {
        "u": normal(batch, CPU_CHANNELS, length),
        "h": normal(*h_shape),
        "post_gate": normal(batch, CPU_CHANNELS, length),
        "bias": normal(CPU_CHANNELS),
    }


def check_cpu(operands: dict[str, Tensor]) -> None:
    """Refuse to time a route whose result or gradient is off."""
    narrow, wide = (
        _outputs(conv, {k: v.detach().to(dtype) for k, v in operands.items()})
        for conv, dtype in ((causal_conv, torch.float32), (rfft_conv, torch.float64))
    )
    for name, exact in wide.items():
        gap = float((narrow[name].double() - exact).norm() / exact.norm())
        if not gap <= CPU_TOLERANCE:
            shape = tuple(operands["u"].shape)
            raise SystemExit(f"causal_conv is off by {gap:.1e} in {name} at (B, D, L) = {shape}")


def _outputs(conv: Conv, operands: dict[str, Tensor]) -> dict[str, Tensor]:
    """The result and the gradient of every operand, for one fixed weighting of the result."""
    leaves = {name: x.requires_grad_() for name, x in operands.items()}
    y = call(conv, leaves)
    weights = torch.linspace(-1.0, 1.0, y.numel(), dtype=y.dtype).view_as(y)
    grads = torch.autograd.grad(y, list(leaves.values()), weights)
    return {"y": y.detach(), **dict(zip(leaves, grads, strict=True))}


def time_cpu(operands: dict[str, Tensor], filters: str, passes: str, cell_seconds: float) -> CpuRow:
    """Time both routes in turns, at least ``LEAST_PAIRS`` times, until one side is shown."""
    backward = passes != "forward"
    times: dict[Conv, list[float]] = {rfft_conv: [], causal_conv: []}
    for conv in times:
        step(conv, operands, backward)
    order = list(times)
    begin = time.perf_counter()
    while True:
        # Each goes first as often as second: whoever follows finds the other's memory.
        order.reverse()
        for conv in order:
            start = time.perf_counter()
            step(conv, operands, backward)
            times[conv].append(time.perf_counter() - start)
        spent = time.perf_counter() - begin
        if spent < cell_seconds or len(times[causal_conv]) < LEAST_PAIRS:
            continue
        ratios = [b / a for a, b in zip(times[rfft_conv], times[causal_conv], strict=True)]
        low, high = median_interval(ratios)
        if not low <= SLOWER < high or spent > LONGEST * cell_seconds:
            break
    rfft, route = (1e3 * statistics.median(seconds) for seconds in times.values())
    batch, channels, length = operands["u"].shape
    return CpuRow(
        batch=batch,
        channels=channels,
        length=length,
        filters=filters,
        passes=passes,
        route=dense_route(operands["u"], operands["h"]),
        rfft_ms=rfft,
        route_ms=route,
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        repeats=len(ratios),
    )


def median_interval(values: list[float]) -> tuple[float, float]:
    """The order statistics between which the median lies with ``CONFIDENCE``; ten values or more.

    Binomial counts of values under the median, by their normal approximation.
    """
    n = len(values)
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    rank = math.floor((n - 1 - z * math.sqrt(n)) / 2)
    ordered = sorted(values)
    return ordered[rank], ordered[n - 1 - rank]


if __name__ == "__main__":
    sys.exit(main())
