"""What ``zoology-bench data`` and ``score`` do: which task the overrides name, then one call."""

import argparse
from collections.abc import Sequence

from zoology_bench.baselines.audit import audit as audit_task
from zoology_bench.config import plan
from zoology_bench.data.export import export_rows
from zoology_bench.plain import to_plain
from zoology_bench.scoring import score as score_predictions
from zoology_bench.tasks.base import SPLITS, Task
from zoology_bench.user_errors import UserError
from zoology_bench.validation import check_int, check_name

SCORE_COLUMNS = ("slice_key", "slice_value", "metric", "value", "se", "hits", "n", "n_rows")


def tasks_of(overrides: Sequence[str], config_dirs: Sequence[str]) -> list[Task]:
    """Every distinct evaluated task of the runs that the overrides describe, in planned order."""
    distinct = {}
    for cell in plan(overrides, config_dirs):
        for task in cell.evaluated_tasks():
            distinct.setdefault(str(to_plain(task)), task)
    return list(distinct.values())


def export(options: argparse.Namespace) -> str:
    """Write one task's rows to a new file; returns the line to print."""
    check_name("--split", options.split, SPLITS)
    check_int("--start", options.start, 0)
    check_int("--stop", options.stop, options.start + 1)
    task = _only(tasks_of(options.overrides, options.config_dir))
    seed = _train_seed(options) if options.split == "train" else task.data_seed
    path = export_rows(task, options.split, seed, options.start, options.stop, options.out)
    return f"{path}: {options.split} rows {options.start}..{options.stop - 1}"


def hashes(overrides: Sequence[str], config_dirs: Sequence[str]) -> str:
    """One line a task: its data hash and what it is."""
    return "\n".join(
        f"{task.data_hash()}  {describe(task)}" for task in tasks_of(overrides, config_dirs)
    )


def audit(overrides: Sequence[str], config_dirs: Sequence[str], n_rows: int) -> tuple[str, bool]:
    """Markdown audit of every task, and whether any failed."""
    sections, failed = [], False
    for task in tasks_of(overrides, config_dirs):
        report = audit_task(task, n_rows)
        sections.append(report.to_markdown())
        failed |= report.failed
    return "\n".join(sections), failed


def score(predictions: str, overrides: Sequence[str], config_dirs: Sequence[str]) -> str:
    """Grade a predictions file; returns the table to print."""
    task = _only(tasks_of(overrides, config_dirs))
    frame = score_predictions(predictions, task)
    first = frame.iloc[0]
    floors = (
        f"floors: 1/V {first.floor_vocab:.4g}, 1/P {first.floor_pairs:.4g}, "
        f"content-blind ceiling {first.floor_ceiling:.4g} ({first.ceiling_method})"
    )
    table = frame[list(SCORE_COLUMNS)].to_string(index=False, float_format="%.4f")
    graded = f"rows {first.start}..{first.stop - 1} of {first.split}"
    return "\n".join([describe(task), graded, table, floors])


def describe(task: Task) -> str:
    """One line that tells tasks apart."""
    cell = " ".join(f"{name}={value}" for name, value in task.cell().items())
    return f"{task.name} seq_len={task.seq_len} vocab_size={task.vocab_size} {cell}"


def _only(tasks: list[Task]) -> Task:
    if len(tasks) != 1:
        raise UserError(f"the overrides name {len(tasks)} tasks; this command takes one")
    return tasks[0]


def _train_seed(options: argparse.Namespace) -> int:
    return plan(options.overrides, options.config_dir)[0].seed
