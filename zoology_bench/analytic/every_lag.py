"""Input-independent BaseConv with every lag in its kernel: exact, at the price of N^2 c parameters.

The corollary of Theorem 4.5 (arXiv:2312.04927) for t = the number of lags that there are.
Letters: T seq_len, V vocab_size, J number of lags.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from zoology_bench.analytic.base import AnalyticConfig, AnalyticModel, HasPublicLayout, Size
from zoology_bench.analytic.base_conv import AnalyticBaseConv
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout


@dataclass(kw_only=True, slots=True)
class AnalyticEveryLagConfig(AnalyticConfig):
    """Configuration of the construction; it learns nothing and has nothing to choose."""

    name: ClassVar[str] = "analytic_every_lag"

    def build(self, layout: PublicLayout) -> "AnalyticEveryLag":
        return AnalyticEveryLag(layout)


class AnalyticEveryLag(AnalyticModel):
    """Answers every query; its kernel holds each lag that the layout's distances can take.

    Nothing is read off the input, so it is causal: it is the analytic BaseConv with given lags.
    Its ``(4 J + 3) T V + 3 V + J`` numbers grow with T^2 V, for J grows with T.

    Args:
        layout: the task's public description; never answers or key positions.
    """

    def __init__(self, layout: PublicLayout) -> None:
        super().__init__(layout)
        last = min(layout.max_distance, layout.seq_len - 1)
        lags = range(layout.min_distance, last + 1, layout.distance_step)
        self.base_conv = AnalyticBaseConv(layout, len(lags), "given", lags=lags)

    @classmethod
    def for_task(cls, task: HasPublicLayout) -> "AnalyticEveryLag":
        """Bind the construction to a task, of which it sees the public layout alone."""
        return cls(task.public_layout())

    @property
    def n_distances(self) -> int:
        """J."""
        return self.base_conv.n_distances

    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.base_conv.predict(tokens, positions)

    def covered(self, batch: Batch) -> Tensor:
        return self.base_conv.covered(batch)

    def size(self) -> Size:
        return self.base_conv.size()
