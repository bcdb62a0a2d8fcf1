"""Depth, width, parameters and work are what the statements say, counted on what is built."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tests.analytic.operations import Written
from zoology_bench.analytic import AnalyticAttention, AnalyticBaseConv
from zoology_bench.analytic.attention_layers import TriplesAttention
from zoology_bench.analytic.base_conv.literal import Circuit
from zoology_bench.analytic.base_conv.rows import Rows
from zoology_bench.data import random
from zoology_bench.data.layout import PublicLayout, Vocabulary


def layout(seq_len: int, n_each: int, name: str = "odd") -> PublicLayout:
    vocabulary = Vocabulary(
        size=2 + 2 * n_each,
        keys=range(2, 2 + n_each),
        values=range(2 + n_each, 2 + 2 * n_each),
        filler=range(0, 1),
        absent=1,
    )
    return PublicLayout(
        name=name,
        vocabulary=vocabulary,
        seq_len=seq_len,
        min_distance=2,
        max_distance=seq_len - 1,
    )


def pairs_then_queries(where: PublicLayout, n_rows: int = 2) -> tuple[Tensor, Tensor]:
    """Half of the row writes distinct pairs, the other asks each key half a row later."""
    n_pairs = where.seq_len // 4
    keys, values = where.vocabulary.keys, where.vocabulary.values
    row = torch.zeros(where.seq_len, dtype=torch.int64)
    row[0 : 2 * n_pairs : 2] = torch.arange(n_pairs) + keys.start
    row[1 : 2 * n_pairs : 2] = torch.arange(n_pairs) + values.start
    at = 2 * n_pairs + 2 * torch.arange(n_pairs)
    row[at] = torch.arange(n_pairs) + keys.start
    return row.expand(n_rows, -1).contiguous(), at.expand(n_rows, -1)


@pytest.mark.parametrize("seq_len", [6, 11])
@pytest.mark.parametrize("n_each", [3, 8])
@pytest.mark.parametrize("n_distances", [1, 2, 5])
def test_the_formula_counts_what_the_literal_form_builds(
    seq_len: int, n_each: int, n_distances: int
) -> None:
    where = layout(seq_len, n_each)
    tokens = torch.zeros(1, seq_len, dtype=torch.int64)
    no = torch.zeros_like(tokens, dtype=torch.bool)
    lags = torch.arange(1, n_distances + 1)[None]
    rows = Rows(tokens=tokens, asked=no, written=no, positions=tokens, lags=lags)
    built = Circuit.of(rows, where.vocabulary.size, where.vocabulary.absent).size()
    claimed = AnalyticBaseConv(where, n_distances).size()
    assert built == claimed
    # O(1) layers, whatever N, c and t.
    assert claimed.depth == 5 and claimed.width == where.vocabulary.size


def elements(call: Callable[[], object]) -> int:
    with Written() as counted:
        call()
    return counted.elements


def work(seq_len: int, n_each: int, n_distances: int, **form: str) -> int:
    where = layout(seq_len, n_each)
    tokens, at = pairs_then_queries(where)
    model = AnalyticBaseConv(where, n_distances, **form)
    assert torch.equal(model.predict(tokens, at)[:, 0], tokens[:, 1])
    return elements(lambda: model.predict(tokens, at))


def test_tokens_cost_a_constant_per_lag_and_query(monkeypatch: pytest.MonkeyPatch) -> None:
    # NumPy's sort is invisible to torch; torch's own is counted.
    monkeypatch.setattr(random, "_NUMPY_ON_CPU", False)
    by_lags = [work(64, 40, j) for j in (1, 2, 3, 9)]
    step = by_lags[1] - by_lags[0]
    assert by_lags[2] - by_lags[1] == step and by_lags[3] - by_lags[0] == 8 * step
    # Twice the tokens: twice the elements, up to constants; the vocabulary does not enter.
    assert 1.8 < work(128, 40, 4) / work(64, 40, 4) < 2.2
    assert work(64, 400, 4) == work(64, 40, 4)


@pytest.mark.parametrize("kernel", ["shift", "fft"])
def test_the_operator_costs_a_constant_per_lag_row_and_channel(kernel: str) -> None:
    form = {"implementation": "operator", "kernel": kernel}
    by_lags = [work(32, 16, j, **form) for j in (1, 2, 3)]
    assert by_lags[2] - by_lags[1] == pytest.approx(by_lags[1] - by_lags[0], rel=1e-3)
    per_lag = by_lags[1] - by_lags[0]
    longer = work(64, 16, 2, **form) - work(64, 16, 1, **form)
    wider = work(32, 33, 2, **form) - work(32, 33, 1, **form)
    assert longer / per_lag == pytest.approx(2, rel=0.05)
    assert wider / per_lag == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(("n", "n_each"), [(4, 3), (8, 3), (4, 11)])
def test_attention_multiplies_n_c_squared_and_n_squared_c(n: int, n_each: int) -> None:
    vocabulary = layout(3 * n, n_each, "triples").vocabulary
    layers = TriplesAttention.of(vocabulary)
    tokens = torch.zeros(1, 3 * n, dtype=torch.int64)
    with FlopCounterMode(display=False) as counted:
        layers(tokens, None)
    c = vocabulary.size
    # Three projections 3c -> c of n rows, then n x n scores and their sum.
    assert counted.get_total_flops() == 2 * (3 * n * 3 * c * c + 2 * n * n * c)


def test_attention_by_tokens_never_multiplies() -> None:
    where = layout(24, 8)
    tokens, at = pairs_then_queries(where)
    with FlopCounterMode(display=False) as counted:
        AnalyticAttention(where).predict(tokens, at)
    assert counted.get_total_flops() == 0


def test_the_literal_form_convolves_directly() -> None:
    where = layout(6, 3)
    tokens, at = pairs_then_queries(where, n_rows=1)
    model = AnalyticBaseConv(where, 2, implementation="literal")
    with FlopCounterMode(display=False) as counted:
        model.predict(tokens, at)
    stacked, width = 2 * 6 * 2, where.vocabulary.size
    convolutions = 2 * (2 * width * stacked * stacked)
    assert counted.get_flop_counts()["Global"][torch.ops.aten.convolution] == convolutions


@pytest.mark.slow
def test_predict_scales_to_a_thousand_long_rows() -> None:
    # Elements, not seconds: 64 lags of 256 questions over 1,024 tokens, in chunks.
    where = layout(1024, 4095)
    tokens, at = pairs_then_queries(where, n_rows=1000)
    model = AnalyticBaseConv(where, 64)
    assert elements(lambda: model.predict(tokens, at)) < 1000 * (64 * 256 * 8 + 60 * 1024)


def test_logits_come_in_pieces_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    where = layout(32, 40)
    tokens, at = pairs_then_queries(where, n_rows=9)
    model = AnalyticBaseConv(where, 3)
    whole = model(tokens, at)
    per_row = whole[0].numel() * 4
    monkeypatch.setattr("zoology_bench.analytic.base.MAX_LOGIT_BYTES", 4 * per_row)
    pieces = [piece.clone() for piece in model.logits_in_pieces(tokens, at)]
    assert [len(piece) for piece in pieces] == [4, 4, 1]
    assert torch.equal(torch.cat(pieces), whole)
