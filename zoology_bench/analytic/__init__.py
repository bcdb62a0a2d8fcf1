"""Constructions that recall without training, and what they will recall."""

from zoology_bench.analytic.base import AnalyticConfig, AnalyticModel, Size
from zoology_bench.analytic.base_conv import AnalyticBaseConv, AnalyticBaseConvConfig
from zoology_bench.analytic.coverage import coverage

ANALYTIC = {"analytic_base_conv": AnalyticBaseConvConfig}
"""Every construction's configuration by name."""

__all__ = [
    "ANALYTIC",
    "AnalyticBaseConv",
    "AnalyticBaseConvConfig",
    "AnalyticConfig",
    "AnalyticModel",
    "Size",
    "coverage",
]
