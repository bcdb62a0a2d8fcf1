"""The floor printed beside every accuracy: what can be scored without reading a token."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zoology_bench.baselines.best_slot import BestSlot
from zoology_bench.baselines.choice import with_absent
from zoology_bench.baselines.posterior import TablePosterior
from zoology_bench.baselines.rank import Rank
from zoology_bench.baselines.ranks import rank_law
from zoology_bench.baselines.sampling import Positions, layout_key, sampled_positions
from zoology_bench.data.layout import Vocabulary
from zoology_bench.tasks.base import Task
from zoology_bench.tasks.layouts.base import Layout

_SAMPLED_QUERIES = 1 << 19
_MOST_ROWS = 1 << 16
_LEAST_ROWS = 1 << 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """A published content-blind ceiling."""

    value: float
    """Expected accuracy; nan where the task has no placement law to compute it from."""
    se: float
    """Its standard error; 0 where exact."""
    method: str
    """exact, simulated, or unknown."""
    fact: str
    """What the best guesser looked at: position, rank, or nothing."""


@dataclass(frozen=True, slots=True)
class _Score:
    value: float
    se: float
    exact: bool


_known: dict[str, Ceiling] = {}


def content_blind_ceiling(task: Task) -> Ceiling:
    """Best accuracy of a guesser that knows layout and law and sees no token.

    Such a guesser judges each query by itself, from where all pairs stand and one fact about the
    query: its own position, or its rank among the row's queries. The ceiling is the better of the
    two, so none of the shipped baselines can honestly beat it. A guesser that weighs the positions
    of all the row's queries at once does a little better: docs/tasks.md says by how much.

    *Exact* is the law itself: integrated (official), summed (prefix where queries cannot meet) or
    enumerated. *Simulated* is the mean score of the same guesser over positions drawn from the
    layout, with its standard error over rows; the sample is fixed and belongs to no split.
    """
    layout = getattr(task, "placement", None)
    if not isinstance(layout, Layout):
        return Ceiling(value=math.nan, se=math.nan, method="unknown", fact="nothing")
    share = absent_share(task)
    key = f"{layout_key(layout)}|{share}"
    if key not in _known:
        _known[key] = _ceiling(layout, task.public_layout().vocabulary, share)
    return _known[key]


def absent_share(task: Task) -> float:
    """Share of a row's queries that ask a key never written."""
    return getattr(task, "n_absent", 0) / getattr(task, "queries_per_row", 1)


def sample_size(layout: Layout) -> int:
    """Rows that Monte Carlo over a layout's law uses."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, _SAMPLED_QUERIES // layout.spec.n_queries))


def _ceiling(layout: Layout, vocabulary: Vocabulary, share: float) -> Ceiling:
    guesser = BestSlot(layout, vocabulary, share)
    best, fact = _position_score(layout, guesser), "position"
    # A lone query's rank says nothing, and where position settles everything rank cannot add.
    if layout.spec.n_queries > 1 and best.value < 1:
        rank = _rank_score(layout, vocabulary, share)
        if rank.value > best.value:
            best, fact = rank, "rank"
    method = "exact" if best.exact else "simulated"
    return Ceiling(value=best.value, se=best.se, method=method, fact=fact)


def _position_score(layout: Layout, guesser: BestSlot) -> _Score:
    posterior, share = guesser.posterior, guesser.absent_share
    if isinstance(posterior, TablePosterior) and posterior.exact:
        return _Score(_score_of(posterior.joint, share), 0.0, True)
    n_rows = sample_size(layout)
    blocks = sampled_positions(layout, n_rows, 2 * n_rows)
    if posterior.exact:
        # The belief in the best answer is the chance of its being right: less noise than hits.
        beliefs = (guesser.beliefs(block.pair_pos, block.query_pos) for block in blocks)
        return _mean([belief.max(axis=2).mean(axis=1) for belief in beliefs])
    return _sampled_score(
        layout,
        share,
        lambda block, answer: guesser.chance_named(block.pair_pos, block.query_pos, answer),
    )


def _rank_score(layout: Layout, vocabulary: Vocabulary, share: float) -> _Score:
    law = rank_law(layout, sample_size(layout))
    if law.exact:
        return _Score(_score_of(law.joint, share), 0.0, True)
    guesser = Rank(layout, vocabulary, share, law)
    return _sampled_score(
        layout, share, lambda block, answer: guesser.chance_named_in_order(answer)
    )


def _sampled_score(
    layout: Layout, share: float, chance_named: Callable[[Positions, np.ndarray], np.ndarray]
) -> _Score:
    """Mean score over sampled rows; which of a row's queries are absent is averaged out exactly."""
    n_rows = sample_size(layout)
    scores = []
    # Not the rows on which a rank law was counted: those would flatter it.
    for block in sampled_positions(layout, n_rows, 2 * n_rows):
        ordered = block.by_rank()
        hits = (1 - share) * chance_named(ordered, ordered.asked)
        if share:
            absent = np.full_like(ordered.asked, layout.spec.n_kv_pairs)
            hits += share * chance_named(ordered, absent)
        scores.append(hits.mean(axis=1))
    return _mean(scores)


def _mean(per_row: list[np.ndarray]) -> _Score:
    scores = np.concatenate(per_row)
    se = float(scores.std(ddof=1) / math.sqrt(len(scores)))
    return _Score(_as_probability(scores.mean()), se, False)


def _score_of(joint: np.ndarray, share: float) -> float:
    """Expected accuracy of naming the likeliest answer under a joint law (facts, P)."""
    total = joint.sum(axis=1, keepdims=True)
    beliefs = with_absent(np.divide(joint, total, out=np.zeros_like(joint), where=total > 0), share)
    return _as_probability(beliefs.max(axis=1) @ total[:, 0])


def _as_probability(mean: float) -> float:
    """Without what rounding adds beyond 1 where there is nothing to guess (P = 1)."""
    return min(1.0, float(mean))
