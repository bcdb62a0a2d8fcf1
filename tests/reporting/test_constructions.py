from tests.reporting.frames import baselines, both_splits, failed, frame, row, sweep
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.constructions import constructions_markdown
from zoology_bench.reporting.files import csv_bytes
from zoology_bench.reporting.report import write_report

BUILT = {"kind": "untrained", "init": "", "mixer": "", "lr": None, "steps": 0, "wall_s": 0.0}


def built(n_pairs: int, hits: int, **changes):
    size = {"n_kv_pairs": n_pairs, "seq_len": 3 * n_pairs, "d_model": 60, "n_layers": 114}
    counts = {"n_params_total": 2_544_480, "hits": float(hits), "n": 4000, "causal": False}
    return row(model="circuit", **{**BUILT, **size, **counts, **changes})


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_sizes_and_errors_stand_by_pairs_whatever_order_they_came_in():
    results = frame(
        built(16, 3997, n_layers=166, d_model=68, n_params_total=8_285_392),
        built(8, 4000),
        both_splits(0.5),
        baselines(seq_len=24, n_kv_pairs=8, n_queries=4),
    )
    header, _, *lines = cells(constructions_markdown(summarise(results)))
    assert header[1:] == ["P", "T", "V", "layers", "width", "parameters", "queries", "errors"]
    assert [line[1:] for line in lines] == [
        ["8", "24", "128", "114", "60", "2,544,480", "4,000", "0"],
        ["16", "48", "128", "166", "68", "8,285,392", "4,000", "3"],
    ]
    assert all(line[0].startswith("circuit [not causal]") for line in lines)


def test_a_construction_that_failed_says_so():
    broken = failed(model="circuit", **BUILT, n_layers=114, d_model=60)
    assert cells(constructions_markdown(summarise(frame(broken))))[-1][-1] == "no number"


def test_without_a_construction_there_is_no_table():
    without_layers = sweep([("attention", "recipe")], [(64, 4)], [32], 1, analytic=True)
    assert constructions_markdown(summarise(without_layers)) == ""


def test_a_report_shows_the_table_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr("zoology_bench.reporting.report._figures", lambda frame, summary, fits: {})
    for name, results in (("with", frame(built(8, 4000))), ("without", frame(both_splits(0.5)))):
        source = tmp_path / f"{name}.csv"
        source.write_bytes(csv_bytes(results))
        write_report([source], tmp_path / name)
    assert "## Constructions" in (tmp_path / "with" / "table.md").read_text()
    assert "## Constructions" not in (tmp_path / "without" / "table.md").read_text()
