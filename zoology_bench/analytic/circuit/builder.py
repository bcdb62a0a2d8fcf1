"""The state of a circuit under construction: its program, and how far its records have moved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zoology_bench.analytic.circuit.plan import Plan
from zoology_bench.analytic.circuit.program import Channel, Program, Rows, keep, read


def copy_of(bit: str, index: int) -> str:
    """Channel of a copy of a bit; the copies differ in nothing but their column."""
    return f"{bit}.{index}"


@dataclass(frozen=True, slots=True)
class Milestone:
    """A point between layers where every record is whole."""

    name: str
    n_layers: int
    """Layers so far."""
    drift: int
    """Rows that the records have moved from home."""
    slots: dict[str, int]
    """Columns of the channels."""


@dataclass(slots=True)
class Builder:
    """Emits layers; stages of the circuit take it as their first argument."""

    plan: Plan
    program: Program
    clean: bool = False
    """Round every bit after each stage of a sort by 3 x^2 - 2 x^3."""
    drift: int = 0
    """Rows that the records have moved from home."""
    carried: list[str] = field(default_factory=list)
    """Channels that ``emit`` copies through every layer."""
    milestones: list[Milestone] = field(default_factory=list)

    def emit(self, name: str, channels: Sequence[Channel]) -> None:
        """Add a layer of ``channels`` and the carried ones."""
        self.program.emit(name, [*channels, *(keep(bit, read(bit)) for bit in self.carried)])

    def rows(self, home: Iterable[int], ahead: int = 0) -> Rows:
        """The 0/1 mask of where records of these home rows are after ``ahead`` more rows."""
        return self.row_values(dict.fromkeys(home, 1), ahead)

    def row_values(self, by_home: dict[int, int], ahead: int = 0) -> Rows:
        """One number for each record, at its row, by home row; 0 elsewhere."""
        values = np.zeros(self.program.n_rows, dtype=np.float32)
        for row, value in by_home.items():
            values[row + self.drift + ahead] = value
        return values

    def mark(self, name: str) -> None:
        """Note that the records are whole here."""
        slots = dict(self.program.slots)
        self.milestones.append(Milestone(name, self.program.n_layers, self.drift, slots))
