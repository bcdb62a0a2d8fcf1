import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.reporting.frames import both_splits, failed, frame, row
from zoology_bench.reporting.columns import (
    COLUMNS,
    KEY,
    NAMES,
    SCHEMA_VERSION,
    names_at,
    to_markdown,
)
from zoology_bench.reporting.files import csv_bytes, parse_csv
from zoology_bench.reporting.schema import sort_rows, to_frame, validate


def test_defaults_and_dtypes_follow_the_column_table():
    built = frame(row())
    assert tuple(built.columns) == NAMES
    assert {c.name: c.pandas_dtype for c in COLUMNS} == built.dtypes.astype(str).to_dict()
    assert built.peak_mem_bytes.isna().all()


def test_every_key_column_exists():
    assert set(KEY) <= set(NAMES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"sed": 1}, "column='sed' is unknown; did you mean 'seed'?", id="unknown key"),
        pytest.param({"value": 0.5}, "value=0.5 must be hits / n", id="value against counts"),
        pytest.param({"hits": None, "value": 0.9}, "hits= must not be empty", id="no hits"),
        pytest.param({"n": float("nan"), "value": 0.9}, "n= must not be empty", id="nan count"),
        pytest.param(
            {"hits": 4001.0}, "hits=4001.0 must be at most n", id="more hits than queries"
        ),
        pytest.param({"value": None}, "value= must not be empty", id="no number"),
        pytest.param({"seed": 1.5}, "seed=1.5 must be an integer", id="fractional seed"),
        pytest.param({"seed": True}, "seed=True must be an integer", id="bool for a number"),
        pytest.param({"causal": "yes"}, "causal=yes must be True or False", id="text for a bool"),
        pytest.param({"se": float("inf")}, "se=inf must be finite", id="infinite"),
        pytest.param({"seq_len": 2**63}, "must fit in 64 bits", id="too large"),
        pytest.param({"split": "test"}, "split=test must be one of", id="unknown split"),
        pytest.param({"kind": "learned"}, "kind=learned must be one of", id="unknown kind"),
        pytest.param({"schema_version": 99}, "schema_version=99 is another", id="newer schema"),
    ],
)
def test_a_row_that_breaks_a_rule_is_refused(change, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")) as error:
        to_frame([row(), row() | change], "rows")
    assert str(error.value).startswith("rows:1: ")
    assert "\n" not in str(error.value)


def test_a_required_column_is_named_when_missing():
    incomplete = row()
    del incomplete["model"]
    with pytest.raises(ValueError, match="rows:0: model is required"):
        to_frame([incomplete])


def test_loss_is_no_share_and_may_exceed_one():
    built = frame(row(metric="loss", hits=9000.0, value=2.25, se=0.1))
    assert built.value.iloc[0] == 2.25


def test_a_failed_run_may_leave_a_row_without_a_number():
    assert frame(failed()).value.isna().all()


def test_text_becomes_one_line_of_writable_utf8():
    built = frame(failed() | {"fail_reason": "RuntimeError:\n  boom \udcff\tx"})
    assert built.fail_reason.iloc[0] == "RuntimeError: boom \\udcff x"


def test_validate_accepts_any_column_order_and_names_a_foreign_table():
    good = frame(row())
    shuffled = good[sorted(good.columns)]
    pd.testing.assert_frame_equal(validate(shuffled, "a.csv"), good)
    with pytest.raises(ValueError, match=r"a\.csv:1: not a results file .* no column run_id"):
        validate(good.drop(columns="run_id"), "a.csv")
    with pytest.raises(ValueError, match=r"a\.csv:1: column='extra' is unknown"):
        validate(good.assign(extra=1), "a.csv")


def test_row_order_does_not_depend_on_arrival_and_is_numeric_in_slices():
    def sliced(value):
        return row(slice_key="distance", slice_value=value, hits=1.0, n=2)

    built = frame(sliced("16-22"), sliced("4-5"), both_splits(0.5, seed=1), both_splits(0.5), row())
    built = built.drop_duplicates(list(KEY))
    built["timestamp"] = [f"2026-01-0{1 + i}" for i in range(len(built))]
    ordered = sort_rows(built)
    shuffled = sort_rows(built.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(ordered, shuffled)
    assert [v for v in ordered.slice_value if v] == ["4-5", "16-22"]


def at_version(frame: pd.DataFrame, version: int) -> pd.DataFrame:
    """The same rows as that version of the table wrote them."""
    return frame[list(names_at(version))].assign(schema_version=version)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_rows_of_an_earlier_version_are_read_with_defaults(version):
    now = frame(both_splits(0.9))
    text = csv_bytes(at_version(now, version)).decode()
    assert "frozen_logits" not in text
    read, _ = parse_csv(text, "old.csv")
    pd.testing.assert_frame_equal(read, now)


def test_the_first_version_is_what_it_was():
    assert len(names_at(1)) == 59
    assert names_at(1)[0] == "schema_version"
    assert names_at(1)[-1] == "timestamp"
    assert names_at(SCHEMA_VERSION) == NAMES


def test_an_earlier_version_with_columns_of_a_later_one_is_refused():
    mixed = frame(row()).assign(schema_version=1)
    with pytest.raises(ValueError, match=r"old\.csv:1: column='command' is unknown"):
        validate(mixed, "old.csv")


def test_one_file_has_one_version():
    two = pd.concat([frame(row()), at_version(frame(row(seed=1)), 1)])
    with pytest.raises(ValueError, match=r"rows of several schema versions \(2, 1\)"):
        validate(two, "a.csv")


@pytest.mark.parametrize("version", [3, 0, -1])
def test_a_version_that_is_not_known_is_refused(version):
    with pytest.raises(ValueError, match=f"schema_version={version} is another"):
        validate(frame(row()).assign(schema_version=version), "a.csv")


def test_the_documented_schema_is_fresh():
    page = Path(__file__).parents[2] / "docs" / "results_schema.md"
    assert page.read_text() == to_markdown()


def test_reporting_imports_neither_torch_nor_matplotlib():
    code = (
        "import sys, zoology_bench.reporting, zoology_bench.reporting.report, "
        "zoology_bench.reporting.tables, zoology_bench.reporting.readme\n"
        "assert not {'torch', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
