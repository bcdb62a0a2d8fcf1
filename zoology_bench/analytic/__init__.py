"""Constructions that recall without training, and what they will recall."""

from zoology_bench.analytic.base_conv import AnalyticBaseConv, AnalyticBaseConvConfig
from zoology_bench.analytic.circuit import BaseConvCircuit, BaseConvCircuitConfig
from zoology_bench.analytic.coverage import coverage

__all__ = [
    "AnalyticBaseConv",
    "AnalyticBaseConvConfig",
    "BaseConvCircuit",
    "BaseConvCircuitConfig",
    "coverage",
]
