import random

import pytest

from zoology_bench.training.result import Evaluation, Progress, still_rising


def noisy(values, sigma, seed=0):
    draw = random.Random(seed)
    return [value + draw.gauss(0, sigma) for value in values]


FLAT = [0.25] * 40
RAMP = [0.25 + 0.01 * i for i in range(40)]
JUMP_NEAR_THE_END = [0.25] * 36 + [0.3, 0.6, 0.9, 0.95]
SOLVED_LONG_AGO = [0.25] * 20 + [1.0] * 20


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([], False),
        ([0.1, 0.2, 0.9], False),
        ([0.1, 0.2, 0.3, 0.4], True),
        (FLAT, False),
        (noisy(FLAT, 0.02), False),
        (RAMP, True),
        (noisy(RAMP, 0.02), True),
        (JUMP_NEAR_THE_END, True),
        (noisy(JUMP_NEAR_THE_END, 0.01), True),
        (SOLVED_LONG_AGO, False),
        (RAMP[::-1], False),
        ([0.9] * 30 + [0.904] * 10, False),
    ],
    ids=[
        "empty",
        "too short",
        "four",
        "flat",
        "noisy flat",
        "ramp",
        "noisy ramp",
        "late jump",
        "noisy late jump",
        "solved",
        "falling",
        "under half a point",
    ],
)
def test_still_rising(curve, expected):
    assert still_rising(curve) is expected


def test_noise_alone_rarely_counts_as_rising():
    alarms = sum(still_rising(noisy(FLAT, 0.03, seed)) for seed in range(1000))
    assert alarms < 60  # one-sided two sigma would be 23; the noise itself is estimated


def finished(stop_reason, curve, failure=""):
    history = [
        Evaluation(step=i, select_accuracy=a, train_loss=1.0) for i, a in enumerate(curve, start=1)
    ]
    progress = Progress(step=40, history=history, stop_reason=stop_reason, failure=failure)
    return progress.result(peak_mem_bytes=0)


@pytest.mark.parametrize(
    ("stop_reason", "expected"),
    [("max_steps", True), ("max_seconds", True), ("threshold", False), ("nan", False)],
)
def test_only_a_run_out_of_budget_is_limited_by_it(stop_reason, expected):
    assert finished(stop_reason, RAMP).budget_limited is expected


def test_failure_is_named_in_the_status():
    result = finished("nan", RAMP, failure="loss nan at step 3")
    assert (result.status, result.reason) == ("failed", "loss nan at step 3")
    assert finished("max_steps", RAMP).status == "ok"


def test_progress_survives_its_plain_form():
    history = [Evaluation(step=3, select_accuracy=0.5, train_loss=1 / 3)]
    progress = Progress(step=7, examples=9, wall_s=0.1, loss_sum=2.5, n_losses=4, history=history)
    assert Progress.from_dict(progress.to_dict()) == progress
