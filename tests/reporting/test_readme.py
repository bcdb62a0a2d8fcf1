import pytest

from tests.reporting.frames import both_splits, failed, frame
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.readme import (
    published_shape_notes,
    result_notes,
    write_results_readme,
)


def base_conv(accuracies, law="slots(a=0.01)"):
    """Summary of a BaseConv with the given accuracy by (seq_len, pairs, width).

    ``law`` may name the length as ``{t}``.
    """
    rows = [
        both_splits(
            accuracy,
            model="base_conv",
            mixer="base_conv",
            seq_len=t,
            n_kv_pairs=p,
            n_queries=p,
            d_model=d,
            distance_law=law.format(t=t),
        )
        for (t, p, d), accuracy in accuracies.items()
    ]
    return summarise(frame(*rows))


def note_of(notes, start):
    return next(note for note in notes if note.startswith(start))


def test_the_readme_says_how_the_numbers_came_about(tmp_path):
    (tmp_path / "accuracy_seq_len.png").write_bytes(b"")
    path = write_results_readme(
        tmp_path,
        experiment="figure2_mini",
        command="zoology-bench experiment=figure2_mini",
        hardware="2 CPU cores",
        commit="abc1234",
        date="2026-01-02",
        versions={"python": "3.11.7", "torch": "2.13.0"},
        notes=["One note."],
    )
    text = path.read_text()
    assert "```\nzoology-bench experiment=figure2_mini\n```" in text
    assert "Run on 2026-01-02 at commit abc1234; 2 CPU cores; python 3.11.7, torch 2.13.0." in text
    assert "- One note." in text
    assert "![accuracy_seq_len.png](accuracy_seq_len.png)" in text
    assert "accuracy_params.png" not in text


def test_failures_and_budgets_are_noted_with_their_place():
    rows = frame(both_splits(0.9, budget_limited=True), failed(seed=1), both_splits(0.9, seed=2))
    notes = result_notes(summarise(rows))
    assert note_of(notes, "Failed").startswith(
        "Failed: attention (recipe) D=64 at T=64 P=4: 1 of 3 runs (loss is NaN at step 12)"
    )
    assert note_of(notes, "Budget-limited") == (
        "Budget-limited: attention (recipe); runs that still improved when the budget ended: "
        "D=64 1/3 at T=64 P=4."
    )
    assert "Seeds per point: 3; all of them are in the numbers." in notes
    assert any("`recipe` initialisation already holds" in note for note in notes)


def test_short_budgets_are_one_note_for_each_model_and_initialisation():
    rows = frame(
        both_splits(0.9, budget_limited=True),
        both_splits(0.9, d_model=128, budget_limited=True),
        both_splits(0.9, seq_len=128, budget_limited=True),
        both_splits(0.9, d_model=128, seq_len=128),
        both_splits(0.9, init="random", budget_limited=True),
    )
    notes = [note for note in result_notes(summarise(rows)) if note.startswith("Budget-limited")]
    ended = "runs that still improved when the budget ended:"
    assert notes == [
        f"Budget-limited: attention (random); {ended} D=64 1/1 at T=64 P=4.",
        f"Budget-limited: attention (recipe); {ended} "
        "D=64 1/1, D=128 1/1 at T=64 P=4; D=64 1/1 at T=128 P=4.",
    ]


def test_an_incomplete_grid_of_learning_rates_is_noted_with_its_place():
    rows = frame(
        both_splits(0.99, lr=1e-2), both_splits(0.9, lr=1e-3), both_splits(0.9, lr=1e-3, seed=1)
    )
    assert note_of(result_notes(summarise(rows)), "lr grid incomplete") == (
        "lr grid incomplete: attention (recipe) D=64 at T=64 P=4: "
        "chosen among the 1 of 2 choices with the most seeds."
    )


def test_the_recipe_is_not_mentioned_where_it_was_not_used():
    assert len(result_notes(summarise(frame(both_splits(0.9, init="random"))))) == 1


def test_attention_that_solves_every_cell_is_as_published():
    rows = frame(both_splits(1.0), both_splits(0.995, seq_len=128))
    note = note_of(published_shape_notes(summarise(rows)), "attention")
    assert note == (
        "attention (recipe) solves all 2 cells with every seed at every width, as published."
    )


