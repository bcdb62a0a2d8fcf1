"""The per-row oracles make rows of the same law as the layouts that they are the yardstick of."""

import numpy as np
import pytest

from tests.helpers import IGNORE, chi_square_p, expected_targets
from tests.tasks.layouts.oracles import probe_rows, stream_rows
from zoology_bench.tasks.distance import LogUniform, Uniform
from zoology_bench.tasks.mqar import MQAR

ORACLES = {
    "stream": (
        stream_rows,
        MQAR(
            layout="stream",
            vocab_size=256,
            seq_len=48,
            n_kv_pairs=6,
            n_queries=4,
            distance=LogUniform(lo=2, hi=20),
            filler="disjoint",
        ),
    ),
    "probe": (
        probe_rows,
        MQAR(
            layout="probe",
            vocab_size=256,
            seq_len=48,
            n_kv_pairs=6,
            n_queries=1,
            distance=Uniform(lo=8, hi=30),
            binding=Uniform(lo=1, hi=3),
        ),
    ),
}
N_ROWS = 3000


@pytest.fixture(params=ORACLES)
def case(request):
    oracle, task = ORACLES[request.param]
    return task, *oracle(task, np.random.default_rng(0), N_ROWS)


def test_targets_follow_from_tokens(case):
    task, inputs, targets = case
    for tokens, target in zip(inputs[:200].tolist(), targets[:200].tolist(), strict=True):
        queries = [t for t, label in enumerate(target) if label != IGNORE]
        assert len(queries) == task.queries_per_row
        assert target == expected_targets(tokens, queries, task)
        assert sum(token in task.vocabulary.values for token in tokens) == task.n_kv_pairs


def test_positions_are_distributed_as_in_the_task(case):
    """Where values and where queries stand, cell by cell, against many rows of the task."""
    task, inputs, targets = case
    batch = task.rows("train", 0, 0, 20 * N_ROWS)
    values = task.vocabulary.values
    for oracle, ours in (
        (inputs >= values.start, batch.inputs.numpy() >= values.start),
        (targets != IGNORE, batch.targets.numpy() != IGNORE),
    ):
        expected = ours.sum(0) / 20
        assert np.abs(oracle.sum(0) - expected).max() < 4.5 * np.sqrt(expected.max())


def test_distances_follow_the_law(case):
    task, inputs, targets = case
    counts = np.zeros(task.seq_len, np.int64)
    for row, query in zip(*np.nonzero(targets != IGNORE), strict=True):
        (write,) = np.nonzero(inputs[row, :query] == inputs[row, query])[0]
        counts[query - write] += 1
    law = task.placement.distances
    assert chi_square_p(counts[law.support], law.probabilities * counts.sum()) > 1e-3
