import math

import pytest
import torch

from tests.training.toy import toy_rows
from zoology_bench.data.batch import IGNORE, Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.training.errors import ERROR_KINDS, classify_errors
from zoology_bench.training.metrics import (
    NO_ANSWER,
    Tallies,
    bin_label,
    bin_of,
    half_octave_edges,
    tally,
)

VOCABULARY = Vocabulary.reserved(26, n_filler_tokens=4)
"""0 blank, 1 absent, 2..5 filler, 6..15 keys, 16..25 values."""


def row(inputs, asks):
    """One row from its tokens and {query position: (answer, key position, pairs since)}."""
    targets = [IGNORE] * len(inputs)
    for position, (answer, _, _) in asks.items():
        targets[position] = answer
    return Batch(
        inputs=torch.tensor([inputs]),
        targets=torch.tensor([targets]),
        query_pos=torch.tensor([list(asks)]),
        key_pos=torch.tensor([[key_pos for _, key_pos, _ in asks.values()]]),
        binding_distance=torch.tensor([[since for _, _, since in asks.values()]]),
    )


#             0  1   2  3   4  5   6  7  8   9 10  11 12
REBOUND_ROW = [6, 16, 7, 17, 6, 18, 2, 6, 8, 19, 9, 7, 0]
"""6->16, 7->17, 6->18 (re-bound), filler 2, ask 6, 8->19, ask 9 (absent), ask 7."""
REBOUND = row(REBOUND_ROW, {7: (18, 4, 0), 10: (1, -1, -1), 11: (17, 2, 2)})


@pytest.mark.parametrize(
    ("query", "prediction", "kind"),
    [
        (0, 18, None),
        (0, 16, "stale_value"),
        (0, 17, "misbinding"),
        (0, 19, "out_of_row_value"),
        (0, 25, "out_of_row_value"),
        (0, 6, "key_token"),
        (0, 15, "key_token"),
        (0, 2, "other"),
        (0, 0, "other"),
        (0, 1, "other"),
        (0, NO_ANSWER, "other"),
        (1, 1, None),
        (1, 16, "misbinding"),
        (1, 19, "misbinding"),
        (1, 20, "out_of_row_value"),
        (2, 17, None),
        (2, 16, "misbinding"),
        (2, 18, "misbinding"),
        (2, 19, "misbinding"),
        (2, 1, "other"),
    ],
    ids=lambda value: str(value),
)
def test_every_answer_has_one_kind(query, prediction, kind):
    predictions = REBOUND.answers.clone()
    predictions[0, query] = prediction
    kinds = classify_errors(predictions, REBOUND, VOCABULARY)[0].tolist()
    expected = 0 if kind is None else 1 + ERROR_KINDS.index(kind)
    assert kinds[query] == expected
    assert [k for i, k in enumerate(kinds) if i != query] == [0, 0]


def test_asked_key_before_a_value_is_not_a_pair():
    #           6->16, ask 7 right before the pair's... value 20 that is no pair's; ask 6
    batch = row([7, 17, 6, 16, 7, 20, 6], {4: (17, 0, 1), 6: (16, 2, 0)})
    kinds = classify_errors(torch.tensor([[17, 20]]), batch, VOCABULARY)
    assert ERROR_KINDS[kinds[0, 1] - 1] == "out_of_row_value"


def slow_kind(batch, r, q, prediction):
    """The taxonomy read off one row from left to right."""
    inputs, position = batch.inputs[r].tolist(), int(batch.query_pos[r, q])
    asked = set(batch.query_pos[r].tolist())
    key, answer = inputs[position], int(batch.answers[r, q])
    held = [
        (inputs[t], inputs[t + 1])
        for t in range(position - 1)
        if inputs[t] in VOCABULARY.keys and inputs[t + 1] in VOCABULARY.values and t not in asked
    ]
    holders = {value: holder for holder, value in held}
    if prediction == answer:
        return 0
    if prediction in holders:
        return 2 if holders[prediction] == key else 1
    if prediction in VOCABULARY.values:
        return 3
    return 4 if prediction in VOCABULARY.keys else 5


