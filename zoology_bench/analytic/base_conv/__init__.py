"""The analytic BaseConv of Theorem 4.5, by the proof's stack, by kernels and by integers."""

from zoology_bench.analytic.base_conv.config import AnalyticBaseConvConfig
from zoology_bench.analytic.base_conv.model import AnalyticBaseConv

__all__ = ["AnalyticBaseConv", "AnalyticBaseConvConfig"]
