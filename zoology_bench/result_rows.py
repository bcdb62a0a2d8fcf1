"""Long-form result rows: joins what the task, the model, the trainer and the machine each know."""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from zoology_bench.baselines import BaselinesConfig
from zoology_bench.plain import to_plain
from zoology_bench.run_config import RunConfig
from zoology_bench.scoring import floors
from zoology_bench.tasks.base import Task
from zoology_bench.training.metrics import Tally
from zoology_bench.training.result import TrainResult

NOT_IDENTITY = ("output_dir", "logger", "force", "retry_failed", "keep_checkpoint", "sweep")
"""Fields of a RunConfig that cannot change a result, left out of run_id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFields:
    """Columns that describe the model; the defaults describe one without weights."""

    kind: str
    """trained, untrained or baseline."""
    model: str
    """The label a table shows."""
    mixer: str = ""
    init: str = ""
    causal: bool = True
    d_model: int | None = None
    n_layers: int | None = None
    n_params_total: int | None = None
    n_params_non_embedding: int | None = None
    n_params_mixer: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingFields:
    """Columns that say how the weights came about; the defaults: nothing was trained."""

    lr: float | None = None
    steps: int = 0
    examples: int = 0
    wall_s: float = 0.0
    stop_reason: str = ""
    budget_limited: bool = False
    peak_mem_bytes: int | None = None

    @classmethod
    def of(cls, result: TrainResult, lr: float) -> "TrainingFields":
        """The columns of a finished or failed training."""
        return cls(
            lr=lr,
            steps=result.steps,
            examples=result.examples,
            wall_s=result.wall_s,
            stop_reason=result.stop_reason,
            budget_limited=result.budget_limited,
            peak_mem_bytes=result.peak_mem_bytes,
        )


def kind_of(cfg: RunConfig) -> str:
    """trained, untrained or baseline: how the run's numbers come about."""
    if isinstance(cfg.model, BaselinesConfig):
        return "baseline"
    return "trained" if cfg.model.needs_training else "untrained"


def run_id_of(cfg: RunConfig) -> str:
    """Content hash of everything in the config that can change a result, and the task versions."""
    plain = to_plain(cfg)
    identity = {k: v for k, v in plain.items() if k not in NOT_IDENTITY}
    if kind_of(cfg) != "trained":
        # Nothing is drawn from the seed, and of the trainer only the number of graded rows counts.
        identity |= {"seed": 0, "trainer": plain["trainer"]["n_report_rows"]}
    versions = {where: task.version for where, task in cfg.named_tasks()}
    return _hash({"config": identity, "task_versions": versions})


def run_fields(cfg: RunConfig) -> dict[str, Any]:
    """Columns that are equal in every row of a run."""
    plain = to_plain(cfg)
    model = {k: v for k, v in plain["model"].items() if k not in ("vocab_size", "seq_len")}
    run_id = run_id_of(cfg)
    return {
        "experiment": cfg.experiment,
        "run_id": run_id,
        "config_path": f"runs/{run_id}/config.json",
        "model_id": _hash(model),
        "train_id": _hash(plain["mixture"] or plain["task"]),
        "trainer_id": _hash(plain["trainer"]),
        "seed": cfg.seed if kind_of(cfg) == "trained" else 0,
        "threads": cfg.threads,
    }


def task_fields(task: Task) -> dict[str, Any]:
    """Columns of the evaluated cell: what it is, its hash and its floors."""
    return {
        "task": task.name,
        "task_version": task.version,
        "data_hash": task.data_hash(),
        "vocab_size": task.vocab_size,
        "seq_len": task.seq_len,
        "data_seed": task.data_seed,
        **task.cell(),
        **floors(task),
    }


def tally_fields(tallies: Iterable[Tally], split: str) -> list[dict[str, Any]]:
    """One dict of columns per slice and metric."""
    rows = []
    for tally in tallies:
        fields = asdict(tally)
        fields["se"] = None if math.isnan(tally.se) else tally.se
        rows.append({"split": split, **fields})
    return rows


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
