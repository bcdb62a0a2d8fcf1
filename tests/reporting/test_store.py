import json
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from tests.reporting.frames import both_splits, failed, row
from zoology_bench.reporting import OutputError, RunStore, load_results
from zoology_bench.reporting.columns import names_at
from zoology_bench.reporting.files import csv_bytes, read_csv

WRITER = """
import sys
from tests.reporting.frames import both_splits
from zoology_bench.reporting import RunStore

store, first, count = RunStore(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, first + count):
    run_id = f"run-{seed}"
    with store.claim(run_id, {"seed": seed}):
        store.write_result(run_id, both_splits(0.9, seed=seed, run_id=run_id))
        print(run_id, flush=True)  # the acknowledgement
    store.write_results_csv()
"""


def start_writer(folder, first, count):
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "out")


def finish(store, seed=0, **changes):
    rows = both_splits(0.9, seed=seed, run_id=f"run-{seed}", **changes)
    return store.write_result(f"run-{seed}", rows, {"note": "kept"})


def test_a_run_is_finished_when_its_result_exists(store):
    with store.claim("run-0", {"seed": 0}) as claim:
        assert json.loads((claim.folder / "config.json").read_text()) == {"seed": 0}
        assert not store.is_finished("run-0")
        written = finish(store)
    assert store.is_finished("run-0")
    stored = store.read_result("run-0")
    pd.testing.assert_frame_equal(stored.rows, written, check_exact=True)
    assert stored.meta == {"note": "kept"}
    assert stored.status == "finished"


def test_a_failed_run_has_a_result_but_is_not_finished(store):
    store.write_result("run-0", [failed(run_id="run-0")])
    assert store.has_result("run-0")
    assert not store.is_finished("run-0")
    assert store.read_result("run-0").status == "failed"


def test_a_result_keeps_one_row_and_many(store):
    store.write_result("run-0", [row(run_id="run-0")])
    assert len(store.read_result("run-0").rows) == 1


def test_rows_of_another_run_are_refused(store):
    with pytest.raises(ValueError, match="needs rows of that run"):
        store.write_result("run-1", both_splits(0.9, run_id="run-0"))
    with pytest.raises(ValueError, match="needs rows of that run"):
        store.write_result("run-1", [])


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "-x", "a b"])
def test_a_run_id_cannot_leave_its_folder(store, run_id):
    with pytest.raises(ValueError, match="run_id="):
        store.folder(run_id)


def test_two_claims_of_one_run_exclude_each_other(store):
    with (
        store.claim("run-0", {}),
        pytest.raises(OutputError, match=r"run run-0 is being written by \S+ pid \d+"),
    ):
        store.claim("run-0", {})
    store.claim("run-0", {}).release()


def test_a_claim_dies_with_its_process_and_the_next_removes_its_leftovers(store):
    code = f"""
import time
from zoology_bench.reporting import RunStore
claim = RunStore({str(store.output_dir)!r}).claim("run-0", {{}})
(claim.folder / ".result.json.0.tmp").write_text("half")
print("claimed", flush=True)
time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "claimed\n"
    with pytest.raises(OutputError, match=f"pid {owner.pid}"):
        store.claim("run-0", {})
    owner.kill()
    owner.communicate()
    with store.claim("run-0", {}) as claim:
        assert not list(claim.folder.glob(".*"))


def test_results_csv_is_rebuilt_in_one_order(store):
    for seed in (2, 0, 1):
        finish(store, seed)
    first = store.write_results_csv().read_bytes()
    assert store.write_results_csv().read_bytes() == first
    frame, _ = read_csv(store.output_dir / "results.csv")
    assert frame.seed.tolist() == [0, 0, 1, 1, 2, 2]
    assert frame.split.tolist() == ["report", "select"] * 3


def test_a_writer_that_was_overtaken_looks_again(store, monkeypatch):
    """The last to rename must hold every run, also one that ended while it was reading."""
    finish(store, 0)
    real, late = RunStore._lines, iter([1])

    def lines_then_another_run_ends(self):
        lines = real(self)
        for seed in late:
            finish(store, seed)
        return lines

    monkeypatch.setattr(RunStore, "_lines", lines_then_another_run_ends)
    store.write_results_csv()
    assert set(load_results(store.output_dir / "results.csv").seed) == {0, 1}


def test_an_empty_store_writes_a_header_only(store):
    frame, _ = read_csv(store.write_results_csv())
    assert frame.empty


def test_check_writable_leaves_nothing_behind(store):
    store.check_writable()
    assert list(store.output_dir.iterdir()) == []


def test_check_writable_names_the_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=f"output_dir={tmp_path / 'file'} cannot be written"):
        RunStore(tmp_path / "file").check_writable()


def test_writers_killed_at_random_lose_no_acknowledged_run_and_tear_no_file(store):
    """Two of three writers die by SIGKILL in the middle of their work; the third ends."""
    writers = [start_writer(store.output_dir, 100 * i, 20) for i in range(3)]
    rng = random.Random(0)
    acknowledged = set()
    for writer in writers[:2]:
        assert writer.stdout is not None
        acknowledged |= {writer.stdout.readline().strip() for _ in range(3)}
        time.sleep(0.05 * rng.random())
        writer.send_signal(signal.SIGKILL)
    for writer in writers:
        acknowledged |= set(writer.communicate()[0].split())
    assert [writer.returncode for writer in writers] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    # A run may have its result without having said so, never the reverse.
    stored = load_results(store.output_dir)
    assert acknowledged <= set(stored.run_id)
    assert (stored.groupby("run_id").size() == 2).all()
    table = load_results(store.output_dir / "results.csv")
    assert set(table.run_id) == set(stored.run_id)
    assert table.run_id.nunique() >= 26


MANY_ROWS = """
import sys
from tests.reporting.frames import row
from zoology_bench.reporting import RunStore

