"""Programs of input-independent BaseConv layers, written as equations between named channels.

A layer is ``y = (u W + b1) * (h conv u + b2)`` (Definition 4.1 of arXiv:2312.04927) with W (d, d)
and h, b1, b2 (rows, d), all fixed. One output channel is the product of two affine expressions:
``gate`` reads any channels of its own row through W, ``conv`` reads one channel at any shifts
through h. Equations name channels; ``Program.emit`` finds columns for them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from zoology_bench.analytic.circuit.layer import BaseConvLayer

Rows = float | NDArray[np.float32]
"""A constant for every row: one number, or one number a row."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant + sum of coefficient * X^shift channel``: a branch of a layer before it is placed.

    X^s moves a channel s rows down (the monomial kernel of the paper).
    """

    terms: dict[tuple[str, int], float] = field(default_factory=dict)
    """(channel, shift) -> coefficient."""
    constant: Rows = 0.0

    def __add__(self, other: "Affine | Rows") -> "Affine":
        if not isinstance(other, Affine):
            return replace(self, constant=self.constant + other)
        return total([self, other])

    def __mul__(self, factor: float) -> "Affine":
        return Affine({t: factor * c for t, c in self.terms.items()}, factor * self.constant)

    def __neg__(self) -> "Affine":
        return self * -1.0

    def __sub__(self, other: "Affine | float") -> "Affine":
        return self + (-other)

    def __rsub__(self, other: float) -> "Affine":
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def down(self, *shifts: int) -> "Affine":
        """The sum of this expression moved down by each of ``shifts`` rows (negative: up)."""
        assert np.ndim(self.constant) == 0, "a constant with a value a row does not move"
        moved = [
            Affine({(name, at + shift): c for (name, at), c in self.terms.items()})
            for shift in shifts
        ]
        return total(moved) + self.constant

    def split(self) -> list["Affine"]:
        """Its terms one by one, without the constant."""
        return [Affine({term: coefficient}) for term, coefficient in self.terms.items()]

    @property
    def channels(self) -> list[str]:
        """The channels that it reads."""
        return list(dict.fromkeys(name for name, _ in self.terms))


def read(channel: str) -> Affine:
    """The expression that is one channel."""
    return Affine({(channel, 0): 1.0})


def constant(rows: Rows) -> Affine:
    """The expression that reads nothing."""
    return Affine(constant=rows)


def total(expressions: Iterable[Affine]) -> Affine:
    """The sum of some expressions."""
    terms: dict[tuple[str, int], float] = {}
    constants: Rows = 0.0
    for expression in expressions:
        constants = constants + expression.constant
        for term, coefficient in expression.terms.items():
            terms[term] = terms.get(term, 0.0) + coefficient
    return Affine(terms, constants)


@dataclass(frozen=True, slots=True)
class Channel:
    """One equation: ``name = gate * conv``."""

    name: str
    gate: Affine
    conv: Affine


def keep(name: str, expression: Affine, rows: Rows = 1.0) -> Channel:
    """``name = expression``, through the linear branch, zero outside the mask ``rows``."""
    return Channel(name, expression, constant(rows))


@dataclass(frozen=True, slots=True)
class PlacedChannel:
    """One output column of a layer: its column of W, b1, h and b2."""

    slot: int
    weights: dict[int, float]
    gate_bias: Rows
    taps: dict[int, float]
    """Shift -> weight, the sparse form of its filter."""
    conv_bias: Rows


@dataclass(frozen=True, slots=True)
class PlacedLayer:
    """One layer: what it is for, and its columns that are not zero."""

    name: str
    channels: tuple[PlacedChannel, ...]


class Program:
    """Layers over ``n_rows`` rows, kept sparse: dense tensors exist for one layer at a time.

    Args:
        n_rows: length of the sequence that the layers run on.
        inputs: names of the first layer's channels, in order.
        cyclic: convolutions wrap round, so that a row may read rows below it.
    """

    def __init__(self, n_rows: int, inputs: Sequence[str], *, cyclic: bool) -> None:
        self.n_rows = n_rows
        self.cyclic = cyclic
        self.layers: list[PlacedLayer] = []
        self.slots = {name: slot for slot, name in enumerate(inputs)}
        """Column of every channel that the last layer made."""
        self._width = len(inputs)

    @property
    def n_layers(self) -> int:
        """Depth, L."""
        return len(self.layers)

    @property
    def width(self) -> int:
        """Columns of every layer, d."""
        return self._width

    @property
    def n_params(self) -> int:
        """Entries of all tensors: W is d x d, h, b1 and b2 are rows x d in each of L layers."""
        return self.n_layers * (self.width**2 + 3 * self.n_rows * self.width)

    def emit(self, name: str, channels: Sequence[Channel]) -> None:
        """Add a layer that makes ``channels`` and forgets every other one.

        The convolution reads the column it writes, so a channel can feed it once in a layer: what
        feeds k products needs k copies, made one layer before.

        Raises:
            ValueError: an expression that no BaseConv layer can compute.
        """
        slots = self._place(name, channels)
        placed = []
        for channel in channels:
            gate, conv = channel.gate, channel.conv
            if any(shift for _, shift in gate.terms):
                raise ValueError(f"layer {name}: the gate of {channel.name} reads another row")
            taps = {shift: weight for (_, shift), weight in conv.terms.items()}
            if not self.cyclic and min(taps, default=0) < 0:
                raise ValueError(
                    f"layer {name}: {channel.name} reads {-min(taps)} rows below its own, which no"
                    " causal convolution can; give the program padded rows or cyclic=True"
                )
            weights = {self.slots[source]: weight for (source, _), weight in gate.terms.items()}
            slot = slots[channel.name]
            placed.append(PlacedChannel(slot, weights, gate.constant, taps, conv.constant))
        self.layers.append(PlacedLayer(name, tuple(placed)))
        self.slots = slots
        self._width = max(self._width, 1 + max(slots.values()))

    def _place(self, name: str, channels: Sequence[Channel]) -> dict[str, int]:
        """A column for each channel: its convolution's own, or the first that is free."""
        slots: dict[str, int] = {}
        for channel in channels:
            sources = channel.conv.channels
            if len(sources) > 1:
                raise ValueError(f"layer {name}: the convolution of {channel.name} reads {sources}")
            if sources:
                slots[channel.name] = self.slots[sources[0]]
        taken = set(slots.values())
        if len(taken) < len(slots):
            raise ValueError(f"layer {name}: two convolutions read one channel; copy it before")
        free = (slot for slot in count() if slot not in taken)
        for channel in channels:
            if channel.name not in slots:
                slots[channel.name] = next(free)
        if len(slots) < len(channels):
            raise ValueError(f"layer {name}: two channels share a name")
        return slots

    def dense(self, layer: PlacedLayer) -> BaseConvLayer:
        """The tensors of one layer, float64, as ``base_conv`` takes them."""
        width, n_rows = self.width, self.n_rows
        n_taps = max(1, *(len(channel.taps) for channel in layer.channels))
        weight = np.zeros((width, width))
        gate_bias, conv_bias = np.zeros((2, width, n_rows))
        shifts = np.zeros((width, n_taps), dtype=np.int64)
        taps = np.zeros((width, n_taps))
        for channel in layer.channels:
            slot = channel.slot
            for source, value in channel.weights.items():
                weight[source, slot] = value
            gate_bias[slot] = channel.gate_bias
            conv_bias[slot] = channel.conv_bias
            # X^-s is X^(rows - s) on a cycle.
            shifts[slot, : len(channel.taps)] = [shift % n_rows for shift in channel.taps]
            taps[slot, : len(channel.taps)] = list(channel.taps.values())
        return BaseConvLayer.of(weight, gate_bias, shifts, taps, conv_bias)
