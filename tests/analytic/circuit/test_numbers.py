"""Exact in every dtype by shifts; by FFT only with a cure, which is why runs use shifts."""

import pytest
import torch
from torch import Tensor

from tests.analytic.circuit.rows import IDS, VARIANTS, distinct_rows, last_write_wins, random_rows
from zoology_bench.analytic import BaseConvCircuit
from zoology_bench.analytic.circuit.layer import causal_fft, cyclic_fft, rounded

CASES = list(zip(VARIANTS, IDS, strict=True))


def rows_of(n_triples: int) -> Tensor:
    return torch.cat(
        [
            distinct_rows(2, n_triples, 64, seed=0),
            random_rows(2, n_triples, 64, n_keys=3, seed=1),
        ]
    )


@pytest.mark.parametrize(("causal", "route"), VARIANTS, ids=IDS)
def test_every_layer_is_bit_equal_in_every_dtype(causal, route):
    model = BaseConvCircuit(5, 64, causal, route)
    rows = rows_of(5)
    narrow = (torch.float32, torch.bfloat16, torch.float16)
    runs = [model.states(rows, dtype) for dtype in narrow]
    seen: set[float] = set()
    for (_, exact), *others in zip(model.states(rows, torch.float64), *runs, strict=True):
        seen |= set(exact.unique().tolist())
        for dtype, (_, state) in zip(narrow, others, strict=True):
            assert state.dtype == dtype
            assert torch.equal(state.double(), exact)
    assert seen == {-1.0, 0.0, 1.0, 2.0}


@pytest.mark.slow
@pytest.mark.parametrize(("causal", "route"), VARIANTS, ids=IDS)
def test_bfloat16_answers_32_triples(causal, route):
    model = BaseConvCircuit(32, 64, causal, route)
    rows = rows_of(32)
    *_, (_, narrow) = model.states(rows, torch.bfloat16)
    *_, (_, exact) = model.states(rows, torch.float64)
    assert torch.equal(narrow.double(), exact)


def error_of(model: BaseConvCircuit, rows: Tensor) -> float:
    """Largest distance of a hit or value bit, before rounding, from the true one."""
    expected = last_write_wins(rows)
    n_bits = model.circuit.n_bits
    bits = [expected.clamp(min=0) >> (n_bits - 1 - i) & 1 for i in range(n_bits)]
    truth = torch.stack([(expected >= 0).long(), *bits], dim=1)
    *_, (_, state) = model.states(rows)
    return (model.read_out(state) - truth).abs().max().item()


def by_fft(n_triples: int, causal: bool, route: str, *, clean: bool = False) -> BaseConvCircuit:
    model = BaseConvCircuit(n_triples, 64, causal, route, clean=clean)
    model.convolve = causal_fft if causal else cyclic_fft
    return model


@pytest.mark.parametrize(
    ("causal", "route"),
    [pytest.param(*v, marks=[pytest.mark.slow] if v[0] else [], id=i) for v, i in CASES],
)
def test_by_fft_bits_are_off_and_two_cures_bring_them_back(causal, route):
    rows = rows_of(8)
    model, clean = by_fft(8, causal, route), by_fft(8, causal, route, clean=True)
    error = error_of(model, rows)
    assert 1e-6 < error < 0.2
    assert torch.equal(model.predict(rows), last_write_wins(rows))
    assert error_of(clean, rows) < error / 2
    assert torch.equal(clean.predict(rows), last_write_wins(rows))
    model.convolve = rounded(model.convolve)
    assert error_of(model, rows) == 0


@pytest.mark.slow
def test_by_fft_a_deep_circuit_is_wrong_without_a_cure():
    rows = rows_of(32)
    expected = last_write_wins(rows)
    model, clean = by_fft(32, True, "sort"), by_fft(32, True, "sort", clean=True)
    assert (model.predict(rows) != expected)[expected >= 0].double().mean() > 0.5
    assert torch.equal(clean.predict(rows), expected)
    model.convolve = rounded(model.convolve)
    assert error_of(model, rows) == 0