store, writer = RunStore(sys.argv[1]), sys.argv[2]
for part in range(10):
    run_id = f"run-{writer}-{part}"
    if store.is_finished(run_id):
        continue
    slices = [
        row(run_id=run_id, slice_key="distance", slice_value=str(i), hits=1.0, n=2)
        for i in range(50)
    ]
    with store.claim(run_id, {}):
        store.write_result(run_id, slices)
        print(run_id, flush=True)  # the acknowledgement of 50 rows
store.write_results_csv()
"""


@pytest.mark.slow
def test_eight_processes_of_500_rows_killed_at_random_lose_and_double_none(store):
    """Each round kills every writer at a random moment and starts it again; the last ends."""
    rng, acknowledged = random.Random(0), set()
    for last in (False, False, True):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", MANY_ROWS, str(store.output_dir), str(index)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for index in range(8)
        ]
        for writer in [] if last else rng.sample(writers, 8):
            assert writer.stdout is not None
            acknowledged |= {writer.stdout.readline().strip() for _ in range(rng.randint(1, 4))}
            time.sleep(0.02 * rng.random())
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            acknowledged |= set(writer.communicate()[0].split())
        codes = {writer.returncode for writer in writers}
        assert codes == ({0} if last else {-signal.SIGKILL})
        # Whatever was killed in its middle: what is there is whole, and what was said is there.
        sizes = load_results(store.output_dir).groupby("run_id").size()
        assert acknowledged - {""} <= set(sizes.index)
        assert set(sizes) == {50}
    for source in (store.output_dir, store.output_dir / "results.csv"):
        stored = load_results(source)
        assert len(stored) == 8 * 500
        assert not stored.duplicated(["run_id", "slice_value"]).any()


def test_concurrent_writers_leave_a_complete_csv(store):
    writers = [start_writer(store.output_dir, 100 * i, 5) for i in range(3)]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert load_results(store.output_dir / "results.csv").run_id.nunique() == 15


def test_a_result_of_another_schema_version_is_named(store):
    finish(store)
    path = store.folder("run-0") / "result.json"
    record = json.loads(path.read_text())
    record |= {"schema_version": 0, "columns": "run_id,value", "rows": ["run-0,1"]}
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"result.json: schema_version=0 is another version"):
        store.write_results_csv()


@pytest.mark.parametrize(
    "damage",
    [{"rows": [1, 2]}, {"rows": None}, {"rows": []}, {"meta": None}, {"status": "done"}],
    ids=str,
)
def test_a_damaged_result_is_named(store, damage):
    finish(store)
    path = store.folder("run-0") / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    for read in (store.is_finished, store.read_result):
        with pytest.raises(ValueError, match=r"result.json: not a result of zoology-bench"):
            read("run-0")
    with pytest.raises(ValueError, match=r"result.json: not a result of zoology-bench"):
        load_results(store.output_dir)


def test_a_result_of_an_earlier_schema_version_joins_the_others(store):
    old, new = finish(store, 0), finish(store, 1)
    path = store.folder("run-0") / "result.json"
    record = json.loads(path.read_text())
    text = csv_bytes(old[list(names_at(1))].assign(schema_version=1)).decode()
    header, *rows = text.removesuffix("\n").split("\n")
    path.write_text(json.dumps(record | {"schema_version": 1, "columns": header, "rows": rows}))
    pd.testing.assert_frame_equal(store.read_result("run-0").rows, old)
    both = pd.concat([old, new], ignore_index=True)
    pd.testing.assert_frame_equal(load_results(store.output_dir), both)
    pd.testing.assert_frame_equal(load_results(store.write_results_csv()), both)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": []', "\x00", 10**5 * "["])
def test_a_foreign_result_is_named(store, text):
    folder = store.folder("run-0")
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(text)
    for read in (store.is_finished, store.read_result):
        with pytest.raises(ValueError, match="not a result of zoology-bench"):
            read("run-0")
