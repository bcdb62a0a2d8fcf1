import hashlib
import json
import tracemalloc

import numpy as np
import pytest

from zoology_bench.data import export
from zoology_bench.data.export import export_rows
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import LogUniform

TASK = MQAR(
    seq_len=48, n_kv_pairs=4, filler="disjoint", absent_rate=0.25, vocab_size=256,
    distance=LogUniform(lo=8, hi=40), data_seed=3,
)  # fmt: skip
FIELDS = ("inputs", "targets", "query_pos", "key_pos", "binding_distance")


def read(path):
    """Header and arrays, with nothing but NumPy and json."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            header = json.loads(str(archive["header"]))
            return header, {name: archive[name] for name in archive.files if name != "header"}
    header, *rows = (json.loads(line) for line in path.read_text().splitlines())
    assert [row["row"] for row in rows] == list(range(header["start"], header["stop"]))
    return header, {name: np.array([row[name] for row in rows]) for name in FIELDS}


@pytest.fixture(params=[".npz", ".jsonl"])
def path(request, tmp_path):
    return tmp_path / f"rows{request.param}"


def test_file_holds_the_rows_and_where_they_come_from(path):
    assert export_rows(TASK, "report", 3, 7, 19, path) == path
    header, arrays = read(path)
    batch = TASK.rows("report", 3, 7, 19)
    assert set(arrays) == set(FIELDS)
    for name in FIELDS:
        np.testing.assert_array_equal(arrays[name], getattr(batch, name).numpy())
    assert header["data_hash"] == TASK.data_hash()
    assert (header["split"], header["seed"], header["start"], header["stop"]) == (
        "report",
        3,
        7,
        19,
    )
    assert (header["task"], header["task_version"], header["layout"]) == ("mqar", 1, "prefix")
    assert header["vocabulary"]["absent"] == TASK.vocabulary.absent
    assert header["vocabulary"]["keys"] == [TASK.vocabulary.keys.start, TASK.vocabulary.keys.stop]


def test_header_holds_the_full_configuration(path):
    export_rows(TASK, "train", 0, 0, 1, path)
    config = read(path)[0]["config"]
    law = config.pop("distance")
    assert law == {"kind": "log_uniform", "lo": 8, "hi": 40}
    assert config.pop("kind") == "mqar"
    assert MQAR(**{**config, "distance": LogUniform(lo=8, hi=40)}) == TASK


def test_answers_can_be_found_from_the_file_alone(path):
    export_rows(TASK, "select", 3, 0, 50, path)
    header, arrays = read(path)
    for tokens, targets, queries, keys in zip(
        *(arrays[name] for name in ("inputs", "targets", "query_pos", "key_pos")), strict=True
    ):
        for query, key in zip(queries, keys, strict=True):
            absent = header["vocabulary"]["absent"]
            assert targets[query] == (absent if key < 0 else tokens[key + 1])
            assert key < 0 or tokens[key] == tokens[query]


def test_equal_calls_write_equal_bytes(path, tmp_path):
    again = tmp_path / f"again{path.suffix}"
    export_rows(TASK, "report", 3, 0, 40, path)
    export_rows(TASK, "report", 3, 0, 40, again)
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(again.read_bytes()).digest()


def test_blocks_do_not_show_in_the_file(path, tmp_path, monkeypatch):
    export_rows(TASK, "report", 3, 0, 40, path)
    monkeypatch.setattr(export, "_BLOCK_TOKENS", 48 * 7)
    again = tmp_path / f"again{path.suffix}"
    export_rows(TASK, "report", 3, 0, 40, again)
    assert path.read_bytes() == again.read_bytes()


def test_memory_does_not_grow_with_the_number_of_rows(path, monkeypatch):
    monkeypatch.setattr(export, "_BLOCK_TOKENS", 48 * 50)

    def peak(n_rows: int, name: str) -> int:
        tracemalloc.start()
        export_rows(TASK, "report", 3, 0, n_rows, path.with_stem(name))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    peak(100, "warm")
    assert peak(600, "large") < 1.5 * peak(150, "small")


def test_existing_file_is_kept(path):
    path.write_text("mine")
    with pytest.raises(ValueError, match="exists already"):
        export_rows(TASK, "report", 3, 0, 4, path)
    assert path.read_text() == "mine"


def test_file_that_appears_meanwhile_is_kept(path, monkeypatch):
    def rows_and_rival(*args, **kwargs):
        path.write_text("theirs")
        return MQAR.rows(TASK, *args, **kwargs)

    class Raced(MQAR):
        rows = staticmethod(rows_and_rival)

    task = Raced(seq_len=48, n_kv_pairs=4)
    with pytest.raises(ValueError, match="exists already"):
        export_rows(task, "report", 0, 0, 4, path)
    assert path.read_text() == "theirs"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_failure_leaves_nothing_behind(path):
    class Broken(MQAR):
        def rows(self, split, seed, start, stop, device="cpu"):
            if stop > 1000:
                raise OSError("no space left")
            return MQAR.rows(self, split, seed, start, stop, device)

    task = Broken(seq_len=48, n_kv_pairs=4)
    with pytest.raises(OSError, match="no space left"):
        export_rows(task, "report", 0, 0, 2000, path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "split", "start", "stop", "message"),
    [
        ("rows.csv", "report", 0, 4, r"suffix '\.csv'; known: \.jsonl, \.npz"),
        ("rows", "report", 0, 4, r"suffix ''; known: \.jsonl, \.npz"),
        ("missing/rows.npz", "report", 0, 4, "does not exist"),
        ("rows.npz", "report", 4, 4, "start=4, stop=4 hold no rows"),
        ("rows.npz", "report", -1, 4, "start=-1"),
        ("rows.npz", "reports", 0, 4, "reports"),
    ],
)
def test_bad_requests_get_one_line_and_write_nothing(tmp_path, name, split, start, stop, message):
    with pytest.raises(ValueError, match=message) as error:
        export_rows(TASK, split, 0, start, stop, tmp_path / name)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
