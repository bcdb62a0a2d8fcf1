"""Coverage counts pairs of positions, and needs no task where filler cannot look like a key."""

import pytest
import torch

from tests.analytic.tasks import TASKS, mqar
from zoology_bench.analytic import AnalyticBaseConv, coverage
from zoology_bench.data.batch import IGNORE, Batch


def batch(row: list[int], queries: list[tuple[int, int]]) -> Batch:
    """One row; queries as (position, position of the last write or -1)."""
    inputs = torch.tensor([row])
    return Batch(
        inputs=inputs,
        targets=torch.full_like(inputs, IGNORE),
        query_pos=torch.tensor([[q for q, _ in queries]]),
        key_pos=torch.tensor([[k for _, k in queries]]),
        binding_distance=torch.zeros(1, len(queries), dtype=torch.int64),
    )


def test_by_hand() -> None:
    # Distances 4, 4 and 9.
    row = [10, 20, 11, 21, 10, 0, 11, 12, 22, 0, 0, 0, 0, 0, 0, 0, 12, 0]
    rows = batch(row, [(4, 0), (6, 2), (16, 7)])
    assert coverage(rows, 1)[0].tolist() == [True, True, False]
    assert coverage(rows, 2)[0].tolist() == [True, True, True]


def test_a_query_sees_its_own_vote_but_none_later_when_causal() -> None:
    # Distances 6, 5 and 5, asked in this order.
    row = [10, 20, 11, 21, 12, 22, 10, 11, 0, 12]
    rows = batch(row, [(6, 0), (7, 2), (9, 4)])
    assert coverage(rows, 1)[0].tolist() == [False, True, True]
    assert coverage(rows, 1, selection="prefix_causal")[0].tolist() == [True, True, True]


def test_an_absent_query_is_covered_unless_something_matches() -> None:
    assert coverage(batch([10, 20, 13, 0], [(2, -1)]), 1)[0].tolist() == [True]
    assert coverage(batch([10, 20, 10, 0], [(2, -1)]), 1)[0].tolist() == [False]


def test_earlier_writes_vote_but_do_not_answer() -> None:
    # Key 10 is written at 0 and 2 and asked at 6; key 11 lies 6 back as well.
    row = [10, 20, 10, 21, 11, 22, 10, 0, 0, 0, 11, 0]
    rows = batch(row, [(6, 2), (10, 4)])
    assert coverage(rows, 1)[0].tolist() == [False, True]
    assert coverage(rows, 2)[0].tolist() == [True, True]


@pytest.mark.parametrize("name", TASKS)
def test_the_task_is_not_needed(name: str) -> None:
    task = TASKS[name]
    rows = task.rows("report", 0, 0, 40)
    for selection in ("cross", "prefix_causal"):
        with_task = coverage(rows, 3, task=task, selection=selection)
        assert torch.equal(coverage(rows, 3, selection=selection), with_task)


def test_filler_that_looks_like_keys_needs_the_task() -> None:
    task = mqar("official", 64, 8, filler="any")
    rows = task.rows("report", 0, 0, 200)
    model = AnalyticBaseConv.for_task(task, 4)
    hits = model.predict(rows.inputs, rows.query_pos) == rows.answers
    disagree_with = (coverage(rows, 4, task=task) != hits).double().mean()
    disagree_without = (coverage(rows, 4) != hits).double().mean()
    assert disagree_with < disagree_without


@pytest.mark.parametrize("selection", ["prefix_causal", "given"])
def test_a_causal_selection_answers_a_question_that_a_value_follows(selection: str) -> None:
    # With any filler a value may follow a question, which a causal model cannot know.
    task = mqar("official", 64, 8, filler="any")
    rows = task.rows("report", 0, 0, 300)
    assert not task.public_layout().asked(rows.inputs).gather(1, rows.query_pos).all()
    lags = (16, 18, 20, 22) if selection == "given" else ()
    model = AnalyticBaseConv.for_task(task, 4, selection, lags=lags)
    hits = model.predict(rows.inputs, rows.query_pos) == rows.answers
    assert torch.equal(hits, model.covered(rows))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_distances": 0}, "n_distances=0 must be at least 1"),
        ({"n_distances": 64}, "n_distances=64 exceeds the 63 lags of task.seq_len=64"),
        ({"n_distances": 2, "selection": "crss"}, "selection='crss' is unknown; did you mean"),
        ({"n_distances": 2, "selection": "raw"}, "selection=raw needs task"),
        (
            {"n_distances": 2, "task": TASKS["triples"]},
            "task.seq_len=60 but the batch has T=64",
        ),
    ],
    ids=["none", "too-many", "typo", "raw", "other-task"],
)
def test_bad_arguments_get_one_line(how: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coverage(TASKS["prefix"].rows("report", 0, 0, 2), **how)
