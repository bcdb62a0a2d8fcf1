import os
import stat
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reporting.frames import both_splits, failed, frame, row
from zoology_bench.reporting.files import OutputError, atomic_write, csv_bytes, read_csv


def written(tmp_path, data):
    path = tmp_path / "results.csv"
    path.write_bytes(data)
    return path


FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=0)
CELLS = st.tuples(FLOATS, st.text(), st.none() | st.integers(0, 2**63 - 1))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(cells=st.lists(CELLS, min_size=20, max_size=40))
def test_csv_round_trips_bit_for_bit(tmp_path_factory, cells):
    before = frame(
        [row(wall_s=x, se=x, lr=x, hardware=text, state_bytes=size) for x, text, size in cells]
    )
    path = written(tmp_path_factory.mktemp("csv"), csv_bytes(before))
    after, places = read_csv(path)
    pd.testing.assert_frame_equal(after, before, check_exact=True)
    assert after.wall_s.to_numpy().tobytes() == before.wall_s.to_numpy().tobytes()
    assert csv_bytes(after) == csv_bytes(before)
    assert places[0] == f"{path}:2"
    assert places[-1] == f"{path}:{len(cells) + 1}"


def test_empty_cells_stay_empty():
    data = csv_bytes(frame(failed(lr=None, d_model=None)))
    assert b"nan" not in data.lower().replace(b"loss is nan", b"")


@pytest.mark.parametrize("text", ["nan", "NA", "null", "None", "1", "True", ' "quoted", '])
def test_text_that_looks_like_something_else_stays_text(tmp_path, text):
    before = frame(row(experiment=text))
    after, _ = read_csv(written(tmp_path, csv_bytes(before)))
    assert after.experiment[0] == before.experiment[0] == text.strip()


def spoiled(name, value):
    """Three good lines with the second row's cell replaced, as CSV."""
    good = frame(both_splits(0.5), row(seed=1)).astype(object)
    good.loc[1, name] = value
    return csv_bytes(good)


GOOD = csv_bytes(frame(both_splits(0.5), row(seed=1)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", ":1: the file is empty", id="empty"),
        pytest.param(b"a,b\n1,2\n", ":1: not a results file of zoology-bench", id="foreign"),
        pytest.param(b"\x80\x81", ": not a CSV file", id="binary"),
        pytest.param(GOOD[:-1], ":4: the last line is cut short", id="torn at the end"),
        pytest.param(GOOD[:-40], r":4: \d+ cells, the header has", id="torn within a line"),
        pytest.param(GOOD + b'"x', ":5: unexpected end of data", id="open quote"),
        pytest.param(spoiled("n", ""), ":3: n= must not be empty", id="empty count"),
        pytest.param(spoiled("n", "nan"), ":3: n=nan must be an integer", id="nan count"),
        pytest.param(
            spoiled("vocab_size", "0"), ":3: vocab_size=0 must be at least 1", id="no tokens"
        ),
        pytest.param(
            spoiled("seq_len", "-7"), ":3: seq_len=-7 must be at least 1", id="negative length"
        ),
        pytest.param(spoiled("hits", "nan"), ":3: hits= must not be empty", id="nan hits"),
        pytest.param(spoiled("hits", "12x"), ":3: hits=12x must be a number", id="no number"),
        pytest.param(spoiled("dirty", "0"), ":3: dirty=0 must be True or False", id="no bool"),
        pytest.param(
            spoiled("value", "0.75"), ":3: value=0.75 must be hits / n", id="edited value"
        ),
        pytest.param(
            GOOD.replace(b"experiment", b"run_id", 1), ":1: column run_id stands twice", id="twice"
        ),
        pytest.param(
            GOOD.replace(b"threads", b"treads", 1), ":1: not a results file", id="renamed column"
        ),
    ],
)
def test_a_foreign_or_partial_file_is_refused_with_name_and_line(tmp_path, data, message):
    path = written(tmp_path, data)
    with pytest.raises(ValueError, match=message) as error:
        read_csv(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_atomic_write_replaces_whole_files_and_respects_the_umask(tmp_path):
    path = tmp_path / "deep" / "file"
    atomic_write(path, b"old", tmp_path)
    atomic_write(path, b"new", tmp_path)
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_the_name_changes_only_after_the_bytes_are_on_disk(tmp_path, monkeypatch):
    path = tmp_path / "file"
    atomic_write(path, b"old", tmp_path)
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)

    def killed(source, target):
        assert synced
        assert source.read_bytes() == b"new"
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(path, b"new", tmp_path)
    assert path.read_bytes() == b"old"


def test_an_unwritable_folder_is_one_line_that_names_it(tmp_path):
    (tmp_path / "file").write_text("in the way")
    root = tmp_path / "file" / "out"
    with pytest.raises(OutputError, match=f"output_dir={root} cannot be written: Not a directory"):
        atomic_write(root / "x", b"data", root)


def test_a_full_disk_leaves_the_old_file_and_no_temporary(tmp_path):
    # RLIMIT_FSIZE stands in for a full disk: the write fails half-way, after 4096 bytes.
    code = f"""
import resource, sys
from pathlib import Path
from zoology_bench.reporting.files import OutputError, atomic_write
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
root = Path({str(tmp_path)!r})
try:
    atomic_write(root / "result.json", b"x" * 100_000, root)
except OutputError as error:
    sys.exit(str(error))
"""
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == (
        f"output_dir={tmp_path} cannot be written: File too large (result.json)"
    )
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
