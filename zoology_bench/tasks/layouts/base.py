"""A layout decides where pairs and queries stand; which tokens stand there is decided elsewhere.

Random streams (the ``stream`` of ``data.random``): layouts number theirs freely below
TOKEN_STREAMS, one layout per task; the numbers from there on belong to the task's tokens.
"""

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from zoology_bench.tasks.distance import DistanceLaw, LawTable

TOKEN_STREAMS = 0x7000


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutSpec:
    """The integers a layout works from (already validated one by one)."""

    seq_len: int
    n_kv_pairs: int
    """P, pairs written."""
    n_queries: int
    """Q, keys asked (absent ones included: they are placed as if they asked a pair)."""
    n_rebound: int
    """R, how many of the P pairs re-bind a key that another pair of the row also writes."""
    distance: DistanceLaw | None
    binding: DistanceLaw | None
    """Law of the binding distance (probe only)."""
    power_a: float


@dataclass(kw_only=True, slots=True)
class Placement:
    """Positions of one block of rows, int64."""

    pair_pos: Tensor | None
    """(B, P) position of each pair's key, ascending; its value stands at +1. None: pair i at 2i."""
    query_pos: Tensor
    """(B, Q) positions of the queries."""
    asked: Tensor | None
    """(B, Q) index of the pair that last wrote the asked key. None: query j asks pair j."""
    key_id: Tensor | None
    """(B, P) in 0..P-R-1, equal where two pairs write the same key; None if all are distinct."""


class StuckRow(RuntimeError):
    """A row found no place after every retry.

    Args:
        row: its index, among the keys given to ``Layout.place`` or among the rows of a split.
        why: the rest of the sentence.
    """

    def __init__(self, row: int, why: str) -> None:
        super().__init__(row, why)
        self.row, self.why = row, why

    def __str__(self) -> str:
        return f"row {self.row} {self.why}"


class Layout(abc.ABC):
    """One layout bound to its numbers: validates at construction, then places rows."""

    name: ClassVar[str]
    takes_filler: ClassVar[bool] = True
    """Unoccupied cells hold the task's filler; False where they always hold the blank."""

    spec: LayoutSpec

    @abc.abstractmethod
    def __init__(self, spec: LayoutSpec) -> None:
        """Build integer tables.

        Raises:
            ValueError: infeasible; names the ``task.`` fields, their values and the limit.
        """

    @property
    @abc.abstractmethod
    def distances(self) -> LawTable:
        """The marginal law of the interaction distance."""

    @property
    def distance_range(self) -> range:
        """Every distance the layout can produce lies in this range."""
        support = self.distances.support
        step = int(np.gcd.reduce(np.diff(support))) if len(support) > 1 else 1
        return range(int(support[0]), int(support[-1]) + 1, step)

    @property
    def identity(self) -> str:
        """Everything beside the spec's integers that may change a placement, as text."""
        return self.distances.digest()

    @abc.abstractmethod
    def place(self, keys: Tensor) -> Placement:
        """Place one block of rows.

        Args:
            keys: (B,) row keys; every random bit derives from them, so a row does not depend on B.

        Raises:
            StuckRow: a row that could not be placed after every retry; never drops one.
        """
