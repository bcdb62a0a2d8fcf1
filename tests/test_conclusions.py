"""What a run and a sweep tell a dashboard."""

import json
from types import SimpleNamespace

import pytest

from scripts import wandb_dashboard, wandb_import
from tests.test_runner import TINY
from tests.training import wandb_files
from zoology_bench.conclusions import run_info, stored_info, sweep_conclusion
from zoology_bench.config import compose
from zoology_bench.reporting import load_results
from zoology_bench.runner import run
from zoology_bench.training.loggers import LocalLogger, LocalLoggerConfig


class Recorder(LocalLogger):
    """A dashboard that remembers."""

    remote = True

    def conclude(self, conclusion):
        self.conclusion = conclusion

    def close(self, failed=False):
        self.failed = failed


@pytest.fixture
def heard(monkeypatch):
    made = []

    def build(self, run_dir, info):
        made.append(SimpleNamespace(logger=Recorder(run_dir), info=info))
        return made[-1].logger

    monkeypatch.setattr(LocalLoggerConfig, "build", build)
    return made


def test_a_run_tells_its_tasks_hash_slices_table_and_figure(tmp_path, heard):
    cfg = compose([*TINY, "model=attention"])
    rows = run(cfg, tmp_path).rows
    (one,) = heard
    data = next(iter(one.info.config["data"].values()))
    assert data["data_hash"] == rows.data_hash.iloc[0]
    assert data["task"]["power_a"] == one.info.config["task"]["power_a"] == cfg.task.power_a
    assert one.info.job_type == "trained"
    assert {"attention", "mqar", "official", "recipe"} <= set(one.info.tags)
    assert one.logger.failed is False
    summary = one.logger.conclusion.summary
    report = rows[(rows.split == "report") & (rows.metric == "accuracy")]
    assert summary["report/accuracy/T32_P4"] == report.value.iloc[0]
    sliced = [key for key in summary if key.startswith("report/accuracy/T32_P4/distance/")]
    assert len(sliced) == (report.slice_key == "distance").sum()
    assert summary["data_hash/T32_P4"] == data["data_hash"]
    assert summary["lr"] == rows.lr.iloc[0]
    columns, lines = one.logger.conclusion.tables["rows"]
    assert len(lines) == len(rows)
    assert len(lines[0]) == len(columns)
    assert json.dumps(lines)
    (figure,) = one.logger.conclusion.images.values()
    assert figure.read_bytes().startswith(b"\x89PNG")
    stored = json.loads((tmp_path / rows.config_path.iloc[0]).read_text())
    again = stored_info(rows, stored)
    assert (again.name, again.job_type, set(again.tags)) == (
        one.info.name,
        one.info.job_type,
        set(one.info.tags),
    )


def test_models_without_training_are_told_too_and_a_broken_run_as_failed(tmp_path, heard):
    words = [word for word in TINY if not word.startswith("model.")]
    run(compose([*words, "model=baselines"]), tmp_path)
    run(compose([*TINY, "model=attention", "trainer.lr=1e9", "trainer.max_steps=30"]), tmp_path)
    assert [one.info.job_type for one in heard] == ["baseline", "trained"]
    assert "report/accuracy/rank/T32_P4" in heard[0].logger.conclusion.summary


def test_a_sweep_tells_its_best_learning_rates(tmp_path):
    for lr in ("1e-3", "1e-2"):
        run(compose([*TINY, "model=attention", f"trainer.lr={lr}"]), tmp_path)
    told = sweep_conclusion(load_results(tmp_path), tmp_path)
    assert told.summary["best_lr/attention (recipe) D=16"] in (1e-3, 1e-2)
    columns, lines = told.tables["accuracy"]
    assert len(lines) == 1
    assert "seconds_to_criterion" in columns


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_finished_local_runs_are_sent_later_and_only_once(tmp_path):
    result = run(compose([*TINY, "model=attention"]), tmp_path)
    assert wandb_import.import_runs(tmp_path, mode="offline") == ([result.run_id], [])
    assert wandb_import.import_runs(tmp_path, mode="offline") == ([], [result.run_id])
    (stored,) = tmp_path.glob("runs/*/wandb/offline-run-*/*.wandb")
    got = wandb_files.read_ended(stored)
    assert got["run"].run_id == result.run_id
    assert got["config"]["task"]["seq_len"] == 32
    assert [line["train/tokens"] for line in got["history"] if "train/tokens" in line] == [
        1024,
        2048,
    ]
    assert got["summary"]["report/accuracy/T32_P4"] == pytest.approx(
        result.rows[result.rows.split == "report"].value.iloc[0]
    )


def test_run_info_names_the_run_by_its_identity():
    cfg = compose(TINY)
    assert run_info(cfg).name.startswith(f"{cfg.experiment}-")
    assert run_info(cfg).config["run_id"] in run_info(cfg).name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_workspace_is_a_definition_with_the_documented_sections():
    pytest.importorskip("wandb_workspaces", reason="the wandb-dashboard extra is not installed")
    made = wandb_dashboard.workspace("team", "zoology-bench", "Associative recall")
    text = json.dumps(wandb_dashboard.definition(made))
    for word in ("Does it learn", "Where it breaks", "select/accuracy", "train/tokens"):
        assert word in text
