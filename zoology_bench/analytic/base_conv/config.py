"""Configuration of the analytic BaseConv."""

from dataclasses import dataclass, field
from typing import ClassVar

from zoology_bench.analytic.base import AnalyticConfig
from zoology_bench.analytic.base_conv.model import AnalyticBaseConv, check_names
from zoology_bench.analytic.selection import CAUSAL_SELECTIONS, check_lags
from zoology_bench.data.layout import PublicLayout
from zoology_bench.validation import check_int


@dataclass(kw_only=True, slots=True)
class AnalyticBaseConvConfig(AnalyticConfig):
    """Configuration of the construction; it learns nothing."""

    name: ClassVar[str] = "analytic_base_conv"

    n_distances: int = 8
    """Lags it looks at, J (the paper's t)."""
    selection: str = "cross"
    """cross, raw, prefix_causal or given."""
    lags: list[int] = field(default_factory=list)
    """The n_distances lags of selection=given; empty otherwise."""
    implementation: str = "token"
    """token, operator or literal: the same answers by integers, kernels or the proof's stack."""
    autocorrelation: str = "compare"
    """How lags are counted: compare or fft; the counts are the same."""
    kernel: str = "shift"
    """Convolution of implementation=operator: shift or fft."""

    def __post_init__(self) -> None:
        check_int("model.n_distances", self.n_distances, 1)
        check_names(self.selection, self.implementation, self.autocorrelation, self.kernel)
        check_lags(self.lags, self.n_distances, self.selection, "model.lags")

    @property
    def mixer_label(self) -> str:
        how = "" if self.implementation == "token" else f" {self.implementation}"
        return f"{self.selection} J={self.n_distances}{how}"

    @property
    def causal(self) -> bool:
        return self.selection in CAUSAL_SELECTIONS

    def build(self, layout: PublicLayout) -> AnalyticBaseConv:
        return AnalyticBaseConv(
            layout,
            self.n_distances,
            self.selection,
            lags=self.lags,
            implementation=self.implementation,
            autocorrelation=self.autocorrelation,
            kernel=self.kernel,
        )
