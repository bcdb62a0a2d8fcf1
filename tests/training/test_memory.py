"""Peak memory, measured in processes of their own: what a test before it freed would hide it."""

import subprocess
import sys

import pytest

PRELUDE = """
import numpy as np, torch
from zoology_bench.training.memory import peak_bytes, reset_peak
CPU = torch.device("cpu")
SIZE = 64 << 20
"""


def run(code: str) -> None:
    command = [sys.executable, "-c", PRELUDE + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_peak_covers_an_allocation():
    run(
        """
reset_peak(CPU)
before = peak_bytes(CPU)
np.ones(SIZE, dtype=np.uint8)
assert peak_bytes(CPU) >= before + SIZE // 2
"""
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset the mark")
def test_peak_of_an_earlier_run_is_forgotten():
    run(
        """
np.ones(SIZE, dtype=np.uint8)
high = peak_bytes(CPU)
reset_peak(CPU)
assert peak_bytes(CPU) <= high - SIZE // 2
"""
    )
