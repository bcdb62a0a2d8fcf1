"""What the records of one row hold after each stage of the circuit, read from its states."""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoology_bench.analytic.circuit.base_conv_circuit import BaseConvCircuit
from zoology_bench.analytic.circuit.builder import Milestone, copy_of
from zoology_bench.analytic.circuit.comparator import ABOVE, BELOW, OWN
from zoology_bench.analytic.circuit.compiler import HIT


@dataclass(frozen=True, slots=True)
class Record:
    """One record where it stands."""

    row: int
    time: int
    """2i for the query of triple i, 2i + 1 for its key: what names a record."""
    token: int
    value: int | None
    """Its own value, the value it has found, or its answer; None if it has none (yet)."""

    @property
    def is_key(self) -> bool:
        """Whether it is a key record."""
        return self.time % 2 == 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All records between two stages, from the uppermost down."""

    stage: str
    records: tuple[Record, ...]


class _State:
    """The records' places in the state of one milestone."""

    def __init__(self, milestone: Milestone, state: Tensor, home: tuple[int, ...]) -> None:
        self.slots = milestone.slots
        self.rows = [row + milestone.drift for row in home]
        self._state = state[0]

    def bits(self, name: str) -> list[int] | None:
        """A channel at every record; None if it does not exist here."""
        slot = self.slots.get(name)
        return None if slot is None else self._state[slot, self.rows].int().tolist()

    def chosen(self, name: str) -> list[int] | None:
        """A bit that is in three channels, two of them zero, or in one."""
        copies = [self.bits(copy_of(name, copy)) for copy in (OWN, BELOW, ABOVE)]
        present = [bits for bits in copies if bits is not None]
        whole = len(present) == 3
        return [sum(bits) for bits in zip(*present, strict=True)] if whole else None

    def number(self, name: str, suffix: str = "") -> list[int] | None:
        """Bits ``name0``, ``name1``, .. as a number, most significant first."""
        numbers: list[int] | None = None
        index = 0
        while (bits := self.bits(f"{name}{index}{suffix}")) is not None:
            numbers = [2 * n + b for n, b in zip(numbers or [0] * len(bits), bits, strict=True)]
            index += 1
        return numbers


def trace(model: BaseConvCircuit, tokens: Tensor) -> list[Snapshot]:
    """Snapshots after the records are made, after every stage of the sort, scan and way back.

    Only for kept swap bits: on the way back these, not the records' times, say where a record
    stands, namely where it stood before the stage that is undone.

    Args:
        model: with ``route="swaps"``.
        tokens: (3n,) integers.

    Raises:
        ValueError: a model that sorts twice.
    """
    milestones = {milestone.n_layers: milestone for milestone in model.circuit.milestones}
    if not any(milestone.name.startswith("undo") for milestone in milestones.values()):
        raise ValueError("model.route=sort has no stages to undo; trace a circuit of route=swaps")
    home = model.circuit.plan.record_rows
    token_of: dict[int, int] = {}
    orders: list[list[int]] = []
    snapshots = []
    for n_layers, (_, state) in enumerate(model.states(tokens[None], torch.float32), start=1):
        milestone = milestones.get(n_layers)
        if milestone is None or milestone.name == "output":
            continue
        at = _State(milestone, state, home)
        stage, _, index = milestone.name.partition(" ")
        times, own = at.number("time", ".0"), at.number("token", ".0")
        if stage in ("records", "sort"):
            assert times is not None and own is not None
            orders.append(times)
            token_of.update(zip(times, own, strict=True))
        # orders[k] is the order before stage k.
        order = orders[int(index)] if stage == "undo" else orders[-1]
        values = _values(at, stage, order, model.circuit.n_bits)
        records = [
            Record(row, time, token_of[time], value)
            for row, time, value in zip(at.rows, order, values, strict=True)
        ]
        snapshots.append(Snapshot(milestone.name, tuple(records)))
    return snapshots


def _values(at: _State, stage: str, order: list[int], n_bits: int) -> list[int | None]:
    """What each record holds: own value, found value or answer."""
    if stage in ("records", "sort"):
        has, numbers = [time % 2 for time in order], at.number("value", ".0")
    elif stage == "undo":
        has, numbers = at.chosen(HIT), [0] * len(order)
        for index in range(n_bits):
            bits = at.chosen(f"value{index}")
            assert bits is not None
            numbers = [2 * n + b for n, b in zip(numbers, bits, strict=True)]
    else:
        has = at.bits("full.0") or []
        numbers = at.number("found value")
    assert has is not None and numbers is not None
    return [n if h else None for n, h in zip(numbers, has, strict=True)]
