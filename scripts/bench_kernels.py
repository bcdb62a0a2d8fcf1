"""Time the causal convolutions: the CPU's routes against plain real FFTs, or the GPU's kernels.

    python scripts/bench_kernels.py [--threads N] [--repeats N] [--csv FILE]
    python scripts/bench_kernels.py --gpu [--seconds N] [--out DIR]

On the CPU ``causal_conv`` must nowhere be more than 5 % slower than the route by two real FFTs of
twice the length; both alternate in one process, and times are medians. --gpu is in
bench_kernels_gpu.py, beside this file.
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import bench_kernels_gpu
import torch
from bench_kernels_gpu import Conv, call, rfft_conv, step, write_csv
from torch import Tensor

from zoology_bench.kernels import causal_conv, fft_conv

CPU_LENGTHS = (16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)
CPU_BATCH, CPU_CHANNELS, CPU_EXAMPLE_POSITIONS = 16, 32, 2**17
SLOWER = 1.05
CPU_TOLERANCE = 1e-5


def main() -> int:
    """Print a table; return 1 if a route is wrong or, on the CPU, too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--seconds", type=float, default=285.0, help="of GPU time, at most")
    parser.add_argument("--out", type=Path, default=Path("results/kernels"))
    args = parser.parse_args()
    if args.gpu:
        return bench_kernels_gpu.bench(args.seconds, args.out)
    torch.set_num_threads(args.threads)
    return bench_cpu(args.repeats, args.csv)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRow:
    """One length and filter kind on the CPU."""

    length: int
    filters: str
    passes: str
    rfft_ms: float
    route_ms: float
    ratio: float


def bench_cpu(repeats: int, path: Path | None) -> int:
    """Time ``causal_conv`` against the FFT route, forward alone and with backward."""
    rows = []
    print("| L | filters | passes | rfft ms | route ms | route / rfft |")
    print("|---:|---|---|---:|---:|---:|")
    for length in CPU_LENGTHS:
        for filters in ("shared", "per example"):
            operands = cpu_operands(length, filters == "per example")
            check_cpu(operands)
            for passes in ("forward", "forward + backward"):
                row = time_cpu(length, filters, passes, operands, repeats)
                rows.append(row)
                print(
                    f"| {row.length} | {row.filters} | {row.passes} | {row.rfft_ms:.2f} |"
                    f" {row.route_ms:.2f} | {row.ratio:.2f} |",
                    flush=True,
                )
    if path is not None:
        write_csv(path, rows)
    slow = [row for row in rows if row.ratio > SLOWER]
    for row in slow:
        print(f"slower than rfft: {row}", file=sys.stderr)
    return int(bool(slow))


def cpu_operands(length: int, per_example: bool) -> dict[str, Tensor]:
    """Signal, filter of full length, gate and bias of a BaseConv layer, about as many positions
    at every length."""
    batch = max(1, min(CPU_BATCH, CPU_EXAMPLE_POSITIONS // (length * CPU_CHANNELS)))
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
    """Refuse to time a route whose result is off."""
    with torch.no_grad():
        exact = call(fft_conv, {k: v.double() for k, v in operands.items()})
        gap = float((call(causal_conv, operands).double() - exact).norm() / exact.norm())
    if not gap <= CPU_TOLERANCE:
        shape = tuple(operands["u"].shape)
        raise SystemExit(f"causal_conv is off by {gap:.1e} at (B, D, L) = {shape}")


def time_cpu(
    length: int, filters: str, passes: str, operands: dict[str, Tensor], repeats: int
) -> CpuRow:
    """Median times of both routes, alternating."""
    backward = passes != "forward"
    times: dict[Conv, list[float]] = {rfft_conv: [], causal_conv: []}
    for i in range(repeats + 1):
        for conv, seconds in times.items():
            begin = time.perf_counter()
            step(conv, operands, backward)
            if i:
                seconds.append(time.perf_counter() - begin)
    rfft, route = (1e3 * statistics.median(seconds) for seconds in times.values())
    return CpuRow(
        length=length,
        filters=filters,
        passes=passes,
        rfft_ms=rfft,
        route_ms=route,
        ratio=route / rfft,
    )


if __name__ == "__main__":
    sys.exit(main())
