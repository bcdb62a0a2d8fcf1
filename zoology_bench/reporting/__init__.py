"""Result rows in, tables and figures out. Needs no torch."""

from zoology_bench.reporting.files import OutputError, save_results
from zoology_bench.reporting.gate import Comparison, compare_results
from zoology_bench.reporting.load import load_results
from zoology_bench.reporting.store import RunStore

__all__ = [
    "Comparison",
    "OutputError",
    "RunStore",
    "compare_results",
    "load_results",
    "save_results",
]
