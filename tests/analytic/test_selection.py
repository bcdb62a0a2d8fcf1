"""Lags are counted in integers and ranked by count, then by the smaller lag."""

import torch

from zoology_bench.analytic import AnalyticBaseConv
from zoology_bench.analytic.selection import cross_counts, raw_counts, top_lags
from zoology_bench.data.layout import PublicLayout, Vocabulary

TOKENS = torch.tensor([[10, 20, 10, 21, 11, 22, 10, 0, 11, 0]])


def test_cross_counts_every_earlier_write_of_an_asked_key() -> None:
    asked = torch.zeros_like(TOKENS, dtype=torch.bool)
    written = asked.clone()
    asked[0, [6, 8]] = True
    written[0, [0, 2, 4]] = True
    # Key 10 at 6 was written at 0 and 2, key 11 at 8 was written at 4.
    assert cross_counts(TOKENS, asked, written, 30)[0].tolist() == [0, 0, 0, 0, 2, 0, 1, 0, 0, 0]


def test_a_row_that_asks_nothing_counts_nothing() -> None:
    none = torch.zeros_like(TOKENS, dtype=torch.bool)
    assert not cross_counts(TOKENS, none, none, 30).any()


def test_raw_counts_every_pair_of_equal_tokens() -> None:
    # 10 at 0, 2, 6; 11 at 4, 8; 0 at 7, 9.
    assert raw_counts(TOKENS)[0].tolist() == [0, 0, 2, 0, 2, 0, 1, 0, 0, 0]


def test_top_lags_rank_by_count_then_by_the_smaller_lag() -> None:
    counts = torch.tensor([[9, 1, 0, 3, 1, 3]])
    ranked = [top_lags(counts, n, smallest=1)[0].tolist() for n in range(1, 6)]
    # 6 = T fills up: lag 2 never occurs, and lag 0 never counts.
    assert ranked == [[3], [3, 5], [1, 3, 5], [1, 3, 4, 5], [1, 3, 4, 5, 6]]
    assert top_lags(counts, 2, smallest=4)[0].tolist() == [4, 5]


def test_on_triples_a_query_never_reads_its_own_triple() -> None:
    vocabulary = Vocabulary(
        size=30, keys=range(10, 20), values=range(20, 30), filler=range(2, 10), absent=1
    )
    row = torch.tensor([[10, 20, 10, 11, 21, 0]])
    at = torch.tensor([[2]])

    def answer(name: str) -> int:
        layout = PublicLayout(
            name=name, vocabulary=vocabulary, seq_len=6, min_distance=2, max_distance=5
        )
        return int(AnalyticBaseConv(layout, 3).predict(row, at))

    assert answer("stream") == 20
    assert answer("triples") == 1