def test_fast_taxonomy_agrees_with_a_scan_of_every_row():
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        # Arbitrary token soup: also reaches what no layout produces.
        inputs = torch.randint(2, 26, (8, 14), generator=draw)
        query_pos = torch.rand(8, 14, generator=draw).argsort(1)[:, :4]
        targets = torch.full_like(inputs, IGNORE)
        targets.scatter_(1, query_pos, torch.randint(16, 26, (8, 4), generator=draw))
        none = torch.full_like(query_pos, -1)
        batch = Batch(
            inputs=inputs,
            targets=targets,
            query_pos=query_pos,
            key_pos=none,
            binding_distance=none,
        )
        predictions = torch.randint(-1, 26, (8, 4), generator=draw)
        expected = [
            [slow_kind(batch, r, q, int(predictions[r, q])) for q in range(4)] for r in range(8)
        ]
        assert classify_errors(predictions, batch, VOCABULARY).tolist() == expected


def test_half_octave_bins_are_integer_and_complete():
    assert half_octave_edges(64) == [0, 1, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64]
    assert [bin_label(i) for i in range(8)] == ["0", "1", "2", "3", "4-5", "6-7", "8-11", "12-15"]
    for distance in range(2000):
        low, _, high = bin_of(distance).partition("-")
        assert int(low) <= distance <= int(high or low)


def by_slice(tallies):
    return {(t.slice_key, t.slice_value, t.metric): t for t in tallies}


def test_slices_count_queries_by_distance_and_leave_absent_ones_out():
    predictions = torch.tensor([[18, 16, 17]])  # right, wrong about the absent key, right
    found = by_slice(tally(predictions, REBOUND, VOCABULARY))
    counts = {key: (t.hits, t.n) for key, t in found.items() if key[2] == "accuracy"}
    assert counts == {
        ("", "", "accuracy"): (2, 3),
        ("absent", "no", "accuracy"): (2, 2),
        ("absent", "yes", "accuracy"): (0, 1),
        ("distance", "3", "accuracy"): (1, 1),
        ("distance", "8-11", "accuracy"): (1, 1),
        ("binding_distance", "0", "accuracy"): (1, 1),
        ("binding_distance", "2", "accuracy"): (1, 1),
    }
    assert found["", "", "misbinding"].hits == 1


def test_no_absent_slice_without_absent_queries():
    assert not any(t.slice_key == "absent" for t in tally(*perfect(), VOCABULARY_OF_TOY))


VOCABULARY_OF_TOY = Vocabulary.reserved(22, n_filler_tokens=4)


def perfect():
    batch = toy_rows(0, 64)
    return batch.answers, batch


def test_error_shares_and_accuracy_sum_to_one():
    batch = toy_rows(0, 64)
    predictions = torch.randint(-1, 22, (64, 4), generator=torch.Generator().manual_seed(0))
    found = by_slice(tally(predictions, batch, VOCABULARY_OF_TOY))
    shares = [found["", "", metric].value for metric in ("accuracy", *ERROR_KINDS)]
    assert sum(shares) == pytest.approx(1)
    assert all(share > 0 for share, kind in zip(shares, ("accuracy", *ERROR_KINDS), strict=True)
               if kind != "stale_value")  # fmt: skip


def test_batching_does_not_change_the_tallies():
    batch = toy_rows(3, 60)
    predictions = torch.randint(0, 22, (60, 4), generator=torch.Generator().manual_seed(1))
    pieces = Tallies(VOCABULARY_OF_TOY)
    for start in range(0, 60, 17):
        pieces.add(batch[start : start + 17], predictions[start : start + 17])
    assert pieces.rows() == tally(predictions, batch, VOCABULARY_OF_TOY)


