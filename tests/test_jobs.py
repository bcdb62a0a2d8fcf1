"""What becomes of a sweep whose worker, launcher or rival process does something fatal."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.command import zoology
from zoology_bench import jobs
from zoology_bench.config import compose, plan_alone
from zoology_bench.reporting.store import RunStore
from zoology_bench.result_rows import run_id_of
from zoology_bench.runner import record_death, run

ENV = {**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
SWEEP = ["task=mqar_small_32_4", "trainer.max_steps=2", "trainer.eval_every=2"]
SWEEP += ["trainer.n_select_rows=8", "trainer.n_report_rows=16"]
MODULE = """
import os, signal, time, torch

class Mixer(torch.nn.Linear):
    def __init__(self, d_model):
        super().__init__(d_model, d_model)

    def forward(self, x):
        if self.training and torch.is_grad_enabled() and self.in_features == 16:
            FATE
        return super().forward(x)
"""


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "zoology_bench", "run", *SWEEP, "launcher=joblib", *words],
        cwd=cwd,
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def with_fate(fate: str, folder: Path) -> list[str]:
    (folder / "fatal.py").write_text(MODULE.replace("FATE", fate))
    return ["model/mixer=torch_module", "model.mixer.target=fatal:Mixer"]


@pytest.mark.slow
def test_a_run_that_kills_its_worker_is_a_failed_row_and_the_others_go_on(tmp_path: Path) -> None:
    words = with_fate("os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    done = start(*words, "model.d_model=16,32", cwd=tmp_path)
    _, err = done.communicate(timeout=300)
    assert done.returncode == 1, err
    rows = pd.read_csv(tmp_path / "outputs/default/results.csv", keep_default_na=False)
    assert dict(zip(rows.d_model, rows.status, strict=True)) == {16: "failed", 32: "finished"}
    failed = rows[rows.status == "failed"]
    assert set(failed.fail_reason) == {
        "its process died twice, the second time alone, with exit code -9"
    }
    assert failed.command.str.startswith("zoology-bench run").all()
    assert "Traceback" not in err


def test_only_runs_that_a_dead_worker_had_begun_start_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = plan_alone([*SWEEP, "seed=0,1,2", f"output_dir={tmp_path}"])
    todo = [
        jobs.Job(config=config, run_id=run_id_of(config), overrides=words)
        for config, words in cells
    ]
    store, started, alone = RunStore(tmp_path), [], []

    def begin(job: jobs.Job) -> None:
        store.claim(run_id_of(job.config), {"begun": len(started)}).release()

    def start(arguments: list[str], *, multirun: bool) -> None:
        started.append(arguments)
        if len(started) == 1:
            begin(todo[1])
            raise BrokenProcessPool("killed")

    begin(todo[0])  # by an earlier sweep, which was interrupted
    monkeypatch.setattr(jobs, "_start", start)
    monkeypatch.setattr(jobs, "_carry_out_alone", lambda job, config_dirs: alone.append(job))
    jobs.carry_out(todo, SWEEP, [], multirun=True)
    assert alone == [todo[1]]
    assert [words[-1] == "retry_failed=false" for words in started] == [False, True]


def test_a_worker_that_dies_outside_of_every_run_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(arguments: list[str], *, multirun: bool) -> None:
        raise BrokenProcessPool("killed")

    monkeypatch.setattr(jobs, "_start", start)
    done = zoology("run", *SWEEP, "seed=0,1", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "a worker died" in done.stderr


def test_a_failed_run_is_kept_where_no_retry_is_wanted(tmp_path: Path) -> None:
    cfg = compose([*SWEEP, f"output_dir={tmp_path}"])
    record_death(cfg, "its process died", "zoology-bench run")
    kept = run(replace(cfg, retry_failed=False))
    assert (kept.status, kept.reason) == ("skipped", "its process died")
    assert set(kept.rows.status) == {"failed"}
    assert run(cfg).status == "finished"


@pytest.mark.slow
def test_a_killed_launcher_takes_its_workers_along(tmp_path: Path) -> None:
    words = with_fate("time.sleep(600)", tmp_path)
    sweep = start(*words, "model.d_model=16", "seed=0,1", cwd=tmp_path)
    locks = list_when(2, tmp_path, "outputs/default/runs/*/lock")
    workers = [int(path.read_text().split()[-1]) for path in locks]
    assert sweep.pid not in workers
    sweep.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(map(is_alive, workers))
    sweep.communicate(timeout=60)


def list_when(n: int, folder: Path, pattern: str) -> list[Path]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = [path for path in folder.glob(pattern) if path.read_text().strip()]
        if len(found) == n:
            return found
        time.sleep(0.2)
    raise AssertionError(f"{folder}: never {n} times {pattern}")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("seeds", ["0", "0,1"], ids=["run", "sweep"])
def test_a_run_that_another_process_writes_is_left_to_it(tmp_path: Path, seeds: str) -> None:
    cfg = compose([*SWEEP, "seed=0"])
    with RunStore(tmp_path / "outputs/default").claim(run_id_of(cfg), {}):
        done = zoology("run", *SWEEP, f"seed={seeds}", cwd=tmp_path)
    assert "Error executing job" not in done.stderr
    rows = pd.read_csv(tmp_path / "outputs/default/results.csv", keep_default_na=False)
    if seeds == "0":
        assert done.returncode == 2
        assert f"run {run_id_of(cfg)} is being written by" in done.stderr
        assert len(rows) == 0
    else:
        assert done.returncode == 1
        assert f"no result: {run_id_of(cfg)}" in done.stdout
        assert set(rows.seed) == {1}
        assert set(rows.status) == {"finished"}


@pytest.mark.parametrize(
    "words",
    [
        ["hydra.sweep.dir=/dev/null/x"],
        ["hydra.sweeper.max_batch_size=0"],
        ["launcher=joblib", "hydra.launcher.prefer=foo"],
        ["launcher=joblib", "hydra.launcher.batch_size=0"],
    ],
    ids=" ".join,
)
def test_settings_that_the_launcher_refuses_are_one_line(tmp_path: Path, words: list[str]) -> None:
    done = zoology("run", *SWEEP, "seed=0,1", *words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("zoology-bench: Hydra could not start the runs: ")


def test_a_job_with_a_working_directory_of_its_own_keeps_the_output_folder(tmp_path: Path) -> None:
    done = zoology("run", *SWEEP, "model=baselines", "hydra.job.chdir=true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("outputs/default/runs/*/result.json"))) == 1
