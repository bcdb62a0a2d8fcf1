"""Every answer is the last earlier write's: all inputs of small sizes, random large ones."""

import pytest
import torch

from tests.analytic.circuit.rows import (
    IDS,
    VARIANTS,
    all_rows,
    distinct_rows,
    last_write_wins,
    one_key_many_queries,
    random_rows,
)
from zoology_bench.analytic import BaseConvCircuit

each_variant = pytest.mark.parametrize(("causal", "route"), VARIANTS, ids=IDS)


def test_the_oracle_reads_rows_as_a_person_would():
    row = [5, 1, 5, 5, 2, 5, 7, 3, 5, 5, 4, 7]
    assert last_write_wins(torch.tensor([row])).tolist() == [[-1, 1, 2, 3]]


@each_variant
def test_every_row_of_two_triples_over_four_tokens(causal, route):
    rows = all_rows(2, 4)
    assert len(rows) == 4096
    model = BaseConvCircuit(2, 4, causal, route)
    assert torch.equal(model.predict(rows), last_write_wins(rows))


@each_variant
@pytest.mark.parametrize("n_triples", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_every_row_over_two_tokens(causal, route, n_triples):
    rows = all_rows(n_triples, 2)
    model = BaseConvCircuit(n_triples, 2, causal, route)
    assert torch.equal(model.predict(rows), last_write_wins(rows))


@pytest.mark.slow
@each_variant
def test_every_row_of_three_triples_over_four_tokens(causal, route):
    rows = all_rows(3, 4)
    assert len(rows) == 262144
    model = BaseConvCircuit(3, 4, causal, route)
    assert torch.equal(model.predict(rows), last_write_wins(rows))


def check(n_triples: int, vocab_size: int, causal: bool, route: str, n_rows: int) -> None:
    model = BaseConvCircuit(n_triples, vocab_size, causal, route)
    rows = torch.cat(
        [
            distinct_rows(n_rows, n_triples, vocab_size, seed=0),
            random_rows(n_rows, n_triples, vocab_size, n_keys=vocab_size, seed=1),
            random_rows(n_rows, n_triples, vocab_size, n_keys=3, seed=2),
            one_key_many_queries(n_triples, vocab_size),
        ]
    )
    expected = last_write_wins(rows)
    assert 0.3 < (expected >= 0).double().mean() < 0.95
    assert torch.equal(model.predict(rows), expected)


@each_variant
@pytest.mark.parametrize(("n_triples", "vocab_size"), [(8, 64), (13, 50)])
def test_random_rows_with_distinct_rebound_and_absent_keys(causal, route, n_triples, vocab_size):
    check(n_triples, vocab_size, causal, route, 3)


@pytest.mark.parametrize(("causal", "route"), [VARIANTS[0], VARIANTS[3]], ids=[IDS[0], IDS[3]])
def test_random_rows_of_32_triples(causal, route):
    check(32, 64, causal, route, 2)


@pytest.mark.slow
@each_variant
@pytest.mark.parametrize(("n_triples", "vocab_size"), [(16, 64), (32, 64), (64, 256), (100, 128)])
def test_more_random_rows(causal, route, n_triples, vocab_size):
    check(n_triples, vocab_size, causal, route, 20)


@each_variant
def test_answers_do_not_depend_on_later_triples(causal, route):
    model = BaseConvCircuit(8, 32, causal, route)
    rows = random_rows(8, 8, 32, n_keys=4, seed=3)
    other = random_rows(8, 8, 32, n_keys=4, seed=4)
    changed = torch.cat([rows[:, :12], other[:, 12:]], dim=1)
    before, after = model.predict(rows), model.predict(changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])
