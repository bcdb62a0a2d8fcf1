"""Laws of the interaction distance: probabilities on a lattice of integers, turned into integer thresholds once."""

import abc
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

THRESHOLD_BITS = 32


class LawTable:
    """A law over integers as integer thresholds: probability error below 2^-32 per point.

    Attributes:
        support: (n,) int64 ascending distances of positive probability.
        probabilities: (n,) float64, host only, for floors and tests; never used to draw.
    """

    def __init__(self, support: np.ndarray, weights: np.ndarray) -> None:
        self.support = np.asarray(support, dtype=np.int64)
        self.probabilities = np.asarray(weights, dtype=np.float64) / np.sum(weights)
        cumulative = np.rint(np.cumsum(self.probabilities) * 2.0**THRESHOLD_BITS)
        cumulative[-1] = 2.0**THRESHOLD_BITS
        self._thresholds = torch.from_numpy(cumulative.astype(np.int64))
        self._values = torch.from_numpy(self.support)

    def sample(self, bits32: Tensor) -> Tensor:
        """int64 distances, same shape, from 32 random bits each."""
        device = bits32.device
        uniform = bits32.to(torch.int64) & ((1 << THRESHOLD_BITS) - 1)
        index = torch.searchsorted(self._thresholds.to(device), uniform, right=True)
        return self._values.to(device)[index]


@dataclass(kw_only=True, slots=True)
class DistanceLaw(abc.ABC):
    """Base of the laws' configurations."""

    @abc.abstractmethod
    def table(self, lattice: np.ndarray, field: str = "task.distance") -> LawTable:
        """Restrict the law to a layout's lattice.

        Args:
            lattice: ascending int64 distances the layout can produce.
            field: how the user addresses this law, for errors.

        Raises:
            ValueError: a point off the lattice; names the nearest that is on it.
        """
