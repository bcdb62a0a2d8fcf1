"""Result rows in, tables and figures out. Needs no torch."""

from zoology_bench.reporting.files import OutputError
from zoology_bench.reporting.load import load_results
from zoology_bench.reporting.store import RunStore

__all__ = ["OutputError", "RunStore", "load_results"]
