import pandas as pd
import pytest

from tests.reporting.frames import both_splits, frame, row
from zoology_bench.reporting import RunStore, load_results, save_results
from zoology_bench.reporting.files import csv_bytes


@pytest.fixture
def store(tmp_path):
    store = RunStore(tmp_path / "out")
    for seed in (0, 1):
        rows = both_splits(0.9, seed=seed)
        store.write_result(rows[0]["run_id"], rows)
    store.write_results_csv()
    return store


def test_a_folder_its_runs_and_its_csv_hold_the_same_rows(store):
    path = store.output_dir / "results.csv"
    of_folder = load_results(store.output_dir)
    assert len(of_folder) == 4
    pd.testing.assert_frame_equal(load_results(path), of_folder, check_exact=True)
    pd.testing.assert_frame_equal(load_results([path, store.output_dir]), of_folder)


def test_a_folder_without_runs_is_its_results_csv(store, tmp_path):
    committed = tmp_path / "committed"
    committed.mkdir()
    (store.output_dir / "results.csv").rename(committed / "results.csv")
    assert len(load_results([str(committed)])) == 4


def test_runs_not_yet_in_the_csv_are_read(store):
    rows = both_splits(0.9, seed=2)
    store.write_result(rows[0]["run_id"], rows)
    assert set(load_results(store.output_dir).seed) == {0, 1, 2}


def test_rows_that_contradict_each_other_are_refused_with_both_places(tmp_path):
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    a.write_bytes(csv_bytes(frame(row(seed=1), row(hits=10.0))))
    b.write_bytes(csv_bytes(frame(row(hits=11.0))))
    with pytest.raises(ValueError, match="contradicts") as error:
        load_results([a, b])
    assert str(error.value).startswith(f"{b}:2: value=0.00275 contradicts {a}:3: value=0.0025 (")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.csv", "missing.csv: no such file or folder"),
        ("notes.txt", "notes.txt: results are .csv, .parquet or a folder"),
        ("folder", "folder: holds neither runs"),
        ("header.csv", "no result rows in .*header.csv"),
    ],
)
def test_nothing_to_read_is_one_line(tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "header.csv").write_bytes(csv_bytes(frame()))
    with pytest.raises(ValueError, match=message) as error:
        load_results([tmp_path / name])
    assert "\n" not in str(error.value)


def test_a_torn_result_in_a_folder_is_named(store):
    path = next(store.output_dir.glob("runs/*/result.json"))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=f"{path}: not a result of zoology-bench"):
        load_results(store.output_dir)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "results.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr("zoology_bench.reporting.files.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs pyarrow: pip install 'zoology-bench\[parquet\]'"):
        load_results(path)


def test_parquet_round_trips(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "results.parquet"
    rows = frame(both_splits(0.5), row(seed=1))
    save_results(rows, path)
    pd.testing.assert_frame_equal(load_results(path), save_and_load(rows, tmp_path / "r.csv"))
    assert len(load_results(path)) == 3


def save_and_load(rows, path):
    return load_results(save_results(rows, path))


def test_csv_round_trips_bit_for_bit(tmp_path):
    rows = frame(row(hits=4000 / 3), row(seed=1, floor_ceiling=0.1 + 0.2))
    again = save_and_load(rows, tmp_path / "new" / "results.csv")
    pd.testing.assert_frame_equal(again, rows, check_exact=True)


def test_only_known_suffixes_are_written(tmp_path):
    with pytest.raises(ValueError, match=r"r\.json: results are written as \.csv or \.parquet"):
        save_results(frame(row()), tmp_path / "r.json")
    assert not list(tmp_path.iterdir())
