import json

import pytest

from tests.reporting.frames import both_splits, failed, frame, row, sweep
from zoology_bench.reporting import OutputError, RunStore, load_results, plot_parts, report
from zoology_bench.reporting.files import csv_bytes
from zoology_bench.reporting.report import write_report

ARMS = [("attention", "recipe")]


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(csv_bytes(sweep(ARMS, [(64, 4)], [32, 64], 2)))
    return path


@pytest.fixture
def no_figures(monkeypatch):
    """For tests of what happens around them: drawing takes seconds."""
    monkeypatch.setattr(report, "_figures", lambda frame, summary, fits: {})


def test_a_report_is_tables_csv_and_figures(results, tmp_path):
    out = tmp_path / "deep" / "out"
    written = write_report([results], out)
    stems = ("accuracy_seq_len", "accuracy_params", "accuracy_width", "accuracy_distance")
    names = {f"{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")}
    names |= {"table.md", "table.tex", "summary.csv", "results.csv", "index.html"}
    assert {path.name for path in written} == names == {path.name for path in out.iterdir()}
    assert (out / "results.csv").read_bytes() == csv_bytes(load_results(results))
    assert len((out / "summary.csv").read_text().splitlines()) == 1 + 2 + 3


def test_an_earlier_report_is_replaced_and_its_stale_figures_go(results, tmp_path, no_figures):
    out = tmp_path / "out"
    out.mkdir()
    (out / "table.md").write_text("old")
    (out / "accuracy_distance_d999.png").write_text("of an earlier report")
    (out / "notes.txt").write_text("mine")
    write_report(results, out)
    assert (out / "table.md").read_text().startswith("# Accuracy: sweep")
    assert not (out / "accuracy_distance_d999.png").exists()
    assert (out / "notes.txt").read_text() == "mine"


def test_results_that_were_read_are_never_written(tmp_path, no_figures):
    folder = tmp_path / "results"
    folder.mkdir()
    path = folder / "results.csv"
    before = csv_bytes(frame(both_splits(0.9)))
    path.write_bytes(before)
    stamp = path.stat().st_mtime_ns
    for source in (folder, path):
        assert path not in write_report([source], folder)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)


def test_results_of_a_run_store_are_never_written(results, tmp_path, no_figures):
    store = RunStore(tmp_path / "out")
    rows = both_splits(0.5, run_id="run-0")
    store.write_result("run-0", rows)
    before = store.write_results_csv().read_bytes()
    write_report(results, store.output_dir)
    assert (store.output_dir / "results.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n", "in.csv:1: not a results file of zoology-bench"),
        (csv_bytes(frame()), "no result rows in"),
        (csv_bytes(frame(row(split="select"))), "no accuracy on report rows in"),
    ],
)
def test_input_without_data_is_one_line_and_writes_nothing(tmp_path, data, message):
    path = tmp_path / "in.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as error:
        write_report(path, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_report_of_failures_only_has_a_table_and_no_figures(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(csv_bytes(frame(failed())))
    written = write_report(path, tmp_path / "out")
    names = {"table.md", "table.tex", "summary.csv", "results.csv", "index.html"}
    assert {p.name for p in written} == names
    assert "failed 1/1: loss is NaN at step 12" in written[0].read_text()


def test_failures_without_distances_make_no_distance_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(plot_parts, "render", lambda figure, suffix: b"")
    path = tmp_path / "in.csv"
    path.write_bytes(csv_bytes(frame(failed(), both_splits(0.9, model="base_conv"))))
    stems = {p.stem for p in write_report(path, tmp_path / "out") if p.suffix == ".png"}
    assert stems == {"accuracy_seq_len", "accuracy_params"}


def test_further_tables_are_written_for_the_axes_asked_for(results, tmp_path, no_figures):
    written = {path.name: path for path in write_report(results, tmp_path / "out", ["distance"])}
    assert written["table_by_distance.md"].read_text().startswith("# Accuracy by interaction")
    assert r"\begin{tabular}" in written["table_by_distance.tex"].read_text()
    assert "slice_value" in written["table_by_distance.csv"].read_text().splitlines()[0]


def test_configurations_stay_with_a_report(tmp_path, no_figures):
    store = RunStore(tmp_path / "runs_folder")
    with store.claim("run-0", {"task": {"seq_len": 64}}):
        rows = both_splits(0.5, run_id="run-0", config_path="runs/run-0/config.json")
        store.write_result("run-0", rows)
    write_report(store.output_dir, tmp_path / "first")
    write_report(tmp_path / "first", tmp_path / "second")
    for folder in ("first", "second"):
        kept = json.loads((tmp_path / folder / "configs.json").read_text())
        assert kept == {"run-0": {"task": {"seq_len": 64}}}
        assert '"seq_len": 64' in (tmp_path / folder / "index.html").read_text()


def test_an_output_that_cannot_be_written_is_named(results, tmp_path, no_figures):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=f"out={tmp_path / 'file'} cannot be written"):
        write_report(results, tmp_path / "file")
