"""Constructions that recall without training, and what they will recall."""

from zoology_bench.analytic.attention import AnalyticAttention, AnalyticAttentionConfig
from zoology_bench.analytic.base import AnalyticConfig, AnalyticModel, Size
from zoology_bench.analytic.base_conv import AnalyticBaseConv, AnalyticBaseConvConfig
from zoology_bench.analytic.circuit import BaseConvCircuit, BaseConvCircuitConfig
from zoology_bench.analytic.coverage import coverage
from zoology_bench.analytic.every_lag import AnalyticEveryLag, AnalyticEveryLagConfig
from zoology_bench.analytic.memory import (
    AnalyticDeltaRuleConfig,
    AnalyticLinearAttentionConfig,
    AnalyticMemory,
)

ANALYTIC: dict[str, type[AnalyticConfig]] = {
    config.name: config
    for config in (
        AnalyticBaseConvConfig,
        AnalyticEveryLagConfig,
        AnalyticAttentionConfig,
        AnalyticLinearAttentionConfig,
        AnalyticDeltaRuleConfig,
        BaseConvCircuitConfig,
    )
}
"""Every construction's configuration by name."""

__all__ = [
    "ANALYTIC",
    "AnalyticAttention",
    "AnalyticAttentionConfig",
    "AnalyticBaseConv",
    "AnalyticBaseConvConfig",
    "AnalyticConfig",
    "AnalyticDeltaRuleConfig",
    "AnalyticEveryLag",
    "AnalyticEveryLagConfig",
    "AnalyticLinearAttentionConfig",
    "AnalyticMemory",
    "AnalyticModel",
    "BaseConvCircuit",
    "BaseConvCircuitConfig",
    "Size",
    "coverage",
]