def unequal_rows(n_rows, seed):
    """Distances of two bins per row in varying numbers, hits strongly correlated within a row."""
    draw = torch.Generator().manual_seed(seed)
    batch = toy_rows(seed, n_rows)
    skill = torch.rand(n_rows, 1, generator=draw).square()
    right = torch.rand(n_rows, 4, generator=draw) < skill
    return torch.where(right, batch.answers, NO_ANSWER), batch


def bootstrap_se(hits, n, seed, n_samples=4000):
    """Standard deviation of sum(hits) / sum(n) over resampled rows."""
    draw = torch.Generator().manual_seed(seed)
    picks = torch.randint(0, len(hits), (n_samples, len(hits)), generator=draw)
    return float((hits[picks].sum(1) / n[picks].sum(1)).std())


@pytest.mark.parametrize("slice_value", ["", "4-5", "8-11"])
def test_standard_error_agrees_with_a_bootstrap_over_rows(slice_value):
    predictions, batch = unequal_rows(400, seed=2)
    low, _, high = slice_value.partition("-")
    inside = (batch.distance >= int(low or 0)) & (batch.distance <= int(high or 10**6))
    hits = ((predictions == batch.answers) & inside).sum(1).double()
    key = ("distance" if slice_value else "", slice_value, "accuracy")
    found = by_slice(tally(predictions, batch, VOCABULARY_OF_TOY))[key]
    assert found.se == pytest.approx(bootstrap_se(hits, inside.sum(1).double(), 3), rel=0.05)
    assert found.n_rows == int(inside.any(1).sum())


def test_rows_are_clusters_so_repeated_queries_add_no_certainty():
    predictions, batch = unequal_rows(200, seed=5)
    # Each row answers all of its queries as its first: four copies of one piece of information.
    same = torch.where(predictions[:, :1] == batch.answers[:, :1], batch.answers, NO_ANSWER)
    found = by_slice(tally(same, batch, VOCABULARY_OF_TOY))["", "", "accuracy"]
    independent = math.sqrt(found.value * (1 - found.value) / found.n)
    assert found.se == pytest.approx(2 * independent, rel=0.01)
    assert found.n_rows == 200


def test_one_row_has_no_standard_error():
    assert math.isnan(tally(REBOUND.answers, REBOUND, VOCABULARY)[0].se)


def test_hit_probabilities_are_summed_and_exact_guessing_has_no_error():
    batch = toy_rows(0, 50)
    chances = torch.full((50, 4), 1 / 3, dtype=torch.float64)
    found = by_slice(tally(chances, batch, VOCABULARY_OF_TOY))
    overall = found["", "", "accuracy"]
    assert overall.hits == pytest.approx(200 / 3)
    assert overall.value == pytest.approx(1 / 3)
    assert overall.se < 1e-8
    assert {t.metric for t in found.values()} == {"accuracy"}


def test_loss_is_counted_where_given():
    batch = toy_rows(0, 2)
    tallies = Tallies(VOCABULARY_OF_TOY)
    tallies.add(batch, batch.answers, nll=torch.tensor([[1.0, 2, 3, 4], [0, 0, 0, 0]]))
    found = by_slice(tallies.rows())["", "", "loss"]
    assert (found.value, found.hits, found.n) == (1.25, 10, 8)
    assert found.se == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (torch.zeros(50, 3, dtype=torch.int64), r"shape \(50, 3\) but the rows ask \(50, 4\)"),
        (torch.zeros(50, 4), "not integers"),
        (torch.zeros(50, 4, dtype=torch.bool), "not integers"),
    ],
    ids=["shape", "float", "bool"],
)
def test_predictions_of_the_wrong_form_are_refused(predictions, message):
    with pytest.raises(ValueError, match=message):
        Tallies(VOCABULARY_OF_TOY).add(toy_rows(0, 50), predictions)
