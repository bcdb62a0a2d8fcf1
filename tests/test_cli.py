"""The command line: exit codes, one-line errors, nothing written when the input is wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from tests.command import zoology

ENV = {**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
TINY = ["task=mqar_small_32_4", "trainer.max_steps=2", "trainer.eval_every=1"]
TINY += ["trainer.n_select_rows=8", "trainer.n_report_rows=16"]


def test_help_imports_neither_torch_nor_hydra():
    code = (
        "import sys; from zoology_bench.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as exit: assert exit.code == 0\n"
        "heavy = {'torch', 'hydra', 'pandas', 'wandb', 'matplotlib', 'triton'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENV, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout


def test_a_sweep_writes_rows_table_and_figures(tmp_path):
    done = zoology("run", "experiment=smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "outputs" / "smoke"
    rows = pd.read_csv(out / "results.csv", keep_default_na=False)
    assert {"attention", "base_conv", "analytic_base_conv", "in_context"} <= set(rows.model)
    assert (out / "report" / "table.md").is_file()
    assert list((out / "report").glob("*.png"))
    assert "attention" in done.stdout
    before = {p: p.stat().st_mtime_ns for p in out.glob("runs/*/result.json")}
    again = zoology("run", "experiment=smoke", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert before == {p: p.stat().st_mtime_ns for p in out.glob("runs/*/result.json")}


def test_joblib_workers_run_a_sweep_and_the_seeds_share_an_untrained_run(tmp_path):
    words = ["task=mqar_small_32_4", "trainer.n_report_rows=16", "launcher=joblib", "seed=0,1"]
    done = zoology("run", *words, "model=analytic_base_conv,baselines", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("outputs/default/runs/*/result.*"))) == 2


WRONG = {
    "unknown key": ["run", "task.seqlen=3"],
    "unknown choice": ["run", "model=atention"],
    "infeasible task": ["run", "task.n_kv_pairs=30"],
    "infeasible cell of a sweep": ["run", "task.n_kv_pairs=4,30"],
    "a field of an unset law": ["run", "task.distance.lo=3"],
    "a swept field of an unset law": ["run", "task.distance.lo=3,4"],
    "a field of an unset law of rows": ["data", "hash", "task.binding.lo=3"],
    "no distance file": ["run", "task/distance=empirical", "task.distance.path=nowhere.csv"],
    "no such device": ["run", "device=cuda:7"],
    "unknown verb": ["compare-all", "x"],
    "unknown option": ["run", "--nope"],
    "no results": ["report", "nowhere"],
    "unknown split": ["data", "export", "--split", "test", "--out", "x.npz"],
    "unknown suffix": ["data", "export", "--out", "x.parquet"],
    "no predictions": ["score", "nowhere.npz", "task=mqar"],
    "a value given twice": ["run", "seed=0,0", "launcher=joblib"],
    "no workers": ["run", "seed=0,1", "launcher=joblib", "hydra.launcher.n_jobs=0"],
    "no output folder": ["run", "output_dir="],
    "a grid and a value": ["run", "seed=0,1", "seed=5"],
    "a mixer as model": ["run", "model=mixer/hyena"],
    "an axis that is no list": ["run", "++sweep.seed=3"],
    "an axis whose value holds a comma": ["run", "++sweep.output_dir=['a,b',c]"],
    "no key": ["run", "=3"],
    "a group without a name": ["run", "logger=null"],
    "an interval": ["run", "seed=interval(0,1)"],
    "a glob": ["run", "model=glob(*)"],
    "a field taken away": ["run", "~seed"],
    "an infinite decay": ["run", "trainer.weight_decay=inf"],
    "a filter beyond memory": ["run", "model=base_conv", "model.mixer.kernel_size=10000000000000"],
    "a state beyond memory": ["run", "model=h3", "model.mixer.d_state=1000000000000"],
    "a folder without a name": ["run", "--config-dir", ""],
    "no folder of presets": ["ls", "--config-dir", "nowhere"],
    "two tasks": ["data", "export", "task=mqar,mqar_probe", "--out", "x.npz"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_wrong_input_is_one_line_code_2_and_writes_nothing(words, tmp_path):
    done = zoology(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"defaults:\n  - /experiment: bad\n", "a preset includes itself"),
        (b"\xff: 1\n", "a preset is not UTF-8 text"),
    ],
    ids=["itself", "bytes"],
)
def test_a_preset_that_cannot_be_composed_is_one_line(text, message, tmp_path):
    (tmp_path / "mine/experiment").mkdir(parents=True)
    (tmp_path / "mine/experiment/bad.yaml").write_bytes(text)
    done = zoology("run", "--config-dir", "mine", "experiment=bad", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert message in done.stderr


@pytest.mark.parametrize("name", ["a,b=c", "it's [a] 'b\"", "a \\"])
def test_presets_may_lie_in_a_folder_of_any_name(name, tmp_path):
    (tmp_path / name / "experiment").mkdir(parents=True)
    text = "# @package _global_\nexperiment: mine\n"
    (tmp_path / name / "experiment/mine.yaml").write_text(text)
    done = zoology("run", "--config-dir", name, "experiment=mine", "--cfg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("experiment: mine")


@pytest.mark.parametrize("text", ["a: [1", "a: 1\na: 2", "a:\n\t- 1"])
def test_a_preset_that_is_no_yaml_is_one_line(text, tmp_path):
    (tmp_path / "mine/experiment").mkdir(parents=True)
    (tmp_path / "mine/experiment/bad.yaml").write_text(text + "\n")
    done = zoology("run", "--config-dir", "mine", "experiment=bad", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "a preset is not readable YAML" in done.stderr


def test_a_distance_file_that_is_no_histogram_is_named(tmp_path):
    (tmp_path / "law.csv").write_text("distance,count\n8,many\n")
    done = zoology("run", "task/distance=empirical", "task.distance.path=law.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "task.distance.path" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_output_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    done = zoology("run", *TINY, "output_dir=taken", cwd=tmp_path)
    assert done.returncode == 2
    assert "output_dir=taken cannot be written" in done.stderr


def test_a_results_file_that_is_not_ours_is_refused(tmp_path):
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    done = zoology("report", "results.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "results.csv:1" in done.stderr


def test_a_checkpoint_of_another_config_is_refused(tmp_path):
    assert zoology("run", *TINY, "keep_checkpoint=true", cwd=tmp_path).returncode == 0
    assert zoology("run", *TINY, "seed=1", cwd=tmp_path).returncode == 0
    runs = tmp_path / "outputs" / "default" / "runs"
    kept = next(runs.glob("*/checkpoint.pt"))
    other = next(folder for folder in runs.iterdir() if folder != kept.parent)
    (other / "checkpoint.pt").write_bytes(kept.read_bytes())
    (other / "result.json").unlink()
    done = zoology("run", *TINY, "seed=1", cwd=tmp_path)
    assert done.returncode == 2
    assert "checkpoint of another config: seed is 0 there and 1 here" in done.stderr


def test_a_failing_cell_is_a_row_the_others_go_on_and_the_code_is_1(tmp_path):
    done = zoology("run", *TINY, "trainer.lr=1e-3,1e35", "trainer.clip_norm=null", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = pd.read_csv(tmp_path / "outputs" / "default" / "results.csv", keep_default_na=False)
    by_status = rows.groupby("status").run_id.nunique()
    assert by_status.to_dict() == {"failed": 1, "finished": 1}
    assert (rows[rows.status == "failed"].fail_reason != "").all()


def test_an_interrupt_keeps_the_last_checkpoint_and_the_run_resumes(tmp_path):
    words = ["run", "task=mqar_small_32_4", "trainer.max_steps=400", "trainer.checkpoint_every=10"]
    words += ["trainer.eval_every=50", "trainer.n_select_rows=8", "trainer.n_report_rows=16"]
    command = [sys.executable, "-m", "zoology_bench", *words]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=ENV,
        stderr=subprocess.PIPE,
        text=True,
        # A test run started in the background ignores SIGINT, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("outputs/default/runs/*/checkpoint.pt")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert not list(tmp_path.glob("outputs/default/runs/*/result.json"))
    done = zoology(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = next(tmp_path.glob("outputs/default/runs/*/metrics.jsonl")).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [*range(50, 401, 50)]


def test_exported_rows_can_be_answered_elsewhere_and_scored(tmp_path):
    import numpy as np

    exported = zoology(
        "data", "export", "task=mqar_small_32_4", "--stop", "50", "--out", "r.npz", cwd=tmp_path
    )
    assert exported.returncode == 0, exported.stderr
    rows = np.load(tmp_path / "r.npz")
    header = json.loads(str(rows["header"]))
    answers = np.take_along_axis(rows["targets"], rows["query_pos"], 1)
    answers[:25] = 0
    np.savez(
        tmp_path / "p.npz",
        predictions=answers,
        **{name: header[name] for name in ("data_hash", "split", "seed", "start", "stop")},
    )
    scored = zoology("score", "p.npz", "task=mqar_small_32_4", cwd=tmp_path)
    assert scored.returncode == 0, scored.stderr
    assert " accuracy 0.5000" in scored.stdout
    wrong_task = zoology("score", "p.npz", "task=mqar_small_64_8", cwd=tmp_path)
    assert wrong_task.returncode == 2
    assert "data_hash" in wrong_task.stderr


def test_audit_passes_on_a_shipped_preset_and_hash_prints_it(tmp_path):
    audited = zoology("data", "audit", "task=mqar_small_32_4", "--rows", "2000", cwd=tmp_path)
    assert audited.returncode == 0, audited.stderr
    assert "ceiling" in audited.stdout
    hashed = zoology("data", "hash", "task=mqar_small_32_4", cwd=tmp_path)
    assert len(hashed.stdout.split()[0]) == 64


def test_bare_overrides_mean_run_and_cfg_prints_without_running(tmp_path):
    done = zoology("run", "seed=3", "--cfg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seed: 3" in done.stdout
    assert not list(tmp_path.iterdir())
    assert zoology(*TINY, cwd=tmp_path).returncode == 0
    assert list(tmp_path.glob("outputs/default/runs/*/result.json"))


def test_ls_names_every_preset(tmp_path):
    done = zoology("ls", cwd=tmp_path)
    assert {"experiment=quickstart", "task=mqar", "model/mixer=attention"} <= set(
        done.stdout.split()
    )
