import errno
import os
import pickle
import re

import pytest
import torch

from zoology_bench.training import checkpoint
from zoology_bench.training.checkpoint import CheckpointStore, flatten

CONFIG = {"task": {"seq_len": 64, "layout": "prefix"}, "lr": 1e-3, "seed": 0}
STATE = {"weights": {"a": torch.arange(3.0)}, "step": 7, "history": [(1, 0.5, 2.0)]}


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "run" / "checkpoint.pt", CONFIG)


def files(store):
    return sorted(path.name for path in store.path.parent.iterdir())


def test_state_comes_back_and_only_one_file_remains(store):
    assert store.load() is None
    store.save(STATE)
    loaded = store.load()
    assert torch.equal(loaded["weights"]["a"], STATE["weights"]["a"])
    assert (loaded["step"], loaded["history"]) == (7, [(1, 0.5, 2.0)])
    assert files(store) == ["checkpoint.pt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 2e-3}, "of another config: lr is 0.001 there and 0.002 here"),
        (
            {"task": {"seq_len": 32, "layout": "stream"}},
            "task.layout is prefix there and stream here; task.seq_len is 64 there and 32 here",
        ),
        ({"extra": 1}, "extra is <unset> there and 1 here"),
        ({"lr": 2, "seed": 3, "task": {"seq_len": 1, "layout": "x"}}, "; and 1 more"),
    ],
    ids=["one", "nested", "new key", "many"],
)
def test_checkpoint_of_another_config_is_refused_in_one_line(store, changes, message):
    store.save(STATE)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        CheckpointStore(store.path, CONFIG | changes).load()
    assert "\n" not in str(caught.value)
    assert str(store.path) in str(caught.value)


def test_configs_equal_in_value_are_the_same(store):
    store.save(STATE)
    reordered = {"seed": 0, "lr": 0.001, "task": {"layout": "prefix", "seq_len": 64}}
    assert CheckpointStore(store.path, reordered).load() is not None


class Evil:
    def __reduce__(self):
        return os.mkdir, ("harmed",)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a checkpoint", pickle.dumps(Evil())],
    ids=["empty", "text", "code"],
)
def test_foreign_files_are_refused_and_run_no_code(store, content, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    store.path.parent.mkdir()
    store.path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a readable checkpoint"):
        store.load()
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("payload", [[1], {"format": 0}, {"state": 1}])
def test_other_formats_are_refused(store, payload):
    store.path.parent.mkdir()
    torch.save(payload, store.path)
    with pytest.raises(ValueError, match="is not a checkpoint of format 1"):
        store.load()


@pytest.mark.parametrize(
    ("stage", "error"),
    [
        ("fsync", OSError(errno.ENOSPC, "No space left on device")),
        ("replace", KeyboardInterrupt()),
    ],
    ids=["disk full", "interrupt"],
)
def test_a_failed_write_keeps_the_previous_checkpoint(store, stage, error, monkeypatch):
    store.save(STATE)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.os, stage, fail)
        with pytest.raises(type(error)):
            store.save({**STATE, "step": 8})
    assert store.load()["step"] == 7
    assert files(store) == ["checkpoint.pt"]


def test_content_is_synced_before_the_rename(store, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            checkpoint.os, name, lambda *a, n=name, r=real: (calls.append(n), r(*a))[1]
        )
    store.save(STATE)
    assert calls[:2] == ["fsync", "replace"]


def test_remove_takes_what_killed_writers_left(store):
    store.save(STATE)
    (store.path.parent / ".checkpoint.pt-abc").write_text("half")
    (store.path.parent / "metrics.jsonl").write_text("kept")
    store.remove()
    assert files(store) == ["metrics.jsonl"]
    assert store.load() is None


def test_flatten_joins_keys_with_dots():
    assert flatten({"a": {"b": {"c": 1}, "d": [2]}, "e": None}) == {
        "a.b.c": 1,
        "a.d": [2],
        "e": None,
    }
