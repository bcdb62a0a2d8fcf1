"""Grading: a model's answers on the rows of every evaluated task, as result rows.

Trained, analytic and baseline models are asked the same rows in the same pieces.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from zoology_bench.analytic import AnalyticModel
from zoology_bench.baselines import build_baselines
from zoology_bench.data.batch import Batch
from zoology_bench.reporting.columns import COVERAGE
from zoology_bench.reporting.frozen import N_LOGITS, encode_logits
from zoology_bench.result_rows import ModelFields, TrainingFields, kind_of, tally_fields
from zoology_bench.run_config import RunConfig
from zoology_bench.tasks.base import Task
from zoology_bench.training import seeding
from zoology_bench.training.evaluate import (
    Predictor,
    accuracy,
    evaluate,
    evaluate_with_loss,
    evaluation_mode,
)
from zoology_bench.training.metrics import Tallies

Described = list[tuple[Task, dict[str, Any]]]
"""Every evaluated task with its own columns (``result_rows.task_fields``)."""


def grade_baselines(cfg: RunConfig, described: Described) -> list[dict[str, Any]]:
    """Rows of every baseline, scored by its chance of being right."""
    rows = []
    for task, fields in described:
        for name, baseline in build_baselines(task).items():
            tallies = Tallies(task.public_layout().vocabulary)
            for batch in _pieces(task, "report", cfg.trainer.n_report_rows, cfg):
                tallies.add_hit_probability(batch, baseline.hit_probability(batch))
            columns = {**fields, **columns_of(ModelFields(kind="baseline", model=name))}
            rows += [{**columns, **row} for row in tally_fields(tallies.rows(), "report")]
    return rows


def grade_analytic(cfg: RunConfig, described: Described) -> list[dict[str, Any]]:
    """Rows of the analytic model, bound to each task's public layout."""
    rows = []
    for task, fields in described:
        model = cfg.model.build(task.public_layout())
        count = model.n_params()
        columns = ModelFields(
            kind="untrained",
            model=cfg.model.label,
            mixer=cfg.model.mixer_label,
            causal=model.causal,
            d_model=getattr(model, "d_model", None),
            n_layers=model.n_layers,
            n_params_total=count.total,
            n_params_non_embedding=count.non_embedding,
            n_params_mixer=count.mixer,
        )
        columns = {**fields, **columns_of(columns), "state_bytes": model.state_bytes(task.seq_len)}
        rows += graded(cfg, model, task, "report", columns)
        rows += _predicted(cfg, model, task, columns)
    return rows


def _predicted(
    cfg: RunConfig, model: AnalyticModel, task: Task, columns: dict[str, Any]
) -> list[dict[str, Any]]:
    """The row of the share that the construction is predicted to answer."""
    tallies = Tallies(task.public_layout().vocabulary)
    for batch in _pieces(task, "report", cfg.trainer.n_report_rows, cfg):
        tallies.add_hit_probability(batch, model.covered(batch).double())
    overall = [replace(t, metric=COVERAGE) for t in tallies.rows() if t.slice_key == ""]
    return [{**columns, **row} for row in tally_fields(overall, "report")]


def failed_rows(
    cfg: RunConfig, described: Described, training: TrainingFields, reason: str
) -> list[dict[str, Any]]:
    """One row per evaluated cell without a number, so that the failure is counted, not dropped."""
    model = ModelFields(
        kind=kind_of(cfg),
        model=cfg.model.label,
        mixer=getattr(cfg.model, "mixer_label", ""),
        init=getattr(cfg.model, "init_label", ""),
        causal=getattr(cfg.model, "causal", True),
        d_model=getattr(cfg.model, "d_model", None),
        n_layers=getattr(cfg.model, "n_layers", None),
    )
    columns = {**columns_of(model), **columns_of(training), "split": "report", "metric": "accuracy"}
    return [{**fields, **columns, "fail_reason": reason} for _, fields in described]


def graded(
    cfg: RunConfig, model: Predictor, task: Task, split: str, columns: dict[str, Any]
) -> list[dict[str, Any]]:
    """Rows of one model on one split of one task; ``columns`` are equal in all of them.

    A trained model also gets its cross entropy; predictions without logits have none.
    """
    n_rows = cfg.trainer.n_report_rows if split == "report" else cfg.trainer.n_select_rows
    vocabulary = task.public_layout().vocabulary
    pieces = _pieces(task, split, n_rows, cfg)
    if isinstance(model, nn.Module):
        tallies = evaluate_with_loss(model, pieces, vocabulary, cfg.device)
    else:
        tallies = evaluate(model, pieces, vocabulary, cfg.device)
    return [{**columns, **row} for row in tally_fields(tallies.rows(), split)]


def select_score(cfg: RunConfig) -> Callable[[Any], float]:
    """Accuracy on the select split, averaged over the evaluated tasks; rows are made once."""
    n_rows = cfg.trainer.n_select_rows
    kept = [list(_pieces(task, "select", n_rows, cfg)) for task in cfg.evaluated_tasks()]

    def score(model: Predictor) -> float:
        return sum(accuracy(model, batches, cfg.device) for batches in kept) / len(kept)

    return score


_FROZEN_QUERIES = 8
"""Report rows whose last query the frozen model is asked."""


def frozen_model(cfg: RunConfig) -> nn.Module:
    """The run's model as it is before training, with the weights of seed 0 whatever its seed."""
    # A user's own module may draw from the global generators while it is made.
    device = torch.device(cfg.device)
    with seeding.preserved_global_state(device):
        return cfg.model.build(seeding.generator(0, "init")).to(device)


def frozen_logits(model: Callable[..., torch.Tensor], task: Task, device: str) -> str:
    """64 float32 logits that only a change of the numerics, the weights' law or the data moves.

    Args:
        model: ``(tokens (B, T), positions (B, Q)) -> logits (B, Q, V)``, untrained.
        task: the evaluated cell; the last query of its first 8 report rows is asked.
        device: where the model lives.

    Returns:
        For each of the 8 queries the logits of 8 tokens spread evenly over the vocabulary, encoded.
    """
    batch = task.rows("report", task.data_seed, 0, _FROZEN_QUERIES)
    with evaluation_mode(model):
        logits = model(batch.inputs.to(device), batch.query_pos[:, -1:].to(device))
    per_query = N_LOGITS // _FROZEN_QUERIES
    tokens = [math.floor(i * task.vocab_size / per_query) for i in range(per_query)]
    return encode_logits(logits[:, 0, tokens].float().cpu().numpy())


def with_frozen_logits(rows: list[dict[str, Any]], logits: str) -> list[dict[str, Any]]:
    """Put the logits into the overall accuracy row on report, once per run and cell."""
    for row in rows:
        if (row["split"], row["slice_key"], row["metric"]) == ("report", "", "accuracy"):
            row["frozen_logits"] = logits
    return rows


def _pieces(task: Task, split: str, n_rows: int, cfg: RunConfig) -> Iterator[Batch]:
    step = cfg.trainer.eval_batch_rows
    for start in range(0, n_rows, step):
        yield task.rows(split, task.data_seed, start, min(start + step, n_rows))


def columns_of(fields: ModelFields | TrainingFields) -> dict[str, Any]:
    """The fields as result-row columns."""
    return {name: getattr(fields, name) for name in fields.__slots__}
