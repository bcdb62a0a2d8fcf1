"""Time one optimiser step against the plain route, and the share of a step spent waiting for rows.

    python scripts/bench_train.py [--threads N] [--repeats N]

The plain route (tests/models/plain_route.py) computes all logits, materialises attention and runs
AdamW unfused. Losses and gradients are compared before anything is timed; both routes alternate in
one process, so that a busy machine slows them alike; ratios are of medians.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.models.plain_route import plain_loss, plain_optimizer  # noqa: E402
from zoology_bench.data.batch import Batch  # noqa: E402
from zoology_bench.data.stream import BlockStream  # noqa: E402
from zoology_bench.mixers.attention import AttentionConfig  # noqa: E402
from zoology_bench.mixers.base import MixerConfig  # noqa: E402
from zoology_bench.mixers.base_conv import BaseConvConfig  # noqa: E402
from zoology_bench.models.lm import LanguageModel, LanguageModelConfig  # noqa: E402
from zoology_bench.tasks.mqar import MQAR  # noqa: E402

VOCAB_SIZE = 8192
LR = 1e-3
RELATIVE_TOLERANCE = 1e-3
"""Of a whole gradient tensor in fp32; the routes sum in different orders."""


@dataclass(frozen=True)
class Cell:
    """One size, with the speed-up that must hold."""

    seq_len: int
    n_kv_pairs: int
    d_model: int
    batch_size: int
    floor: float


CELLS = (Cell(64, 4, 64, 64, 8.0), Cell(256, 16, 128, 16, 5.0))
MIXERS: tuple[MixerConfig, ...] = (AttentionConfig(), BaseConvConfig())


def main() -> int:
    """Print one line per cell and mixer; return 1 if a speed-up is below its floor."""
    parser = argparse.ArgumentParser(description="Time one optimiser step.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("(T, P, D, B)           mixer      plain ms   fast ms   ratio  floor   tokens/s   data")
    below = [not bench(cell, mixer, args.repeats) for cell in CELLS for mixer in MIXERS]
    return int(any(below))


def bench(cell: Cell, mixer: MixerConfig, repeats: int) -> bool:
    """Check, time and print one cell; True if the floor holds."""
    task = MQAR(
        vocab_size=VOCAB_SIZE,
        seq_len=cell.seq_len,
        n_kv_pairs=cell.n_kv_pairs,
        layout="official",
    )
    batch = task.rows("train", 0, 0, cell.batch_size)
    check(build(cell, mixer), batch)
    plain_model, fast_model = build(cell, mixer), build(cell, mixer)
    plain_adam = plain_optimizer(plain_model, LR)
    fast_adam = torch.optim.AdamW(fast_model.parameters(), lr=LR, betas=(0.9, 0.95), fused=True)

    def plain() -> None:
        step(plain_adam, plain_loss(plain_model, batch))

    def fast() -> None:
        step(fast_adam, fast_loss(fast_model, batch))

    plain_s, fast_s = alternate(plain, fast, repeats)
    data_share = share_of_data(task, cell, lambda b: step(fast_adam, fast_loss(fast_model, b)))
    ratio = plain_s / fast_s
    size = f"({cell.seq_len}, {cell.n_kv_pairs}, {cell.d_model}, {cell.batch_size})"
    rate = cell.batch_size * cell.seq_len / fast_s
    print(
        f"{size:22} {mixer.label:10} {1e3 * plain_s:8.1f} {1e3 * fast_s:9.1f} {ratio:7.1f} "
        f"{cell.floor:6.1f} {rate:10,.0f} {data_share:6.1%}",
        flush=True,
    )
    return ratio >= cell.floor


def build(cell: Cell, mixer: MixerConfig) -> LanguageModel:
    """The model of a cell, the same every time."""
    config = LanguageModelConfig(
        vocab_size=VOCAB_SIZE, seq_len=cell.seq_len, d_model=cell.d_model, mixer=mixer
    )
    return config.build(torch.Generator().manual_seed(0))


def fast_loss(model: LanguageModel, batch: Batch) -> Tensor:
    """Mean cross entropy at the labelled positions, through logits (B, Q, V)."""
    logits = model(batch.inputs, batch.query_pos)
    return F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One update, clipped as in training."""
    optimizer.zero_grad()
    loss.backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()


def check(model: LanguageModel, batch: Batch) -> None:
    """Exit unless both routes agree in loss and in every gradient."""
    named = dict(model.named_parameters())
    losses = fast_loss(model, batch), plain_loss(model, batch)
    fast, plain = (torch.autograd.grad(loss, list(named.values())) for loss in losses)
    worst = max(float((a - b).norm() / b.norm()) for a, b in zip(fast, plain, strict=True))
    gap = abs(losses[0].item() - losses[1].item())
    if gap > 1e-4 or worst > RELATIVE_TOLERANCE:
        raise SystemExit(f"the routes disagree: loss by {gap:.1e}, a gradient by {worst:.1e}")


def alternate(
    first: Callable[[], None], second: Callable[[], None], repeats: int
) -> tuple[float, float]:
    """Median seconds of each, run in turns after one warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats + 1):
        for function, taken in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return statistics.median(times[0][1:]), statistics.median(times[1][1:])


def share_of_data(
    task: MQAR, cell: Cell, update: Callable[[Batch], None], n_steps: int = 100
) -> float:
    """Share of a training loop's wall time spent in ``BlockStream.batch``, its start included."""
    waited = 0.0
    begun = time.perf_counter()
    with BlockStream(task.row_maker("train", 0), cell.batch_size) as stream:
        for i in range(n_steps):
            start = time.perf_counter()
            batch = stream.batch(i)
            waited += time.perf_counter() - start
            update(batch)
        return waited / (time.perf_counter() - begun)


if __name__ == "__main__":
    raise SystemExit(main())
