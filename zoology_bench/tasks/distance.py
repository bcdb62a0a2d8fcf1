"""Laws of the interaction distance: integer weights on a lattice, turned into thresholds once.

A law states its weights as integers of any size. Uniform, fixed and empirical weights are exact;
1/s and s^-alpha are rounded to WEIGHT_BITS fractional bits by integer division and by decimal
arithmetic (whose ln and exp are correctly rounded on every machine). Thresholds are exact quotients
of those integers: no float takes part, so every machine draws the same rows.
"""

import abc
import csv
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from decimal import Context, Decimal
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from omegaconf import MISSING
from torch import Tensor

from zoology_bench.validation import check_int

THRESHOLD_BITS = 32
WEIGHT_BITS = 96


class LawTable:
    """A law over integers as integer thresholds: probability error below 2^-32 per point.

    Args:
        support: (n,) ascending distances.
        weights: n positive integers, relative.

    Attributes:
        support: (n,) int64.
        probabilities: (n,) float64, host only, for floors and tests; never used to draw.
        thresholds: (n,) int64 upper ends of the points' shares of 0..2^32.
    """

    def __init__(self, support: np.ndarray, weights: Sequence[int]) -> None:
        self.support = np.asarray(support, dtype=np.int64)
        # Python integers: the sums below would overflow NumPy's.
        exact = [operator.index(weight) for weight in weights]
        total, running, thresholds = sum(exact), 0, []
        for weight in exact:
            running += weight
            thresholds.append(((running << THRESHOLD_BITS) + total // 2) // total)
        self.probabilities = np.array([weight / total for weight in exact])
        self.thresholds = torch.tensor(thresholds, dtype=torch.int64)
        self._values = torch.from_numpy(self.support)

    def sample(self, bits32: Tensor) -> Tensor:
        """int64 distances, same shape, from 32 random bits each."""
        device = bits32.device
        uniform = bits32.to(torch.int64) & ((1 << THRESHOLD_BITS) - 1)
        index = torch.searchsorted(self.thresholds.to(device), uniform, right=True)
        return self._values.to(device)[index]

    def digest(self) -> str:
        """The law as the bits that decide rows: equal digests draw equal distances."""
        return f"{self.support.tolist()}:{self.thresholds.tolist()}"


@dataclass(kw_only=True, slots=True)
class DistanceLaw(abc.ABC):
    """Base of the laws' configurations.

    A law is checked in ``table``, where the address by which the user set it is known.
    """

    name: ClassVar[str]
    """The key in DISTANCE_LAWS."""

    @abc.abstractmethod
    def table(self, lattice: np.ndarray, field: str = "task.distance") -> LawTable:
        """Restrict the law to a layout's lattice.

        Args:
            lattice: ascending int64 distances the layout can produce.
            field: how the user addresses this law, for errors.

        Raises:
            ValueError: a point off the lattice; names the nearest that is on it.
        """


@dataclass(kw_only=True, slots=True)
class Fixed(DistanceLaw):
    """A few distances, equally likely."""

    name: ClassVar[str] = "fixed"

    values: list[int] = dataclass_field(default_factory=list)
    """The distances, each once."""

    def table(self, lattice: np.ndarray, field: str = "task.distance") -> LawTable:
        values = list(self.values)
        if not values:
            raise ValueError(f"{field}.values=[] must name at least one distance")
        for value in values:
            check_int(f"{field}.values", value, 0)
            _check_on_lattice(f"{field}.values", value, lattice)
        if len(set(values)) < len(values):
            raise ValueError(f"{field}.values={values} must name each distance once")
        return LawTable(np.array(sorted(values)), [1] * len(values))


@dataclass(kw_only=True, slots=True)
class _Interval(DistanceLaw):
    """Laws on every lattice point of lo..hi."""

    minimum: ClassVar[int] = 1
    """Smallest lo for which every weight is finite."""

    lo: int = MISSING
    """Smallest distance; a point of the layout's lattice."""
    hi: int = MISSING
    """Largest distance; a point of the layout's lattice."""

    @abc.abstractmethod
    def weights(self, support: list[int]) -> list[int]:
        """Relative integer weights of the support's points."""

    def table(self, lattice: np.ndarray, field: str = "task.distance") -> LawTable:
        check_int(f"{field}.lo", self.lo, self.minimum)
        check_int(f"{field}.hi", self.hi, 0)
        if self.lo > self.hi:
            raise ValueError(f"{field}.lo={self.lo} must not exceed {field}.hi={self.hi}")
        _check_on_lattice(f"{field}.lo", self.lo, lattice)
        _check_on_lattice(f"{field}.hi", self.hi, lattice)
        support = lattice[(lattice >= self.lo) & (lattice <= self.hi)]
        weights = self.weights(support.tolist())
        drawn = [weight > 0 for weight in weights]
        return LawTable(support[drawn], [weight for weight in weights if weight > 0])


@dataclass(kw_only=True, slots=True)
class Uniform(_Interval):
    """Every distance from lo to hi equally likely."""

    name: ClassVar[str] = "uniform"
    minimum: ClassVar[int] = 0

    def weights(self, support: list[int]) -> list[int]:
        return [1] * len(support)


@dataclass(kw_only=True, slots=True)
class LogUniform(_Interval):
    """p(s) ~ 1/s from lo to hi."""

    name: ClassVar[str] = "log_uniform"

    def weights(self, support: list[int]) -> list[int]:
        return [(1 << WEIGHT_BITS) // s for s in support]


@dataclass(kw_only=True, slots=True)
class PowerLaw(_Interval):
    """p(s) ~ s^-alpha from lo to hi."""

    name: ClassVar[str] = "power_law"

    alpha: float = 1.0
    """Exponent; 1 is log_uniform, 0 is uniform, negative favours long distances."""

    def weights(self, support: list[int]) -> list[int]:
        context = Context(prec=60)
        alpha = Decimal(repr(self.alpha))
        logs = [context.multiply(-alpha, context.ln(Decimal(s))) for s in support]
        # Relative to the largest weight, so that no exponent over- or underflows everywhere.
        top = max(logs)
        scale = Decimal(1 << WEIGHT_BITS)
        return [
            int(context.multiply(scale, context.exp(context.subtract(log, top)))) for log in logs
        ]

    def table(self, lattice: np.ndarray, field: str = "task.distance") -> LawTable:
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int | float):
            raise ValueError(f"{field}.alpha={self.alpha!r} must be a number")
        if not math.isfinite(self.alpha):
            raise ValueError(f"{field}.alpha={self.alpha} must be finite")
        return _Interval.table(self, lattice, field)


@dataclass(kw_only=True, slots=True)
class Empirical(DistanceLaw):
    """A measured histogram: a CSV file with the header ``distance,count``."""

    name: ClassVar[str] = "empirical"

    path: str = MISSING
    """The file; read once, when the task is built."""

    def table(self, lattice: np.ndarray, field: str = "task.distance") -> LawTable:
        counts = _read_histogram(self.path, f"{field}.path")
        for distance in counts:
            _check_on_lattice(f"{field}.path={self.path!r}: distance", distance, lattice)
        support = sorted(counts)
        return LawTable(np.array(support), [counts[distance] for distance in support])


def _read_histogram(path: str, field: str) -> dict[int, int]:
    """Positive counts by distance."""
    where = f"{field}={path!r}"
    try:
        lines = list(csv.reader(Path(path).read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise ValueError(f"{where} cannot be read: {reason}") from None
    if not lines or [cell.strip() for cell in lines[0]] != ["distance", "count"]:
        raise ValueError(f"{where} is no histogram: its first line must be 'distance,count'")
    counts: dict[int, int] = {}
    for number, cells in enumerate(lines[1:], start=2):
        if not cells:
            continue
        try:
            distance, count = (int(cell) for cell in cells)
        except ValueError:
            raise ValueError(
                f"{where} line {number} is {','.join(cells)!r}: need two integers"
            ) from None
        if distance < 0 or count < 0:
            raise ValueError(f"{where} line {number} is {distance},{count}: must not be negative")
        if distance in counts:
            raise ValueError(f"{where} line {number} repeats distance {distance}")
        counts[distance] = count
    counts = {distance: count for distance, count in counts.items() if count > 0}
    if not counts:
        raise ValueError(f"{where} is no histogram: it has no positive count")
    return counts


def _check_on_lattice(field: str, value: int, lattice: np.ndarray) -> None:
    # In Python's integers: the user's may not fit into the array's.
    nearest = min(lattice.tolist(), key=lambda point: abs(point - value))
    if nearest == value:
        return
    step = int(lattice[1] - lattice[0]) if len(lattice) > 1 else 1
    every = f" in steps of {step}" if step > 1 else ""
    raise ValueError(
        f"{field}={value} is off the layout's lattice, "
        f"{lattice[0]}..{lattice[-1]}{every}: the nearest valid is {nearest}"
    )


DISTANCE_LAWS: dict[str, type[DistanceLaw]] = {
    law.name: law for law in (Fixed, Uniform, LogUniform, PowerLaw, Empirical)
}
