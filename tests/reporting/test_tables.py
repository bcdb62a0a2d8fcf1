import pytest

from tests.reporting.frames import baselines, both_splits, failed, frame, row, sweep
from zoology_bench.reporting.aggregate import error_shares, summarise
from zoology_bench.reporting.columns import COLUMNS
from zoology_bench.reporting.tables import (
    format_accuracy,
    format_floor,
    format_quantity,
    format_share,
    markdown_table,
    n_digits,
    overview_markdown,
    provenance,
    table_markdown,
)


@pytest.mark.parametrize(
    ("half", "digits"),
    [
        (0.4, 1),
        (0.3, 2),
        (0.036, 2),
        (0.0354, 3),
        (0.012, 3),
        (0.0096, 3),
        (0.004, 3),
        (0.0012, 4),
        (1e-6, 4),
        (0.0, 4),
    ],
)
def test_digits_follow_the_interval(half, digits):
    assert n_digits(0.5 - half, 0.5 + half) == digits


def test_no_false_digits_are_printed():
    assert format_accuracy(0.931234, 0.9191, 0.9432) == "0.931 [0.919, 0.943]"
    assert format_accuracy(0.931234, 0.85, 1.0) == "0.93 [0.85, 1.00]"
    assert format_accuracy(0.5, 0.0, 1.0) == "0.5 [0.0, 1.0]"
    assert format_accuracy(1.0, 0.9962, 1.0) == "1.0000 [0.9962, 1.0000]"


@pytest.mark.parametrize(
    ("value", "se", "text"),
    [
        (1 / 8192, 0.0, "0.000122"),
        (0.25, 0.0, "0.25"),
        (0.2876, 0.004, "0.288"),
        (0.2876, 0.02, "0.29"),
    ],
)
def test_floors_are_exact_or_follow_their_standard_error(value, se, text):
    assert format_floor(value, se) == text
    assert format_floor(float("nan")) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (4.5123, "4.5"),
        (12.3, "12"),
        (0.0321, "0.032"),
        (1234.0, "1,200"),
        (99.6, "100"),
    ],
)
def test_quantities_have_two_digits_and_no_exponent(value, text):
    assert format_quantity(value) == text


def test_shares_follow_what_counting_resolves():
    assert format_share(0.0123, 4000) == "0.0123"
    assert format_share(0.0123, 40) == "0.01"


def test_cells_of_a_table_are_escaped():
    assert markdown_table(["a"], [["x|y<script>"]]).endswith("| x\\|y&lt;script> |")


def cells_of(text, start):
    """The cells of the first table line that starts with ``start``."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_overview_holds_every_arm_cell_and_floor():
    rows = sweep(
        [("attention", "recipe"), ("base_conv", "random")], [(32, 4), (64, 8)], [32, 64], 2
    )
    text = overview_markdown(summarise(rows))
    assert cells_of(text, "model") == ["model", "T=32 P=4", "T=64 P=8"]
    for arm in ("attention (recipe) D=32", "attention (recipe) D=64", "base_conv (random) D=64"):
        assert len(cells_of(text, arm)) == 3
    assert cells_of(text, "best baseline")[1] == "0.275 (best_slot)"
    assert cells_of(text, "content-blind ceiling")[1] == "0.287 (exact)"
    assert cells_of(text, "1/P") == ["1/P", "0.25", "0.125"]
    assert cells_of(text, "1/V") == ["1/V", "0.00781", "0.00781"]


def test_which_interval_solve_rate_failures_and_budget_are_marked():
    one = frame(both_splits(1.0))
    assert cells_of(overview_markdown(summarise(one)), "attention")[1].endswith("]* 1/1")
    rows = frame(both_splits(1.0, budget_limited=True), failed(seed=1), both_splits(0.9, seed=2))
    assert cells_of(overview_markdown(summarise(rows)), "attention")[1].endswith("] 1/3†, failed 1")
    none = frame(failed())
    assert cells_of(overview_markdown(summarise(none)), "attention")[1] == "no number 0/1, failed 1"


def test_the_table_holds_everything_the_row_knows():
    cell = {"seq_len": 64, "n_kv_pairs": 4, "n_queries": 4}
    rows = frame(
        both_splits(0.9, lr=1e-3, **cell),
        both_splits(0.5, lr=1e-2, **cell),
        row(metric="misbinding", lr=1e-3, hits=400.0, **cell),
        baselines(**cell),
    )
    rows["git_sha"], rows["hardware"] = "0123456789abcdef", "test CPU"
    summary = summarise(rows)
    errors = error_shares(rows)
    joined = summary.merge(errors, on=[c for c in errors if c in summary], how="left")
    text = table_markdown(joined, "Title", provenance(rows))
    assert text.startswith("# Title\n")
    line = next(x for x in text.splitlines() if x.startswith("| attention (recipe) | 64 |"))
    assert line == (
        "| attention (recipe) | 64 | 0.900 [0.890, 0.909]* | 0/1 | 0.001 of 2 | 300 | 4.5 | - "
        "| 50,000 | 33,000 | 32,000 | 32,768 |  |"
    )
    assert "Floors: best baseline 0.275 (best_slot), content-blind ceiling 0.288 (exact)" in text
    assert "| attention (recipe) | 64 | T=64 P=4 | 0.900 [0.890, 0.909]* | 0.100 |" in text
    assert "- code: 0123456789ab\n- hardware: test CPU" in text


def test_an_incomplete_grid_of_learning_rates_is_noted():
    def rates(*seeds_of_the_other):
        rows = [both_splits(0.9, lr=1e-3, seed=seed) for seed in range(2)]
        return frame(*rows, *(both_splits(0.99, lr=1e-2, seed=s) for s in seeds_of_the_other))

    text = table_markdown(summarise(rates(0)), "x")
    assert "| 0.001 of 2 |" in text
    assert "| lr grid incomplete: chosen among 1 of 2 |" in text
    assert "lr grid incomplete" not in table_markdown(summarise(rates(0, 1)), "x")


def test_the_head_of_a_cell_counts_rows_even_if_its_first_arm_has_none():
    text = table_markdown(summarise(frame(failed(), both_splits(0.9, model="base_conv"))), "x")
    assert text.index("| attention (recipe) | 64 |") < text.index("| base_conv (recipe) | 64 |")
    assert "V=128, Q=4, 1,000 rows." in text


def test_the_ceiling_is_not_called_the_best_of_all_guessers():
    meaning = next(column.meaning for column in COLUMNS if column.name == "floor_ceiling")
    for text in (meaning, table_markdown(summarise(frame(both_splits(0.9))), "x")):
        assert "blind to token identity that judge one query at a time" in text
        assert "can score a little more (docs/tasks.md prints how much)" in text


def test_a_model_at_its_floor_and_failures_are_noted():
    rows = frame(
        both_splits(0.288), failed(seed=1), both_splits(0.288, seed=2, budget_limited=True)
    )
    text = table_markdown(summarise(rows), "x")
    assert "failed 1/3: loss is NaN at step 12; budget-limited 1/3; not above its floor |" in text


def test_an_overview_of_baselines_alone_has_their_floors_and_no_model():
    rows = [row(kind="baseline", model=name, mixer="", init="") for name in ("rank", "best_slot")]
    text = overview_markdown(summarise(frame(rows)))
    assert text.splitlines()[0] == "| model | T=64 P=4 |"
    assert [line.split(" |")[0] for line in text.splitlines()[2:]] == [
        "| best baseline",
        "| content-blind ceiling",
        "| 1/P",
        "| 1/V",
    ]
