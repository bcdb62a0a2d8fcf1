"""``zoology-bench compare`` from files to exit code."""

import json
import os
import sys

import pandas as pd
import pytest

from tests.reporting.frames import frame
from tests.reporting.test_gate import runs
from zoology_bench.cli import main
from zoology_bench.reporting import load_results
from zoology_bench.reporting.files import csv_bytes


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.csv").write_bytes(csv_bytes(frame(runs())))
    (tmp_path / "same.csv").write_bytes(csv_bytes(frame(runs(timestamp="2026-01-02T00:00:00"))))
    (tmp_path / "low.csv").write_bytes(csv_bytes(frame(runs(accuracy=0.8))))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["base.csv", "same.csv"], 0, "## Recall gate: passed"),
        (["base.csv", "low.csv"], 1, "## Recall gate: failed"),
        (["base.csv", "low.csv", "--tolerance", "0.3"], 0, "drops by more than 0.3"),
        (["base.csv", "low.csv", "--tolerance", "loose"], 2, "--tolerance=loose must be auto"),
        (["base.csv", "absent.csv"], 2, "absent.csv: no such file or folder"),
        (["torn.csv", "same.csv"], 2, "torn.csv:"),
        (
            ["base.csv", "same.csv", "--summary", "no/x.md"],
            2,
            "--summary=no/x.md cannot be written",
        ),
    ],
)
def test_exit_codes(files, capsys, words, code, said):
    (files / "torn.csv").write_bytes((files / "base.csv").read_bytes()[:-7])
    assert main(["compare", *words]) == code
    out, err = capsys.readouterr()
    assert said in (err if code == 2 else out)
    assert len(err.splitlines()) == (1 if code == 2 else 0)


def test_json_on_stdout_and_markdown_appended_to_the_step_summary(files, capsys):
    (files / "summary.md").write_text("earlier step\n")
    assert main(["compare", "base.csv", "low.csv", "--json", "--summary", "summary.md"]) == 1
    assert json.loads(capsys.readouterr().out)["n_failures"] == 1
    assert (files / "summary.md").read_text().startswith("earlier step\n## Recall gate: failed")


def test_the_verdict_stands_although_nobody_reads_it(files, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert main(["compare", "base.csv", "low.csv"]) == 1


def test_a_verdict_that_cannot_be_written_is_none(files, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["compare", "base.csv", "same.csv"]) == 2
    assert "stdout cannot be written: No space left on device" in capsys.readouterr().err


def test_update_accepts_the_candidate_and_says_so(files, capsys):
    words = ["compare", "base.csv", "low.csv", "--update", "--note", "smaller\nmodel"]
    assert main(words) == 0
    pd.testing.assert_frame_equal(load_results("base.csv"), load_results("low.csv"))
    assert main(["compare", "base.csv", "same.csv", "--update"]) == 0
    lines = (files / "base.changelog.md").read_text().splitlines()
    assert lines[0] == "# Changes of base.csv"
    assert "1 dropped, largest drop 0.1" in lines[2]
    assert lines[2].endswith(": smaller model")
    assert lines[3].startswith("- 2026-01-02, no commit: largest drop 0.0000, largest rise 0.1")
    assert "written: base.csv" in capsys.readouterr().out


def test_the_first_update_makes_a_baseline_and_parquet_is_one(files):
    pytest.importorskip("pyarrow")
    assert main(["compare", "new.parquet", "same.csv", "--update"]) == 0
    pd.testing.assert_frame_equal(load_results("new.parquet"), load_results("same.csv"))
    assert "first baseline, 3 runs" in (files / "new.changelog.md").read_text()
    assert main(["compare", "new.parquet", "same.csv"]) == 0


def test_a_folder_cannot_be_updated(files, capsys):
    assert main(["compare", str(files), "same.csv", "--update"]) == 2
    assert "must be a .csv or .parquet file" in capsys.readouterr().err
