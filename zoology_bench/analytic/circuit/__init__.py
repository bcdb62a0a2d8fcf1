"""Theorem 4.4 as a program: recall compiled to BaseConv layers that never look at their input."""

from zoology_bench.analytic.circuit.base_conv_circuit import (
    BaseConvCircuit,
    BaseConvCircuitConfig,
)

__all__ = ["BaseConvCircuit", "BaseConvCircuitConfig"]
