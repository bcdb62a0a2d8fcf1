"""What every task is: a configuration that is its own generator of rows."""

import abc
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor

from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout
from zoology_bench.data.stream import BlockStream
from zoology_bench.validation import MAX_SEED, check_int, check_name

SPLITS = ("train", "select", "report")
"""train: fresh rows every step; select: learning rates and stopping; report: the end's tables."""

N_HASHED_ROWS = 1000

STREAM_BLOCK_TOKENS = 1 << 19
"""Tokens per block of a training stream: 4 MB for each of inputs and targets."""


@dataclass(kw_only=True, slots=True)
class Task(abc.ABC):
    """Base of every task's configuration; the configuration is the task."""

    name: ClassVar[str]
    """The key in TASKS."""
    version: ClassVar[int]
    """Raised whenever any row of any configuration can change."""

    vocab_size: int = 8192
    """Number of token ids; the model's embedding has as many rows."""
    seq_len: int = 64
    """Tokens per row, T."""
    data_seed: int = 0
    """Addresses the select and report rows of every training seed."""

    def build(self) -> Self:
        """The task itself: rows come straight from the configuration."""
        return self

    @abc.abstractmethod
    def rows(self, split: str, seed: int, start: int, stop: int, device: str = "cpu") -> Batch:
        """Rows start..stop-1 of a split: a pure function, row by row, of configuration and version.

        Args:
            split: train, select or report.
            seed: the training seed for train, ``data_seed`` for select and report.
            start: first row.
            stop: one past the last row.
            device: where the tensors live; the bits are the same on every device.

        Raises:
            ValueError: unknown split, or not 0 <= start <= stop.
        """

    def row_maker(self, split: str, seed: int, device: str = "cpu") -> Callable[[int, int], Batch]:
        """A (start, stop) -> Batch function with the values of ``rows``, for many calls.

        Tasks override it to reuse memory between calls; what a caller still holds stays intact.
        """
        return partial(self.rows, split, seed, device=device)

    def stream(self, seed: int, batch_size: int, device: str = "cpu") -> BlockStream:
        """Training batches by step, made ahead of the loop on background threads."""
        block_rows = max(1, STREAM_BLOCK_TOKENS // self.seq_len)
        return BlockStream(self.row_maker("train", seed, device), batch_size, block_rows)

    @abc.abstractmethod
    def public_layout(self) -> PublicLayout:
        """What a model may know in advance; never an answer."""

    @abc.abstractmethod
    def cell(self) -> dict[str, int | str]:
        """The columns of a result row that only this task knows.

        n_kv_pairs, n_queries (per row), layout, distance_law (with its numbers) and filler.
        """

    def data_hash(self) -> str:
        """sha256 of report rows 0..999: little-endian int64 inputs, targets, query_pos, C order."""
        batch = self.rows("report", self.data_seed, 0, N_HASHED_ROWS)
        digest = hashlib.sha256()
        for tensor in (batch.inputs, batch.targets, batch.query_pos):
            digest.update(_little_endian_bytes(tensor))
        return digest.hexdigest()


def check_rows(split: str, seed: int, start: int, stop: int, device: str) -> torch.device:
    """Validate the arguments of ``Task.rows``; returns the device.

    Raises:
        ValueError: names the argument, its value and the rule.
    """
    check_name("split", split, SPLITS)
    check_int("seed", seed, -MAX_SEED - 1, MAX_SEED)
    check_int("start", start, 0)
    check_int("stop", stop, start, 1 << 62)
    try:
        where = torch.device(device)
    except RuntimeError:
        raise ValueError(f"device={device!r} is no device; known: cpu, cuda, cuda:N") from None
    if where.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} is not available on this machine: use cpu")
    return where


def _little_endian_bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().cpu().numpy().astype("<i8").tobytes()
