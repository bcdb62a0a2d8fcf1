"""run(cfg): one run's rows, skipping, failing, forcing; what the store holds afterwards."""

import dataclasses
import errno
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest
import torch
from hydra.core.config_store import ConfigStore

from zoology_bench import runner
from zoology_bench.config import compose
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.files import OutputError
from zoology_bench.result_rows import run_id_of
from zoology_bench.run_config import MixtureComponent
from zoology_bench.runner import run
from zoology_bench.tasks import MQAR

TINY = [
    "task=mqar_small_32_4",
    "trainer.max_steps=2",
    "trainer.eval_every=1",
    "trainer.n_select_rows=8",
    "trainer.n_report_rows=16",
    "model.d_model=16",
]
UNTRAINED = [word for word in TINY if not word.startswith("model.")]


def overall(rows: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    return rows[(rows.slice_key == "") & (rows.metric == metric)]


@pytest.mark.parametrize("model", ["attention", "base_conv", "base_conv_random"])
def test_a_trained_run_reports_select_and_report_beside_its_floors(tmp_path, model):
    result = run(compose([*TINY, f"model={model}"]), tmp_path)
    assert result.status == "finished"
    rows = overall(result.rows)
    assert sorted(rows.split) == ["report", "select"]
    report = rows[rows.split == "report"].iloc[0]
    assert (report.n, report.n_rows) == (64, 16)
    assert report.steps == 2
    assert report.examples == 64
    assert report.floor_vocab == 1 / 256
    assert report.floor_pairs == 1 / 4
    assert 0.25 < report.floor_ceiling < 0.35
    assert report.init == ("random" if model == "base_conv_random" else "recipe")
    assert report.n_params_total > report.n_params_non_embedding > 0
    assert report.lr > 0


def test_the_analytic_model_recalls_without_training(tmp_path):
    wide = compose([*UNTRAINED, "model=analytic_base_conv", "model.n_distances=31"])
    rows = overall(run(wide, tmp_path).rows)
    assert list(rows.split) == ["report"]
    assert rows.value.item() == 1.0
    assert rows.kind.item() == "untrained"
    assert not rows.causal.item()
    narrow = compose([*UNTRAINED, "model=analytic_base_conv", "model.n_distances=1"])
    assert overall(run(narrow, tmp_path).rows).value.item() < 1.0


def test_baselines_are_graded_exactly(tmp_path):
    rows = overall(run(compose([*UNTRAINED, "model=baselines"]), tmp_path).rows)
    scores = dict(zip(rows.model, rows.value, strict=True))
    assert scores["uniform_vocab"] == pytest.approx(1 / 256, abs=1e-12)
    assert scores["in_context"] == pytest.approx(1 / 4, abs=1e-12)
    assert set(rows.kind) == {"baseline"}


def test_a_finished_run_is_skipped_until_forced(tmp_path):
    cfg = compose(TINY)
    first = run(cfg, tmp_path)
    again = run(cfg, tmp_path)
    assert (first.status, again.status) == ("finished", "skipped")
    pd.testing.assert_frame_equal(first.rows, again.rows)
    forced = run(cfg, tmp_path, force=True)
    assert forced.status == "finished"
    assert overall(forced.rows).value.tolist() == overall(first.rows).value.tolist()


def test_run_id_follows_what_can_change_a_result_and_nothing_else():
    cfg = compose(TINY)
    same = dataclasses.replace(cfg, output_dir="elsewhere", force=True)
    other_seed = dataclasses.replace(cfg, seed=1)
    other_task = dataclasses.replace(cfg, task=dataclasses.replace(cfg.task, power_a=1.0))
    assert run_id_of(cfg) == run_id_of(same)
    assert len({run_id_of(c) for c in (cfg, other_seed, other_task)}) == 3


def test_a_run_that_breaks_is_a_row_with_its_reason(tmp_path, monkeypatch):
    def broken(*arguments, **settings):
        raise RuntimeError("the\nroof fell in")

    monkeypatch.setattr(runner, "train", broken)
    result = run(compose(TINY), tmp_path)
    assert result.status == "failed"
    assert result.reason == "RuntimeError: the roof fell in"
    assert set(result.rows.status) == {"failed"}
    assert result.rows.value.isna().all()
    monkeypatch.undo()
    assert run(compose(TINY), tmp_path).status == "finished", "a failed run is tried again"


def test_a_diverging_run_fails_as_nan_and_keeps_its_last_good_step(tmp_path):
    cfg = compose([*TINY, "trainer.lr=1e30", "trainer.max_steps=50", "trainer.clip_norm=null"])
    result = run(cfg, tmp_path)
    assert result.status == "failed"
    assert set(result.rows.stop_reason) == {"nan"}
    saved = torch.load(tmp_path / "runs" / result.run_id / "checkpoint.pt", weights_only=True)[
        "state"
    ]
    assert saved["progress"]["step"] == result.rows.steps.iloc[0]
    assert all(torch.isfinite(weight).all() for weight in saved["model"].values())


def test_a_run_that_its_last_update_breaks_is_a_failed_row(tmp_path):
    cfg = compose([*TINY, "trainer.lr=1e300", "trainer.max_steps=1"])
    for _ in range(2):  # and again from its checkpoint
        result = run(cfg, tmp_path)
        assert (result.status, set(result.rows.stop_reason)) == ("failed", {"nan"})
        assert result.reason == "loss on graded rows is not finite after step 1"


def test_a_mixture_trains_on_its_parts_and_is_graded_on_eval_tasks(tmp_path):
    cfg = compose(TINY)
    task = cfg.task
    other = dataclasses.replace(task, n_kv_pairs=2)
    mixture = {
        "four": MixtureComponent(task=task, weight=3.0),
        "two": MixtureComponent(task=other, weight=1.0),
    }
    cfg = dataclasses.replace(cfg, mixture=mixture, eval_tasks={"four": task, "two": other})
    rows = overall(run(cfg, tmp_path).rows)
    assert sorted(rows[rows.split == "report"].n_kv_pairs) == [2, 4]


def test_a_crashed_seed_counts_beside_those_that_went_well(tmp_path, monkeypatch):
    whole = runner.train

    def broken_for_seed_1(*arguments, **settings):
        if settings["seed"] == 1:
            raise RuntimeError("out of luck")
        return whole(*arguments, **settings)

    monkeypatch.setattr(runner, "train", broken_for_seed_1)
    frames = [run(compose([*TINY, f"seed={seed}"]), tmp_path).rows for seed in range(3)]
    summary = summarise(pd.concat(frames, ignore_index=True))
    assert (summary.n_seeds.item(), summary.n_failed.item()) == (3, 1)


def comparable(rows: pd.DataFrame) -> pd.DataFrame:
    """Everything of a result but the clock, the memory and the path."""
    return rows.drop(columns=["wall_s", "timestamp", "peak_mem_bytes"])


def metrics_of(output_dir: Path, run_id: str) -> list[str]:
    return (output_dir / "runs" / run_id / "metrics.jsonl").read_text().splitlines()


@pytest.mark.parametrize("mixed", [False, True], ids=["one-task", "mixture"])
def test_an_interrupted_run_resumes_to_the_same_rows_and_curve(tmp_path, monkeypatch, mixed):
    words = [*TINY, "trainer.max_steps=30", "trainer.eval_every=5", "trainer.checkpoint_every=8"]
    cfg = compose([*words, "model.embedding_dropout=0.1", "trainer.stop_at=0.99"])
    if mixed:
        other = dataclasses.replace(cfg.task, n_kv_pairs=2)
        parts = {"four": MixtureComponent(task=cfg.task), "two": MixtureComponent(task=other)}
        cfg = dataclasses.replace(cfg, mixture=parts, eval_tasks={"a": cfg.task, "b": other})
    whole = run(cfg, tmp_path / "whole")
    batches = runner._train_batches

    def interrupted(*arguments):
        inner = batches(*arguments)

        def batch(step):
            if step == 19:
                raise KeyboardInterrupt
            return inner(step)

        return batch

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_train_batches", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(cfg, tmp_path / "parts")
    resumed = run(cfg, tmp_path / "parts")
    pd.testing.assert_frame_equal(comparable(whole.rows), comparable(resumed.rows))
    curves = [
        [
            {k: v for k, v in json.loads(line).items() if "wall" not in k}
            for line in metrics_of(tmp_path / part, whole.run_id)
        ]
        for part in ("whole", "parts")
    ]
    assert curves[0] == curves[1]
    assert [point["step"] for point in curves[0]] == [5, 10, 15, 20, 25, 30]


@dataclass(kw_only=True, slots=True)
class RenamedMQAR(MQAR):
    """A user's own task."""

    name: ClassVar[str] = "renamed"
    version: ClassVar[int] = 1


@dataclass(kw_only=True, slots=True)
class NamelessMQAR(MQAR):
    """A user's task that would share its parent's run_ids."""


def test_a_users_own_task_runs_under_its_own_identity(tmp_path):
    store = ConfigStore.instance()
    store.store(group="task", name="renamed", node=RenamedMQAR)
    store.store(group="task", name="nameless", node=NamelessMQAR)
    words = [word for word in TINY if not word.startswith("task=")]
    ours, theirs = compose([*words, "task=mqar"]), compose([*words, "task=renamed"])
    assert run_id_of(ours) != run_id_of(theirs)
    assert set(run(theirs, tmp_path).rows.task) == {"renamed"}
    with pytest.raises(ValueError, match="NamelessMQAR must set its own name and version"):
        compose([*words, "task=nameless"])


def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    cfg = dataclasses.replace(compose(TINY), device="cuda:99")
    with pytest.raises(ValueError, match="device='cuda:99' is not on this machine"):
        run(cfg, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_the_users_to_mend_and_no_failed_run(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(runner.CheckpointStore, "save", full)
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        run(compose(TINY), tmp_path)
    assert not list(tmp_path.glob("runs/*/result.json"))


def test_an_unwritable_folder_is_named_before_any_work(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        run(compose(TINY), blocked)


def test_threads_are_given_back(tmp_path):
    before = torch.get_num_threads()
    run(compose([*TINY, "threads=2"]), tmp_path)
    assert torch.get_num_threads() == before
