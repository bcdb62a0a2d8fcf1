"""What the data bench times is what it says: nothing of one timed piece runs into the next."""

import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from zoology_bench.data.stream import BlockStream
from zoology_bench.tasks.mqar import MQAR

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_data.py"
TASK = MQAR(layout="official", vocab_size=64, seq_len=32, n_kv_pairs=4)


@pytest.fixture
def bench_data(monkeypatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_data", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_data", module)
    spec.loader.exec_module(module)
    return module


def test_no_block_is_made_after_a_timed_piece(bench_data, monkeypatch):
    made = []
    usual = BlockStream._make
    monkeypatch.setattr(BlockStream, "_make", lambda self, i: made.append(i) or usual(self, i))
    bench_data.consume(TASK, 3)
    assert made and not [t for t in threading.enumerate() if t.name.startswith("rows")]


def test_memory_is_that_of_the_streaming_process_alone(bench_data, monkeypatch):
    """A peak that is inherited from the parent would be the same in any child."""
    peaks = []
    monkeypatch.setattr(bench_data, "peak_bytes", lambda device: peaks.append(device.type) or 7)
    assert bench_data.peak_memory(TASK, 128) == 7
    assert peaks == ["cpu"]
