"""Depth, width, rows and parameters are the formulas', and nothing of that size is held at once."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.analytic.circuit.rows import IDS, VARIANTS, distinct_rows, last_write_wins, random_rows
from zoology_bench.analytic import BaseConvCircuit
from zoology_bench.analytic.circuit.compiler import compile_circuit
from zoology_bench.analytic.circuit.every_lag import every_lag_program
from zoology_bench.analytic.circuit.layer import base_conv, causal_shifts
from zoology_bench.analytic.circuit.plan import ceil_log2
from zoology_bench.analytic.circuit.sizes import Sizes, circuit_sizes

SIZES = [(2, 1), (2, 2), (3, 2), (4, 6), (5, 3), (8, 6), (9, 7)]


def compiled(n_triples: int, n_bits: int, causal: bool, route: str) -> Sizes:
    program = compile_circuit(n_triples, n_bits, padded=causal, route=route).program
    sizes = Sizes(program.n_layers, program.width, program.n_rows)
    assert program.n_params == sizes.n_params
    return sizes


@pytest.mark.parametrize(("causal", "route"), VARIANTS, ids=IDS)
@pytest.mark.parametrize(("n_triples", "n_bits"), SIZES)
def test_formulas_are_what_is_compiled(n_triples, n_bits, causal, route):
    formula = circuit_sizes(n_triples, n_bits, padded=causal, route=route)
    assert compiled(n_triples, n_bits, causal, route) == formula


@pytest.mark.slow
@pytest.mark.parametrize(("causal", "route"), VARIANTS, ids=IDS)
@pytest.mark.parametrize(("n_triples", "n_bits"), [(16, 6), (31, 1), (33, 13), (64, 8), (100, 7)])
def test_formulas_are_what_is_compiled_at_larger_sizes(n_triples, n_bits, causal, route):
    formula = circuit_sizes(n_triples, n_bits, padded=causal, route=route)
    assert compiled(n_triples, n_bits, causal, route) == formula


def test_parameters_are_counted_from_the_tensors():
    program = BaseConvCircuit(3, 8).circuit.program
    counted = 0
    for placed in program.layers:
        layer = program.dense(placed)
        tensors = (layer.weight, layer.gate_bias, layer.filters(), layer.conv_bias)
        counted += sum(tensor.numel() for tensor in tensors)
    assert counted == program.n_params


def test_rows_stay_linear_and_layers_polylogarithmic():
    for n in range(2, 4097):
        padded, cyclic = (circuit_sizes(n, 12, padded=p, route="swaps") for p in (True, False))
        power = n & (n - 1) == 0
        assert padded.n_rows < (5 if power else 9) * 3 * n
        assert cyclic.n_rows <= (1.25 if power else 1.5) * 3 * n
        t, w = ceil_log2(2 * n), 12 + ceil_log2(2 * n)
        assert padded.n_layers < 3 * t * t * ceil_log2(w)


def test_published_sizes():
    """The table of docs/theorem_4_4.md at n = 8, c = 64."""
    got = {
        (causal, route): BaseConvCircuit(8, 64, causal, route).n_params().total
        for causal, route in VARIANTS
    }
    assert got == {
        (True, "swaps"): 2_544_480,
        (True, "sort"): 2_869_515,
        (False, "swaps"): 1_026_000,
        (False, "sort"): 1_114_605,
    }


def test_a_large_circuit_is_held_without_its_dense_tensors():
    program = compile_circuit(128, 8, padded=True, route="swaps").program
    dense_bytes = 4 * program.n_params
    assert dense_bytes > 900e6
    held: dict[int, int] = {}
    for channel in (c for layer in program.layers for c in layer.channels):
        for rows in (channel.gate_bias, channel.conv_bias):
            if isinstance(rows, np.ndarray):
                held[id(rows)] = rows.nbytes
        assert len(channel.taps) <= 2 and len(channel.weights) <= 6
    assert sum(held.values()) < dense_bytes / 400
    widest = max(program.layers, key=lambda layer: len(layer.channels))
    one = program.dense(widest)
    assert sum(x.nbytes for x in (one.weight, one.gate_bias, one.taps, one.conv_bias)) < 8e6


@pytest.mark.slow
def test_a_large_circuit_runs_layer_by_layer():
    code = """
