"""Which component of a mixture a training step draws its batch from."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch

from zoology_bench.data.batch import Batch
from zoology_bench.data.random import draws, row_keys


class Mixture:
    """Independent weighted draws, one per step: a pure function of (seed, step).

    The n-th batch of a component is the same whatever the other components are asked for, and
    nothing has to be saved to resume.
    """

    def __init__(self, weights: Sequence[float], seed: int, n_steps: int) -> None:
        """Draw the components of ``n_steps`` steps.

        Args:
            weights: one positive number per component; only their ratios matter.
            seed: the run's seed.
            n_steps: steps of the longest possible run (16 bytes each).

        Raises:
            ValueError: no weights, or one that is not positive and finite.
        """
        if not weights or not all(0 < weight < float("inf") for weight in weights):
            raise ValueError(f"mixture weights {list(weights)} must be positive and finite")
        total = sum(weights)
        edges = [round(cumulated / total * (1 << 32)) for cumulated in accumulate(weights)]
        keys = row_keys("mixture", "train", seed, torch.arange(n_steps))
        bits = draws(keys, stream=0, n=1).flatten() & 0xFFFFFFFF
        self._component = torch.bucketize(bits, torch.tensor(edges[:-1]), right=True)
        one_hot = self._component[:, None] == torch.arange(len(weights))
        earlier = one_hot.cumsum(0) - one_hot.long()
        self._local_step = earlier.gather(1, self._component[:, None]).flatten()

    def at(self, step: int) -> tuple[int, int]:
        """(component, how many earlier steps drew the same component) of a step."""
        return int(self._component[step]), int(self._local_step[step])


def mixed_batches(
    components: Sequence[Callable[[int], Batch]], mixture: Mixture
) -> Callable[[int], Batch]:
    """``batches(step)`` of a mixture, from each component's own ``batches(local step)``."""

    def batches(step: int) -> Batch:
        component, local_step = mixture.at(step)
        return components[component](local_step)

    return batches
