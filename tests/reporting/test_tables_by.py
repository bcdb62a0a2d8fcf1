import pytest

from tests.reporting.frames import both_splits, frame, row, sweep
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.latex import escape, latex_page, latex_table
from zoology_bench.reporting.tables import table_markdown
from zoology_bench.reporting.tables_by import by_markdown, resolved, tables_by

ARMS = [("attention", "recipe"), ("base_conv", "recipe")]
CELLS = [(64, 4), (64, 8), (128, 4), (128, 8)]
SWEPT = sweep(ARMS, CELLS, [32, 64], 2)


def test_by_pairs_puts_cells_that_differ_in_pairs_only_side_by_side():
    tables = tables_by(SWEPT, "n_kv_pairs")
    assert list(tables) == ["T=64", "T=128"]
    header, lines = tables["T=64"]
    assert header == ["model", "P=4", "P=8"]
    assert [line[0] for line in lines[:2]] == ["attention (recipe) D=32", "attention (recipe) D=64"]
    assert [line[0] for line in lines[-2:]] == ["best baseline", "content-blind ceiling"]
    expected = summarise(SWEPT)
    one = expected[(expected.model == "attention") & (expected.d_model == 32)]
    one = one[(one.seq_len == 64) & (one.n_kv_pairs == 8)].iloc[0]
    assert lines[0][2].startswith(f"{one.accuracy:.2f}"[:3])


@pytest.mark.parametrize("axis", ["distance", "binding_distance"])
def test_by_distance_has_a_column_per_bin_in_numeric_order(axis):
    rows = [
        row(slice_key=axis, slice_value=value, hits=float(hits), n=100, n_rows=50)
        for value, hits in (("16-22", 50), ("3", 99), ("4-5", 90))
    ]
    header, lines = tables_by(frame(both_splits(0.9), rows), axis)["T=64 P=4"]
    assert header == [
        "model",
        *(f"{'s' if axis == 'distance' else 'b'}={v}" for v in ("3", "4-5", "16-22")),
    ]
    shares = [cell.split(" ")[0] for cell in lines[0][1:]]
    assert shares == ["0.990", "0.90", "0.50"]


def test_the_page_names_its_axis_and_every_cell():
    text = by_markdown(SWEPT, "distance")
    assert text.startswith("# Accuracy by interaction distance s")
    assert all(f"## T={t} P={p}" in text for t, p in CELLS)
    assert set(resolved(SWEPT, "distance").columns) >= {"at", "order", "arm", "cell"}


def test_results_without_the_slices_are_refused():
    with pytest.raises(ValueError, match="--by binding_distance: no model has accuracies"):
        tables_by(frame(both_splits(0.9)), "binding_distance")


def test_seconds_to_criterion_count_the_seeds_that_reached_it():
    rows = [
        both_splits(0.99, seed=seed, wall_s=wall_s, stop_reason=reason)
        for seed, wall_s, reason in (
            (0, 10.0, "threshold"),
            (1, 20.0, "threshold"),
            (2, 90.0, "max_steps"),
        )
    ]
    summary = summarise(frame(*rows))
    assert (summary.n_reached.item(), summary.seconds_to_criterion.item()) == (2, 15.0)
    assert "| 20 | 15 (2) |" in table_markdown(summary, "t")
    never = summarise(frame(both_splits(0.5, stop_reason="max_steps")))
    assert never.n_reached.item() == 0
    assert never.seconds_to_criterion.isna().item()


def test_latex_prints_every_letter_as_it_stands():
    assert escape(r"a_b & 50% <x> \cmd{1}† ~^") == (
        r"a\_b \& 50\% \textless{}x\textgreater{} \textbackslash{}cmd\{1\}$^\dagger$ "
        r"\textasciitilde{}\textasciicircum{}"
    )


def test_a_latex_table_has_the_columns_of_its_header():
    text = latex_page(
        [latex_table((["model", "P=4"], [["base_conv", "0.5*"]]), "100% & more", "x")]
    )
    assert r"\begin{tabular}{lr}" in text
    assert r"base\_conv & 0.5$^*$ \\" in text
    assert r"\caption{100\% \& more}" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2
