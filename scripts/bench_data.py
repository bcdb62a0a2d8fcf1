"""Time the row generator against one that makes rows one at a time, and its memory.

    python scripts/bench_data.py [--repeats N] [--threads N] [--layouts official stream probe]

The yardsticks are tests/helpers.py (published layout) and tests/tasks/layouts/oracles.py (stream,
probe): NumPy, one shared generator. Rows are checked before anything is timed: targets against an
oracle that sees the tokens alone, the stream's blocks against direct calls. All routes alternate in
one process, so that a busy machine slows them alike; ratios are of medians.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers import expected_targets, official_rows  # noqa: E402
from tests.tasks.layouts.oracles import probe_rows, stream_rows  # noqa: E402
from zoology_bench.data.batch import Batch  # noqa: E402
from zoology_bench.tasks.base import STREAM_BLOCK_TOKENS  # noqa: E402
from zoology_bench.tasks.distance import LogUniform  # noqa: E402
from zoology_bench.tasks.mqar import MQAR  # noqa: E402
from zoology_bench.training.memory import peak_bytes  # noqa: E402

VOCAB_SIZE = 8192
BATCH_SIZE = 64
N_CHECKED = 64
N_BLOCKS = 64
"""Blocks of a timed piece of the stream, which also pays for its start and for two blocks ahead: a
training takes hundreds, so few would time the start."""
MIN_SECONDS = 0.4
"""Each timed piece runs about this long or longer: shorter ones catch a shared machine at its best
or worst moment."""

Rows = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """One task, its yardstick, and the speed-ups that must hold."""

    task: MQAR
    yardstick: Rows
    call_floor: float
    stream_floor: float

    @property
    def label(self) -> str:
        t = self.task
        return f"{t.layout} {t.seq_len},{t.n_kv_pairs} {t.filler}"


def official_case(seq_len: int, n_kv_pairs: int, filler: str, *floors: float) -> Case:
    task = MQAR(
        layout="official",
        vocab_size=VOCAB_SIZE,
        seq_len=seq_len,
        n_kv_pairs=n_kv_pairs,
        filler=filler,
    )
    yardstick = partial(
        official_rows,
        vocab_size=VOCAB_SIZE,
        seq_len=seq_len,
        n_kv_pairs=n_kv_pairs,
        random_filler=filler == "any",
    )
    return Case(task, yardstick, *floors)


def cases() -> list[Case]:
    """The published cells with both fillers, then stream and probe."""
    found = [
        official_case(seq_len, n_kv_pairs, filler, *floors)
        for seq_len, n_kv_pairs, *floors in (
            (64, 4, 40, 80),
            (128, 8, 25, 50),
            (256, 16, 15, 40),
            (512, 64, 10, 20),
            (1024, 256, 8, 14),
        )
        for filler in ("zero", "any")
    ]
    for seq_len, n_kv_pairs in ((128, 8), (512, 64)):
        for filler in ("zero", "disjoint"):
            task = MQAR(
                layout="stream",
                seq_len=seq_len,
                n_kv_pairs=n_kv_pairs,
                filler=filler,
                distance=LogUniform(lo=2, hi=seq_len // 2),
            )
            found.append(Case(task, partial(stream_rows, task), 10, 10))
            task = MQAR(
                layout="probe", seq_len=seq_len, n_kv_pairs=n_kv_pairs, n_queries=1, filler=filler
            )
            found.append(Case(task, partial(probe_rows, task), 10, 10))
    return found


def main() -> int:
    """Print a table; return 1 if a speed-up is below its floor or memory grows with the rows."""
    parser = argparse.ArgumentParser(description="Time the row generator.")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--layouts", nargs="+", default=["official", "stream", "probe"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, NumPy {np.__version__}, {args.threads} torch thread(s)\n")
    print(
        "| task | one at a time, rows/s | rows(), rows/s | ratio | floor "
        "| stream, rows/s | stream, tokens/s | ratio | floor |"
    )
    print("|---" * 9 + "|")
    met = True
    for case in cases():
        if case.task.layout in args.layouts:
            met &= bench(case, args.repeats)
    met &= memory(official_case(256, 16, "zero", 0, 0).task)
    return 0 if met else 1


def bench(case: Case, repeats: int) -> bool:
    """Check, time and print one case."""
    check(case.task)
    task, rng = case.task, np.random.default_rng(0)
    n_rows = STREAM_BLOCK_TOKENS // task.seq_len
    n_slow = rows_in_time(case.yardstick, rng)
    n_calls = calls_in_time(lambda: task.rows("train", 0, 0, n_rows))
    n_steps = N_BLOCKS * n_rows // BATCH_SIZE
    routes: dict[str, tuple[int, Callable[[], object]]] = {
        "slow": (n_slow, lambda: case.yardstick(rng, n_slow)),
        "call": (n_calls * n_rows, lambda: direct_calls(task, n_rows, n_calls)),
        "stream": (n_steps * BATCH_SIZE, lambda: consume(task, n_steps)),
    }
    times: dict[str, list[float]] = {name: [] for name in routes}
    for _ in range(repeats + 1):
        for name, (n, route) in routes.items():
            times[name].append(timed(route) / n)
    # The first round warms caches up.
    slow, call, block = (statistics.median(times[name][1:]) for name in routes)
    print(
        f"| {case.label} | {1 / slow:,.0f} | {1 / call:,.0f} | {slow / call:.1f}x "
        f"| {case.call_floor:.0f}x | {1 / block:,.0f} | {task.seq_len / block:,.0f} "
        f"| {slow / block:.1f}x | {case.stream_floor:.0f}x |",
        flush=True,
    )
    return slow / call >= case.call_floor and slow / block >= case.stream_floor


def check(task: MQAR) -> None:
    """Targets follow from the tokens; the stream returns what direct calls return."""
    direct = task.rows("train", 0, 0, 2 * N_CHECKED)
    for row in range(N_CHECKED):
        tokens, asked = direct.inputs[row].tolist(), direct.query_pos[row].tolist()
        assert direct.targets[row].tolist() == expected_targets(tokens, asked, task)
    with task.stream(0, N_CHECKED) as stream:
        for step in range(2):
            block, rows = stream.batch(step), direct[step * N_CHECKED : (step + 1) * N_CHECKED]
            assert all(
                torch.equal(getattr(block, f.name), getattr(rows, f.name)) for f in fields(Batch)
            )


def rows_in_time(yardstick: Rows, rng: np.random.Generator) -> int:
    """How many rows the yardstick makes in about MIN_SECONDS."""
    n, seconds = 16, timed(lambda: yardstick(rng, 16))
    while seconds < MIN_SECONDS / 2:
        n *= 2
        start = time.perf_counter()
        yardstick(rng, n)
        seconds = time.perf_counter() - start
    return n


def calls_in_time(route: Callable[[], object]) -> int:
    """How many calls take about MIN_SECONDS; the first, which warms caches up, does not count."""
    route()
    return max(1, round(MIN_SECONDS / timed(route)))


def direct_calls(task: MQAR, n_rows: int, n_calls: int) -> None:
    """Make rows directly, in fresh tensors each time."""
    for first in range(0, n_calls * n_rows, n_rows):
        task.rows("train", 0, first, first + n_rows)


def consume(task: MQAR, n_steps: int) -> None:
    """Stream some steps; on return no thread makes blocks any more, so none runs off the clock."""
    with task.stream(0, BATCH_SIZE) as stream:
        for step in range(n_steps):
            stream.batch(step)


def timed(route: Callable[[], object]) -> float:
    start = time.perf_counter()
    route()
    return time.perf_counter() - start


def memory(task: MQAR) -> bool:
    """Peak memory of two processes of which one streams twenty times as many rows."""
    few, many = 20 * 2048, 400 * 2048
    peaks = []
    for n_rows in (few, many):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            peaks.append(pool.submit(peak_memory, task, n_rows).result())
    print(
        f"\npeak memory at ({task.seq_len}, {task.n_kv_pairs}): {peaks[0] / 2**20:.0f} MB after "
        f"{few:,} streamed rows, {peaks[1] / 2**20:.0f} MB after {many:,}"
    )
    return peaks[1] < 1.1 * peaks[0]


def peak_memory(task: MQAR, n_rows: int) -> int:
    """Peak resident bytes of this process after streaming, and of none that started it."""
    torch.set_num_threads(1)
    consume(task, n_rows // BATCH_SIZE)
    return peak_bytes(torch.device("cpu"))


if __name__ == "__main__":
    sys.exit(main())
