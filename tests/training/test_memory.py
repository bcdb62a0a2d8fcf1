import sys

import numpy as np
import pytest
import torch

from zoology_bench.training.memory import peak_bytes, reset_peak

CPU = torch.device("cpu")
SIZE = 64 << 20


def test_peak_covers_an_allocation():
    reset_peak(CPU)
    before = peak_bytes(CPU)
    np.ones(SIZE, dtype=np.uint8)
    assert peak_bytes(CPU) >= before + SIZE // 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset the mark")
def test_peak_of_an_earlier_run_is_forgotten():
    np.ones(SIZE, dtype=np.uint8)
    high = peak_bytes(CPU)
    reset_peak(CPU)
    assert peak_bytes(CPU) <= high - SIZE // 2
