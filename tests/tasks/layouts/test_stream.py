"""Stream at its density limit: every accepted row is placed, and what cannot be is named."""

import numpy as np
import pytest

from tests.tasks.layouts.cases import distances, keys, layout
from zoology_bench.tasks.distance import DistanceLaw, Fixed, LogUniform, PowerLaw
from zoology_bench.tasks.layouts.packing import Packer

LAWS = ("uniform", "log_uniform", "long", "nearest", "third", "half", "mixed")


def law(name: str, seq_len: int) -> DistanceLaw | None:
    half, third = seq_len // 2, max(2, seq_len // 3)
    return {
        "uniform": None,
        "log_uniform": LogUniform(lo=2, hi=half),
        "long": PowerLaw(lo=2, hi=half, alpha=-2.0),
        "nearest": Fixed(values=[3]),
        "third": Fixed(values=[third]),
        "half": Fixed(values=[half]),
        "mixed": Fixed(values=sorted({2, third, half})),
    }[name]


def fullest(seq_len: int, n_queries: int) -> int:
    """The most pairs that the density rule lets a row hold."""
    return n_queries + (3 * seq_len // 5 - 3 * n_queries) // 2


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("seq_len", [10, 15, 20, 41])
def test_every_row_at_the_density_limit_is_placed(seq_len, name):
    for n_queries in {1, seq_len // 10, seq_len // 5}:
        bound = layout(
            "stream", seq_len, fullest(seq_len, n_queries), n_queries, law(name, seq_len)
        )
        drawn = distances(bound, 400)
        assert np.isin(drawn, bound.distances.support).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("seq_len", "n_rows"), [(15, 20_000), (40, 10_000), (100, 2_000)])
def test_ten_thousands_of_rows_at_the_density_limit_are_placed(seq_len, n_rows, name):
    n_queries = seq_len // 5
    bound = layout("stream", seq_len, n_queries, n_queries, law(name, seq_len))
    bound.max_attempts = 1
    distances(bound, n_rows)


@pytest.mark.parametrize("n_queries", [1, 2, 5])
def test_every_row_with_as_many_re_bound_keys_as_accepted_is_placed(n_queries):
    seq_len, distance = 64, Fixed(values=[32])
    n_rebound = 1
    while True:
        try:
            bound = layout(
                "stream",
                seq_len,
                n_queries + n_rebound,
                n_queries,
                distance,
                n_rebound=n_rebound,
            )
        except ValueError:
            break
        distances(bound, 300)
        n_rebound += 1
    assert n_rebound > 4


def test_rows_stuck_for_good_are_named():
    bound = layout("stream", 10, 2, 2)
    impossible = Fixed(values=[9]).table(np.arange(2, 10))
    bound._law = impossible
    bound.max_attempts = 2
    with pytest.raises(RuntimeError, match=r"^row 0 has distances \[9, 9\] .*2 attempts"):
        bound.place(keys(3))


def test_what_is_stuck_after_stirring_is_placed_afresh(monkeypatch):
    bound = layout("stream", 15, 3, 3, Fixed(values=[5]))
    bound.n_sweeps = 0
    attempts = []
    first_pass = Packer.__init__

    def spy(self, row_keys, n_cells, beside, attempt):
        attempts.append(attempt)
        first_pass(self, row_keys, n_cells, beside, attempt)

    monkeypatch.setattr(Packer, "__init__", spy)
    distances(bound, 300)
    assert attempts == list(range(len(attempts)))
    assert len(attempts) > 2
