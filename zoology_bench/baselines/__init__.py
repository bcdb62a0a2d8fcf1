"""Content-blind predictors: how far guessing gets, exactly, and the ceiling none of them beats."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from zoology_bench.baselines.base import Baseline
from zoology_bench.baselines.best_slot import BestSlot
from zoology_bench.baselines.ceiling import (
    Ceiling,
    absent_share,
    content_blind_ceiling,
    sample_size,
)
from zoology_bench.baselines.in_context import InContext
from zoology_bench.baselines.rank import Rank
from zoology_bench.baselines.ranks import rank_law
from zoology_bench.baselines.recency import Recency
from zoology_bench.baselines.uniform_vocab import UniformVocab
from zoology_bench.tasks.base import Task
from zoology_bench.tasks.layouts.base import Layout

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselinesConfig",
    "Ceiling",
    "build_baselines",
    "content_blind_ceiling",
]


def _uniform_vocab(task: Task) -> Baseline:
    return UniformVocab(task.vocab_size)


def _in_context(task: Task) -> Baseline:
    return InContext(task.public_layout().vocabulary)


def _placement(task: Task) -> Layout:
    layout = getattr(task, "placement", None)
    if not isinstance(layout, Layout):
        raise ValueError(f"task={task.name} has no placement law, which this baseline needs")
    return layout


def _best_slot(task: Task) -> Baseline:
    return BestSlot(_placement(task), task.public_layout().vocabulary, absent_share(task))


def _rank(task: Task) -> Baseline:
    layout = _placement(task)
    law = rank_law(layout, sample_size(layout))
    return Rank(layout, task.public_layout().vocabulary, absent_share(task), law)


def _recency(task: Task) -> Baseline:
    return Recency()


BASELINES: dict[str, Callable[[Task], Baseline]] = {
    "uniform_vocab": _uniform_vocab,
    "in_context": _in_context,
    "best_slot": _best_slot,
    "rank": _rank,
    "recency": _recency,
}
"""Every baseline by name, as a function of the task."""

_FROM_THE_LAW = ("best_slot", "rank")
"""Baselines that need the task's placement law."""


def build_baselines(task: Task) -> dict[str, Baseline]:
    """Every baseline that applies to a task.

    A task without a placement law (``task.placement``) gets those that need none.
    """
    has_law = isinstance(getattr(task, "placement", None), Layout)
    return {
        name: build(task)
        for name, build in BASELINES.items()
        if has_law or name not in _FROM_THE_LAW
    }


@dataclass(kw_only=True, slots=True)
class BaselinesConfig:
    """All content-blind predictors, where an experiment would name a model."""

    name: ClassVar[str] = "baselines"
    """The key in configs/model."""

    @property
    def label(self) -> str:
        """What stands for them where one name is needed."""
        return self.name
