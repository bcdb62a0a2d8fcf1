"""Recall tasks: one file each, TASKS by name."""

from zoology_bench.tasks.base import Task
from zoology_bench.tasks.mqar import MQAR

__all__ = ["MQAR", "TASKS"]

TASKS: dict[str, type[Task]] = {MQAR.name: MQAR}
