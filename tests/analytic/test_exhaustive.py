"""All rows of five tokens over two keys, two values and a blank, against one loop in Python."""

from collections import Counter
from itertools import product

import pytest
import torch

from zoology_bench.analytic import (
    AnalyticAttention,
    AnalyticBaseConv,
    AnalyticEveryLag,
    AnalyticMemory,
    AnalyticModel,
)
from zoology_bench.data.layout import PublicLayout, Vocabulary

LENGTH = 5
VOCABULARY = Vocabulary(size=6, keys=range(2, 4), values=range(4, 6), filler=range(0, 1), absent=1)
LAYOUT = PublicLayout(
    name="odd", vocabulary=VOCABULARY, seq_len=LENGTH, min_distance=1, max_distance=LENGTH - 1
)
ROWS = torch.tensor(list(product((0, 2, 3, 4, 5), repeat=LENGTH)))


def earlier_values(row: list[int], at: int) -> list[int]:
    """Values written for the key at ``at``, oldest first."""
    return [
        row[i + 1]
        for i in range(at)
        if row[at] in VOCABULARY.keys and row[i] == row[at] and row[i + 1] in VOCABULARY.values
    ]


def last_write(values: list[int]) -> int:
    return values[-1] if values else 1


def plurality(values: list[int]) -> int:
    best = Counter(values).most_common(2)
    tie = len(best) == 2 and best[0][1] == best[1][1]
    return -1 if tie else best[0][0] if best else 1


def base_conv(**form: str) -> AnalyticModel:
    lags = range(1, LENGTH)
    return AnalyticBaseConv(LAYOUT, len(lags), "given", lags=lags, **form)


def memory(rule: str) -> AnalyticModel:
    return AnalyticMemory(LAYOUT, rule, torch.Generator().manual_seed(0), d_key=2)


CASES = {
    "token": (base_conv(), last_write),
    "operator": (base_conv(implementation="operator"), last_write),
    "every-lag": (AnalyticEveryLag(LAYOUT), last_write),
    "delta-rule": (memory("delta_rule"), last_write),
    "linear-attention": (memory("linear_attention"), plurality),
    "attention": (AnalyticAttention(LAYOUT), plurality),
    "attention-softmax": (AnalyticAttention(LAYOUT, read_out="softmax"), plurality),
    "attention-literal": (AnalyticAttention(LAYOUT, implementation="literal"), plurality),
}


@pytest.mark.parametrize("name", CASES)
def test_every_row_is_answered_as_the_statement_says(name: str) -> None:
    model, rule = CASES[name]
    everywhere = torch.arange(LENGTH).expand(len(ROWS), -1)
    predicted = model.predict(ROWS, everywhere)
    expected = torch.tensor(
        [[rule(earlier_values(row, at)) for at in range(LENGTH)] for row in ROWS.tolist()]
    )
    assert (expected >= 4).sum() > 500
    assert torch.equal(predicted, expected)


def test_the_literal_form_on_every_fiftieth_row() -> None:
    model = base_conv(implementation="literal")
    rows = ROWS[7::50]
    everywhere = torch.arange(LENGTH).expand(len(rows), -1)
    expected = [
        [last_write(earlier_values(row, at)) for at in range(LENGTH)] for row in rows.tolist()
    ]
    assert model.predict(rows, everywhere).tolist() == expected
