"""Is a generator honest? Its rows against its floors, its law, and independence of the key."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from zoology_bench.baselines import build_baselines, content_blind_ceiling
from zoology_bench.baselines.audit_report import AuditReport, key_groups
from zoology_bench.baselines.base import Written
from zoology_bench.baselines.ceiling import Ceiling
from zoology_bench.baselines.fitted import cross_fitted_hits
from zoology_bench.baselines.statistics import (
    ChiSquare,
    Estimate,
    Z,
    chi_square,
    correlation,
    mean_over_rows,
    quintile_shares,
)
from zoology_bench.data.batch import Batch
from zoology_bench.tasks.base import Task
from zoology_bench.tasks.mqar import MQAR
from zoology_bench.validation import check_int

P_LAW = 1e-5
"""The distance law counts as missed below this probability."""
_MOST_KEY_GROUPS = 8
_BLOCK_TOKENS = 1 << 20


def audit(task: Task, n_rows: int = 20_000) -> AuditReport:
    """Audit report rows 0..n_rows-1 of a task.

    It fails if a baseline, or a guesser fitted to one half of the rows and graded on the other,
    beats the published content-blind ceiling by more than the 99.9 % interval of their difference;
    if distances miss their law (p < 1e-5); or if re-bound pairs or absent queries are not as many
    as configured. Where slots are drawn without replacement (official) the law's p is conservative.

    Args:
        task: the task.
        n_rows: at least 100.

    Raises:
        ValueError: too few rows, or a task without a placement law.
    """
    check_int("n_rows", n_rows, 100)
    if not isinstance(task, MQAR):
        raise ValueError(f"task={task.name} has no placement law to audit its rows against")
    rows = _collect(task, n_rows)
    scores = {name: mean_over_rows(hits) for name, hits in rows.hits.items()}
    ceiling = content_blind_ceiling(task)
    present = rows.asked < task.n_kv_pairs
    index, distance = rows.asked[present], rows.distance[present]
    law = _law(task, distance)
    n_groups = min(task.n_kv_pairs, _MOST_KEY_GROUPS)
    group = index * n_groups // task.n_kv_pairs
    n_absent = int((~present).sum())
    return AuditReport(
        task=_describe(task),
        n_rows=n_rows,
        scores=scores,
        ceiling=ceiling,
        correlation=correlation(index, distance, np.nonzero(present)[0]),
        key_groups=key_groups(task.n_kv_pairs, n_groups),
        quintiles=quintile_shares(group, distance, n_groups),
        law=law,
        n_queries=rows.asked.size,
        n_absent=n_absent,
        n_rebound=rows.n_rebound,
        failures=[
            *_beaten(scores, ceiling),
            *_missed_law(law),
            *_miscounted(task, n_rows, n_absent, rows.n_rebound),
        ],
    )


@dataclass(slots=True)
class _Rows:
    """What is kept of the audited rows."""

    asked: np.ndarray
    """(n, Q) pair index, P for absent keys."""
    distance: np.ndarray
    """(n, Q), -1 for absent keys."""
    hits: dict[str, np.ndarray]
    """(n, Q) chance of being right, by baseline."""
    n_rebound: int


def _collect(task: MQAR, n_rows: int) -> _Rows:
    baselines = build_baselines(task)
    written = Written(task.placement, task.vocabulary)
    hits: dict[str, list[np.ndarray]] = {name: [] for name in baselines}
    columns: list[tuple[np.ndarray, ...]] = []
    n_rebound = 0
    for batch in _blocks(task, n_rows):
        for name, baseline in baselines.items():
            hits[name].append(baseline.hit_probability(batch).numpy())
        pair_pos, asked = written(batch)
        n_rebound += _count_rebound(batch, pair_pos)
        rank = batch.query_pos.argsort(1).argsort(1).numpy()
        position = batch.query_pos.numpy()
        before = (pair_pos[:, None, :] < position[:, :, None]).sum(axis=2)
        back = np.where(asked < task.n_kv_pairs, before - 1 - asked, task.n_kv_pairs)
        columns.append((asked, batch.distance.numpy(), position, rank, before, back))
    asked, distance, position, rank, before, back = (
        np.concatenate(part) for part in zip(*columns, strict=True)
    )
    scored = {name: np.concatenate(parts) for name, parts in hits.items()}
    scored["fitted to position"] = cross_fitted_hits(position, asked, task.seq_len)
    scored["fitted to rank"] = cross_fitted_hits(rank, asked, task.n_kv_pairs)
    scored["fitted to pairs before"] = cross_fitted_hits(before, back, task.n_kv_pairs + 1)
    return _Rows(asked, distance, scored, n_rebound)


def _blocks(task: MQAR, n_rows: int) -> Iterator[Batch]:
    size = max(1, _BLOCK_TOKENS // (task.seq_len + task.queries_per_row * task.n_kv_pairs))
    for start in tqdm(range(0, n_rows, size), desc="audit", unit="block", delay=2, disable=None):
        yield task.rows("report", task.data_seed, start, min(start + size, n_rows))


def _count_rebound(batch: Batch, pair_pos: np.ndarray) -> int:
    keys = np.sort(batch.inputs.gather(1, torch.from_numpy(pair_pos)).numpy(), axis=1)
    return int((keys[:, 1:] == keys[:, :-1]).sum())


def _law(task: MQAR, distance: np.ndarray) -> ChiSquare | None:
    try:
        table = task.placement.distances
    except NotImplementedError:
        return None
    probabilities = np.zeros(task.seq_len)
    probabilities[table.support] = table.probabilities
    return chi_square(np.bincount(distance, minlength=task.seq_len), probabilities)


def _beaten(scores: dict[str, Estimate], ceiling: Ceiling) -> list[str]:
    failures = []
    for name, score in scores.items():
        margin = Z * (score.se**2 + ceiling.se**2) ** 0.5
        if score.value - ceiling.value > margin + 1e-9:
            failures.append(
                f"{name} scores {score.value:.4f}, above the content-blind ceiling"
                f" {ceiling.value:.4f} by more than {margin:.4f}"
            )
    return failures


def _missed_law(law: ChiSquare | None) -> list[str]:
    if law is None or law.p >= P_LAW:
        return []
    return [f"distances miss their law: chi-square {law.statistic:.1f} on {law.n_bins} bins"]


def _miscounted(task: MQAR, n_rows: int, n_absent: int, n_rebound: int) -> list[str]:
    wanted_absent = task.n_absent * n_rows
    wanted_rebound = task.n_rebound * n_rows
    failures = []
    if n_absent != wanted_absent:
        failures.append(f"{n_absent} absent queries instead of {wanted_absent}")
    if n_rebound != wanted_rebound:
        failures.append(f"{n_rebound} re-bound pairs instead of {wanted_rebound}")
    return failures


def _describe(task: MQAR) -> str:
    return (
        f"{task.name} {task.layout}, T = {task.seq_len}, P = {task.n_kv_pairs},"
        f" Q = {task.queries_per_row}, V = {task.vocab_size}, filler {task.filler}"
    )
