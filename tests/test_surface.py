"""Every shipped preset and experiment composes, validates and runs two steps."""

import dataclasses

import pytest

from zoology_bench.config import compose, plan
from zoology_bench.presets import config_dir
from zoology_bench.run_config import RunConfig
from zoology_bench.runner import run

TWO_STEPS = {"max_steps": 2, "batch_size": 2, "eval_every": 1, "eval_batch_rows": 2}
TWO_STEPS |= {"n_select_rows": 2, "n_report_rows": 2, "compile": False}


def presets(group: str) -> list[str]:
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def shortened(cfg: RunConfig) -> RunConfig:
    """Two steps, graded on the first of the run's evaluated tasks (ceilings cost seconds each)."""
    trainer = dataclasses.replace(cfg.trainer, **TWO_STEPS)
    first = dict(list(cfg.eval_tasks.items())[:1])
    return dataclasses.replace(cfg, trainer=trainer, eval_tasks=first, device="cpu")


@pytest.mark.parametrize("task", presets("task"))
def test_every_task_preset_trains_two_steps(task, tmp_path):
    cfg = shortened(compose([f"task={task}", "model.d_model=8", "model=base_conv"]))
    assert run(cfg, tmp_path).status == "finished"


SMALL_TRIPLES = ["task=mqar_triples", "task.seq_len=18", "task.n_kv_pairs=6", "task.n_queries=2"]
SMALL_TRIPLES += ["task.distance.hi=14"]
CIRCUITS = [name for name in presets("model") if name.startswith("base_conv_circuit")]
TASK_OF = {name: ["task=mqar_fixed_32_4"] for name in ("attention_analytic", "base_conv_analytic")}
TASK_OF |= dict.fromkeys(CIRCUITS, SMALL_TRIPLES)
TASK_OF["analytic_attention_triples"] = SMALL_TRIPLES
TASK_OF["analytic_base_conv_prefix_causal_32"] = ["task=mqar_mini_pairs_4"]
"""The task of a model that is written for one, takes one layout only, or needs its length."""


@pytest.mark.parametrize("model", presets("model"))
def test_every_model_preset_runs(model, tmp_path):
    task = TASK_OF.get(model, ["task=mqar_small_32_4"])
    cfg = shortened(compose([*task, f"model={model}"]))
    assert run(cfg, tmp_path).status == "finished"


@pytest.mark.parametrize("experiment", presets("experiment"))
def test_every_experiment_grid_is_valid_and_each_task_and_model_runs_two_steps(
    experiment, tmp_path
):
    cells = plan([f"experiment={experiment}"])
    assert {cell.experiment for cell in cells} == {experiment}
    chosen = {}
    for cell in cells:
        kind = (cell.model.label, getattr(cell.model, "init", ""), str(cell.task))
        chosen.setdefault(kind, cell)
    for cell in chosen.values():
        result = run(shortened(cell), tmp_path)
        assert result.status in ("finished", "skipped"), result.reason
