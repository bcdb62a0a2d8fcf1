"""The composite action and the workflow: inputs are declared, scripts run, nothing is injected."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.reporting.frames import frame
from tests.reporting.test_gate import runs
from zoology_bench.config import plan
from zoology_bench.reporting import load_results
from zoology_bench.reporting.files import csv_bytes

ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / ".github/actions/recall-gate/action.yml").read_text())
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
STEPS = {step.get("name", step.get("uses")): step for step in ACTION["runs"]["steps"]}


def test_every_input_is_declared_and_used():
    text = (ROOT / ".github/actions/recall-gate/action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    given = WORKFLOW["jobs"]["gate"]["steps"][-1]["with"]
    assert set(given) <= set(ACTION["inputs"])
    required = {name for name, spec in ACTION["inputs"].items() if spec.get("required")}
    assert required <= set(given)


def test_no_script_is_built_from_inputs():
    """A pull request's text must reach the shell as a value, never as code."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def execute(name: str, folder: Path, **values: str) -> tuple[int, str, str]:
    """Run a step's script as the runner would."""
    step = STEPS[name]
    declared = set(step["env"])
    outputs, summary = folder / "outputs", folder / "summary"
    environment = os.environ | {key: values.get(key, "") for key in declared}
    environment |= {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
    # The console script of this interpreter, whatever is installed elsewhere.
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    script = bin_folder / "zoology-bench"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m zoology_bench "$@"\n')
    script.chmod(0o755)
    environment["PATH"] = f"{bin_folder}:{environment['PATH']}"
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        env=environment,
        cwd=folder,
        check=False,
        capture_output=True,
    )
    texts = [path.read_text() if path.exists() else "" for path in (outputs, summary)]
    return done.returncode, texts[0], texts[1]


@pytest.mark.parametrize(("accuracy", "code"), [(0.95, 0), (0.8, 1)])
def test_the_compare_step_fails_with_the_gate_and_writes_its_summary(tmp_path, accuracy, code):
    (tmp_path / "base line.csv").write_bytes(csv_bytes(frame(runs())))
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "results.csv").write_bytes(csv_bytes(frame(runs(accuracy=accuracy))))
    values = {"BASELINE": "base line.csv", "FOLDER": str(folder), "TOLERANCE": "auto"}
    got, outputs, summary = execute("Compare", tmp_path, NUMERICS="warn", **values)
    assert got == code
    assert outputs == f"passed={'false' if code else 'true'}\n"
    assert summary.startswith(f"## Recall gate: {'failed' if code else 'passed'}")
    assert (folder / "gate.json").read_text().startswith("{")


def test_the_run_step_passes_overrides_as_words(tmp_path):
    folder = tmp_path / "out put"
    words = "model=baselines task=mqar_small_32_4 trainer.n_report_rows=8"
    code, outputs, _ = execute(
        "Run", tmp_path, EXPERIMENT="ci", OVERRIDES=words, FOLDER=str(folder), TQDM_DISABLE="1"
    )
    assert code == 0
    assert outputs == f"folder={folder}\n"
    assert set(load_results(folder).kind) == {"baseline"}


def test_the_ci_experiment_and_its_baseline_measure_the_same():
    cells = plan(["experiment=ci"])
    assert len(cells) == 5 * 2 * 3
    baseline = load_results(ROOT / "results" / "ci" / "results.csv")
    models = {cell.model.label for cell in cells} - {"baselines"}
    assert models <= set(baseline.model)
    assert {cell.task.data_hash() for cell in cells} == set(baseline.data_hash)
    assert set(baseline.status) == {"finished"}
    assert (
        baseline.loc[baseline.kind == "trained"].groupby("run_id").frozen_logits.max() != ""
    ).all()