def test_attention_that_misses_a_cell_is_said_with_its_numbers():
    rows = frame(both_splits(1.0), both_splits(0.95, seq_len=128), both_splits(1.0, seed=1))
    note = note_of(published_shape_notes(summarise(rows)), "Not the published shape: attention")
    assert "D=64 at T=128 P=4: 0/1 seeds, accuracy 0.950 [0.943, 0.956]" in note
    assert "T=64" not in note


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        pytest.param(
            {(64, 2, 32): 0.95, (64, 2, 64): 1.0, (64, 8, 32): 0.3, (64, 8, 64): 0.92},
            "T=64 P=2: 32; T=64 P=8: 64. As published, it grows in 1 of 1 series along pairs.",
            id="grows",
        ),
        pytest.param(
            {(64, 2, 32): 0.95, (64, 8, 32): 0.3},
            "T=64 P=2: 32; T=64 P=8: > 32. As published, it grows in 1 of 1 series along pairs.",
            id="grows beyond the widest",
        ),
        pytest.param(
            {(64, 2, 32): 0.95, (64, 8, 32): 0.95},
            "Not the published shape: it grows in 0 of 1 series along pairs.",
            id="the same width is enough",
        ),
        pytest.param(
            {(64, 2, 32): 0.2, (64, 8, 32): 0.1},
            "Not the published shape: it grows in 0 of 1 series along pairs.",
            id="no width is enough",
        ),
        pytest.param(
            {(32, 4, 32): 0.95, (64, 4, 32): 0.2, (64, 4, 64): 0.3, (128, 4, 64): 0.95},
            "Not the published shape: it grows in 0 of 1 series along length.",
            id="shrinks on the way",
        ),
        pytest.param(
            {(64, 2, 32): 0.95, (64, 8, 32): 0.3, (64, 8, 64): 0.95, (128, 2, 32): 0.95},
            "Only in part the published shape: it grows in 1 of 1 series along pairs "
            "and 0 of 1 series along length.",
            id="grows along pairs, not along length",
        ),
        pytest.param(
            {(64, 2, 32): 0.95, (64, 8, 64): 0.95, (128, 2, 64): 0.95},
            "As published, it grows in 1 of 1 series along pairs and 1 of 1 series along length.",
            id="grows along both",
        ),
        pytest.param(
            {(64, 4, 32): 0.95, (128, 8, 32): 0.2},
            "The cells form no series along pairs or length to compare.",
            id="length and pairs move together",
        ),
    ],
)
def test_the_width_base_conv_needs_is_compared_along_pairs_and_length(accuracies, expected):
    note = note_of(published_shape_notes(base_conv(accuracies)), "base_conv (recipe)")
    assert expected in note


@pytest.mark.parametrize(
    ("law", "accuracies", "expected"),
    [
        pytest.param(
            "uniform(lo=8, hi={t})",
            {(32, 4, 32): 0.95, (64, 4, 32): 0.95},
            "T=32 P=4: 32; T=64 P=4: 32. "
            "Not the published shape: it grows in 0 of 1 series along length.",
            id="the same width is enough",
        ),
        pytest.param(
            "uniform(lo=8, hi={t})",
            {(32, 4, 32): 0.95, (64, 4, 64): 0.95},
            "As published, it grows in 1 of 1 series along length.",
            id="grows",
        ),
        pytest.param(
            "law_{t}(lo=8, hi=25)",
            {(32, 4, 32): 0.95, (64, 4, 64): 0.95},
            "The cells form no series along pairs or length to compare.",
            id="another law",
        ),
    ],
)
def test_lengths_are_compared_where_the_bounds_of_one_law_move_with_them(law, accuracies, expected):
    note = note_of(published_shape_notes(base_conv(accuracies, law)), "base_conv (recipe)")
    assert expected in note


def test_two_laws_at_one_length_are_two_series():
    cells = [(t, f"uniform(lo=8, hi={hi})") for t in (32, 64) for hi in (16, 25)]
    rows = [
        both_splits(0.95, model="base_conv", seq_len=t, distance_law=law, data_hash=f"{t} {law}")
        for t, law in cells
    ]
    note = note_of(published_shape_notes(summarise(frame(*rows))), "base_conv (recipe)")
    assert "it grows in 0 of 2 series along length." in note


def test_along_pairs_the_whole_law_must_agree():
    rows = [
        both_splits(0.95, model="base_conv", n_kv_pairs=p, distance_law=f"uniform(lo={p}, hi=25)")
        for p in (2, 8)
    ]
    note = note_of(published_shape_notes(summarise(frame(*rows))), "base_conv (recipe)")
    assert "The cells form no series" in note


def test_a_missing_model_leaves_its_part_open():
    notes = published_shape_notes(base_conv({(64, 4, 32): 0.9}))
    assert notes[0] == "attention was not run, so that its part of the published shape is open."
