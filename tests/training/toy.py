"""Rows and a model small enough to train in a test: every key always has the same value."""

import time
from pathlib import Path

import torch
from torch import Tensor, nn

from zoology_bench.data.batch import IGNORE, Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.training.checkpoint import CheckpointStore
from zoology_bench.training.config import TrainerConfig
from zoology_bench.training.evaluate import accuracy
from zoology_bench.training.loggers import LocalLogger
from zoology_bench.training.loop import train
from zoology_bench.training.result import TrainResult
from zoology_bench.training.seeding import generator

VOCABULARY = Vocabulary.reserved(22, n_filler_tokens=4)
"""0 blank, 1 absent, 2..5 filler, 6..13 keys, 14..21 values."""

N_PAIRS = 4
SEQ_LEN = 16


def toy_rows(step: int, n_rows: int = 16) -> Batch:
    """Four pairs, then each key once more; the value of key k is k + 8."""
    draw = generator(0, "toy rows", step)
    n_keys = len(VOCABULARY.keys)
    keys = torch.rand(n_rows, n_keys, generator=draw).argsort(1)[:, :N_PAIRS]
    keys = keys + VOCABULARY.keys.start
    key_pos = torch.arange(0, 2 * N_PAIRS, 2).expand(n_rows, N_PAIRS)
    n_slots = SEQ_LEN - 2 * N_PAIRS
    query_pos = 2 * N_PAIRS + torch.rand(n_rows, n_slots, generator=draw).argsort(1)[:, :N_PAIRS]
    inputs = torch.zeros(n_rows, SEQ_LEN, dtype=torch.int64)
    inputs.scatter_(1, key_pos, keys).scatter_(1, key_pos + 1, keys + n_keys)
    inputs.scatter_(1, query_pos, keys)
    return Batch(
        inputs=inputs,
        targets=torch.full_like(inputs, IGNORE).scatter_(1, query_pos, keys + n_keys),
        query_pos=query_pos,
        key_pos=key_pos.contiguous(),
        binding_distance=(N_PAIRS - 1 - key_pos // 2).contiguous(),
    )


SELECT_ROWS = [toy_rows(10**6 + i, n_rows=25) for i in range(2)]


class ToyModel(nn.Module):
    """Reads the answer off the asked token alone, through dropout."""

    def __init__(self, seed: int = 0, dropout: float = 0.2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY.size, 16)
        self.norm = nn.LayerNorm(16)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(16, VOCABULARY.size)
        draw = generator(seed, "init")
        for parameter in (self.embedding.weight, self.out.weight, self.out.bias):
            nn.init.normal_(parameter, std=0.25, generator=draw)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.embedding(tokens.gather(1, positions))
        return self.out(self.dropout(self.norm(x)))

    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self(tokens, positions).argmax(-1)


def select(model: nn.Module) -> float:
    """Accuracy on the select rows."""
    assert isinstance(model, ToyModel)
    return accuracy(model, SELECT_ROWS)


def train_toy(model: nn.Module, config: TrainerConfig, **changes) -> TrainResult:
    """``train`` on toy rows; keyword arguments replace any of its own."""
    arguments = {
        "lr": 1e-2,
        "seed": 0,
        "batches": toy_rows,
        "select": select,
        "clock": time.perf_counter,
    }
    return train(model, config, **{**arguments, **changes})


def run_in(run_dir: Path, config: TrainerConfig, **changes) -> tuple[ToyModel, TrainResult]:
    """Train in a folder with a checkpoint and a metrics file, continuing what is there."""
    model = ToyModel()
    store = CheckpointStore(run_dir / "checkpoint.pt", {"max_steps": config.max_steps})
    logger = LocalLogger(run_dir)
    return model, train_toy(model, config, store=store, logger=logger, **changes)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of every parameter and buffer."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two sets of weights agree bit for bit."""
    return all(torch.equal(a[name], b[name]) for name in a)


class Clock:
    """A second per reading, and as many as somebody adds."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def no_batches(step: int) -> Batch:
    """For runs that must not train."""
    raise AssertionError(f"step {step} was trained again")