import torch
from tests.analytic.circuit.rows import last_write_wins, random_rows
from zoology_bench.analytic import BaseConvCircuit
from zoology_bench.training.memory import peak_bytes
CPU = torch.device("cpu")
rows = random_rows(2, 128, 256, n_keys=60, seed=0)
before = peak_bytes(CPU)
model = BaseConvCircuit(128, 256)
assert torch.equal(model.predict(rows), last_write_wins(rows))
assert peak_bytes(CPU) - before < 4 * model.n_params().total / 5, peak_bytes(CPU) - before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def every_lag_answers(n_triples: int, vocab_size: int, rows: torch.Tensor) -> torch.Tensor:
    """(B, n, c): what the every-lag program leaves in the last block's query rows."""
    program = every_lag_program(n_triples, vocab_size)
    state = torch.zeros(len(rows), program.width, program.n_rows, dtype=torch.float64)
    one_hot = torch.nn.functional.one_hot(rows, vocab_size).transpose(1, 2)
    state[:, :vocab_size, : 3 * n_triples] = one_hot.double()
    for layer in program.layers:
        state = base_conv(state, program.dense(layer), causal_shifts)
    last = program.n_rows - 6 * n_triples
    slots = [program.slots[f"value{v}"] for v in range(vocab_size)]
    return state[:, slots, last + 2 : last + 3 * n_triples : 3].transpose(1, 2)


def test_the_every_lag_model_is_exact_for_distinct_keys_and_adds_up_rebound_ones():
    rows = distinct_rows(30, 5, 12, seed=0)
    got, expected = every_lag_answers(5, 12, rows), last_write_wins(rows)
    assert torch.equal(got.sum(-1), (expected >= 0).double())
    assert torch.equal(got.argmax(-1)[expected >= 0], expected[expected >= 0])
    rebound = random_rows(30, 5, 12, n_keys=2, seed=1)
    assert every_lag_answers(5, 12, rebound).sum(-1).max() > 1


def test_the_every_lag_model_grows_with_n_squared_c():
    for n_triples, vocab_size in ((2, 4), (6, 10), (9, 5)):
        program = every_lag_program(n_triples, vocab_size)
        assert program.n_params == every_lag_size(n_triples, vocab_size)


def is_smaller(n_triples: int, causal: bool) -> bool:
    """Whether the circuit has fewer parameters at c = 2n; both sides are compiled."""
    circuit = BaseConvCircuit(n_triples, 2 * n_triples, causal)
    return circuit.n_params().total < every_lag_program(n_triples, 2 * n_triples).n_params


def test_the_cyclic_circuit_overtakes_the_every_lag_model_at_23_triples():
    assert [is_smaller(n, causal=False) for n in (8, 22, 23)] == [False, False, True]


@pytest.mark.slow
def test_the_padded_circuit_overtakes_it_at_53_and_for_good_at_75_triples():
    """The padding doubles behind every power of two, hence the way back at 65."""
    smaller = [is_smaller(n, causal=True) for n in (52, 53, 64, 65, 74, 75, 96)]
    assert smaller == [False, True, True, False, False, True, True]
    formula = [
        circuit_sizes(n, ceil_log2(2 * n), padded=True, route="swaps").n_params
        < every_lag_size(n, 2 * n)
        for n in range(75, 2049)
    ]
    assert all(formula)


def every_lag_size(n_triples: int, vocab_size: int) -> int:
    """Five layers of width 3c over 2N (n - 1) rows."""
    width, n_rows = 3 * vocab_size, 6 * n_triples * (n_triples - 1)
    return 5 * (width**2 + 3 * n_rows * width)
