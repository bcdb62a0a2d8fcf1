"""Whole trainings on one small cell: does the recipe still learn what it learned?

Seconds are printed (``pytest -m convergence -s``), never asserted.
"""

import time
from functools import partial

import pytest
from torch import nn

from zoology_bench.baselines import content_blind_ceiling
from zoology_bench.data.stream import BlockStream
from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base import MixerConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.mixers.hybrid import HybridConfig
from zoology_bench.models import LanguageModelConfig
from zoology_bench.tasks import MQAR
from zoology_bench.training.config import TrainerConfig
from zoology_bench.training.evaluate import accuracy, evaluate
from zoology_bench.training.loop import train
from zoology_bench.training.metrics import Tally
from zoology_bench.training.seeding import generator, pinned_threads

pytestmark = pytest.mark.convergence

TASK = MQAR(vocab_size=64, seq_len=32, n_kv_pairs=4, layout="official")
SEEDS = [0, 1, 2]
SOLVED = 0.95

ATTENTION = AttentionConfig()
SHORT_CONV_HYBRID = HybridConfig(
    mixers={
        "conv": BaseConvConfig(filters=["short"]),
        "attention": AttentionConfig(positions="none"),
    },
    pattern=["conv", "attention"],
)


def report_after_training(
    mixer: MixerConfig, seed: int, max_steps: int, *, d_model: int, n_layers: int, lr: float
) -> Tally:
    """Accuracy on the report split of a model trained until .95 on select or its last step."""
    model = LanguageModelConfig(
        vocab_size=TASK.vocab_size,
        seq_len=TASK.seq_len,
        d_model=d_model,
        n_layers=n_layers,
        mixer=mixer,
    ).build(generator(seed, "init"))
    config = TrainerConfig(max_steps=max_steps, stop_at=SOLVED + 0.02)
    select_rows = [TASK.rows("select", 0, 0, config.n_select_rows)]

    def select(trained: nn.Module) -> float:
        return accuracy(trained, select_rows)  # type: ignore[arg-type]

    rows = partial(TASK.rows, "train", seed)
    with pinned_threads(1), BlockStream(rows, config.batch_size) as stream:
        result = train(
            model,
            config,
            lr=lr,
            seed=seed,
            batches=stream.batch,
            select=select,
            clock=time.perf_counter,
        )
    report = evaluate(model, [TASK.rows("report", 0, 0, 2000)], TASK.vocabulary)
    overall = report.rows()[0]
    print(
        f"\n{mixer.label} seed {seed}: {overall.value:.3f} on report after {result.steps} steps,"
        f" {result.wall_s:.1f} s"
    )
    return overall


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_by_the_recipe_solves_the_cell_within_800_steps(seed):
    report = report_after_training(ATTENTION, seed, 800, d_model=64, n_layers=2, lr=2e-3)
    assert report.value >= SOLVED


@pytest.mark.parametrize("seed", SEEDS)
def test_short_convolution_hybrid_solves_the_cell_within_1000_steps(seed):
    report = report_after_training(SHORT_CONV_HYBRID, seed, 1000, d_model=32, n_layers=2, lr=1e-2)
    assert report.value >= SOLVED


@pytest.mark.parametrize("seed", SEEDS)
def test_one_attention_layer_without_positions_stays_at_its_floor(seed):
    """It can collect the row's values but not tell which belongs to which key."""
    blind = AttentionConfig(positions="none")
    report = report_after_training(blind, seed, 400, d_model=64, n_layers=1, lr=2e-3)
    ceiling = content_blind_ceiling(TASK)
    assert report.value <= ceiling.value + 4 * (report.se**2 + ceiling.se**2) ** 0.5
    assert report.value > 0.8 / TASK.n_kv_pairs, "it did not even learn to answer with a value"
