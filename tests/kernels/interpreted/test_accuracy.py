"""Kernels against the oracle in fp64, and the same checks against convolutions with a mistake."""

from itertools import product

import pytest
import torch

from tests.kernels.interpreted.oracle import (
    MUTANTS,
    Cell,
    Conv,
    check,
    in_fp64,
    mutants_of,
    with_gradient_of,
)
from zoology_bench.kernels import fft_conv, shift_conv, toeplitz_conv

FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16
OPS: dict[str, Conv] = {"fft": fft_conv, "toeplitz": toeplitz_conv, "shift": shift_conv}
LENGTHS = (1, 2, 63, 64, 100, 1000, 1024, 3000, 4096, 10_000)

SMALL = [
    Cell(length=1, taps=1, dtype=FP32),
    Cell(length=2, taps=2, dtype=FP16, per_example=True),
    Cell(length=63, taps=63, dtype=BF16),
    Cell(length=64, taps=40, dtype=FP32, per_example=True, batch=3),
    Cell(length=100, taps=100, dtype=BF16, per_example=True),
    Cell(length=100, taps=1, dtype=FP16, batch=18, channels=1, gated=False),
]
CELLS = {
    "fft": [
        *SMALL,
        Cell(length=301, taps=301, dtype=FP16, channels=1),
        Cell(length=1000, taps=999, dtype=BF16),
        Cell(length=2001, taps=2001, dtype=BF16, channels=1),
        Cell(length=2001, taps=1500, dtype=BF16, per_example=True, channels=1),
        Cell(length=1024, taps=1024, dtype=FP32, per_example=True, channels=1),
        Cell(length=3000, taps=3000, dtype=FP32, channels=1),
        Cell(length=4096, taps=300, dtype=BF16, per_example=True, channels=1),
        Cell(length=10_000, taps=10_000, dtype=FP16, channels=1),
    ],
    "toeplitz": [
        *SMALL,
        Cell(length=1000, taps=70, dtype=BF16, channels=1),
        Cell(length=1024, taps=30, dtype=FP32, per_example=True, channels=1),
        Cell(length=3000, taps=20, dtype=FP16, channels=1),
        Cell(length=4096, taps=8, dtype=FP32, channels=1, gated=False),
        Cell(length=10_000, taps=3, dtype=FP32, channels=1, gated=False),
    ],
    "shift": [
        *[Cell(length=c.length, taps=3, dtype=c.dtype, per_example=c.per_example) for c in SMALL],
        Cell(length=1000, taps=4, dtype=BF16),
        Cell(length=1024, taps=2, dtype=FP32, per_example=True),
        Cell(length=3000, taps=3, dtype=FP16),
        Cell(length=4096, taps=2, dtype=BF16, per_example=True, channels=1),
        Cell(length=10_000, taps=3, dtype=FP32, channels=1),
    ],
}
"""Every length, dtype and filter kind, but not each with each: the slow matrix has that."""
MATRIX = [
    (op, Cell(length=n, taps=n if op != "shift" else 3, dtype=dtype, per_example=per, channels=1))
    for op, n, dtype, per in product(OPS, LENGTHS, (FP32, FP16, BF16), (False, True))
    # The Toeplitz product of 10,000 positions is a quarter of a million interpreted blocks.
    if op != "toeplitz" or n <= 4096
]


def name_of(value: object) -> str:
    return str(value)


@pytest.mark.parametrize(
    ("op", "cell"), [(op, cell) for op, cells in CELLS.items() for cell in cells], ids=name_of
)
def test_outputs_and_gradients_are_exact_and_mutants_are_not(op: str, cell: Cell) -> None:
    check(op, lambda *args, **gates: OPS[op](*args, **gates, impl="triton"), cell)
    for name in mutants_of(op, cell):
        for mutant in (MUTANTS[name], with_gradient_of(MUTANTS[name])):
            with pytest.raises(AssertionError, match="error"):
                check(op, in_fp64(mutant), cell)
                pytest.fail(f"{name} passes for a right convolution")


@pytest.mark.slow
@pytest.mark.parametrize(("op", "cell"), MATRIX, ids=name_of)
def test_the_whole_matrix(op: str, cell: Cell) -> None:
    check(op, lambda *args, **gates: OPS[op](*args, **gates, impl="triton"), cell)
