import numpy as np
import pytest

from tests.reporting.frames import both_splits, frame
from zoology_bench.reporting.capacity import capacities, capacity_markdown, fit_logistic

LOADS = np.array([2.0, 4.0, 8.0, 16.0, 32.0])


def truth(a, b, loads=LOADS):
    return 1 / (1 + np.exp(-(a - b * np.log2(loads))))


def test_an_exact_curve_gives_its_own_parameters():
    fit = fit_logistic(LOADS, truth(6.0, 2.0), np.full(5, 1e6))
    assert (fit.a, fit.b) == pytest.approx((6.0, 2.0), rel=1e-4)
    assert fit.load_at(0.5)[0] == pytest.approx(8.0, rel=1e-4)
    assert fit.load_at(0.9)[0] == pytest.approx(2 ** ((6 - np.log(9)) / 2), rel=1e-4)


def test_intervals_hold_the_truth_nineteen_times_in_twenty():
    """Binomial(200, .95) is below 180 with probability .003."""
    rng, loads = np.random.default_rng(0), np.repeat(LOADS, 3)
    held = 0
    for _ in range(200):
        y = rng.binomial(300, truth(6.0, 2.0, loads)) / 300
        _, low, high = fit_logistic(loads, y, np.full(15, 300.0)).load_at(0.5)
        held += low <= 8.0 <= high
    assert held >= 180


def test_a_jump_between_two_loads_lies_between_them():
    fit = fit_logistic(LOADS, np.array([1.0, 1.0, 0.0, 0.0, 0.0]), np.full(5, 1000.0))
    assert 4 < fit.load_at(0.5)[0] < 8


def test_recall_that_does_not_fall_has_no_fit():
    assert fit_logistic(LOADS, np.linspace(0.1, 0.9, 5), np.full(5, 100.0)) is None


def run(model, accuracies, **changes):
    return [
        both_splits(
            accuracy,
            model=model,
            mixer=model,
            n_kv_pairs=pairs,
            n_queries=pairs,
            floor_ceiling=0.0,
            floor_pairs=0.0,
            floor_vocab=0.0,
            seed=seed,
            **changes,
        )
        for pairs, accuracy in accuracies.items()
        for seed in (0, 1)
    ]


def test_capacities_are_fitted_by_model_or_bounded_by_what_was_run():
    curve = dict(zip((2, 4, 8, 16, 32), truth(6.0, 2.0), strict=True))
    rows = frame(
        *run("falls", curve),
        *run("holds", dict.fromkeys(curve, 0.98)),
        *run("never", dict.fromkeys(curve, 0.05)),
        *run("short", {2: 0.9, 4: 0.5}),
    )
    lines, fits = capacities(rows)
    found = {row.arm.partition(" ")[0]: row for row in lines.itertuples()}
    assert set(found) == {"falls", "holds", "never"}
    assert found["falls"].k50 == pytest.approx(8, rel=0.02)
    assert found["falls"].k50_low < 8 < found["falls"].k50_high
    assert (found["holds"].k90, found["holds"].k90_bound) == (32, ">")
    assert (found["never"].k50, found["never"].k50_bound) == (2, "<")
    assert {key[0].partition(" ")[0] for key in fits} >= {"falls"}
    text = capacity_markdown(lines).splitlines()
    shown = {line.split()[1]: line.split(" | ")[2] for line in text if line.startswith("| ")}
    assert shown["holds"] == "> 32"
    assert shown["falls"].startswith("8")
    assert capacity_markdown(lines.iloc[:0]) == ""


def test_a_level_that_the_runs_do_not_determine_has_no_number():
    """Recall up and down again: the logistic's slope is nearly flat, its crossing anywhere."""
    lines, _ = capacities(frame(*run("jumps", {2: 0.8, 4: 0.99, 8: 0.8})))
    assert lines.k90_bound.item() == "?"
    assert np.isnan(lines.k90.item())
    assert capacity_markdown(lines).splitlines()[-1].endswith("| > 8 | ? |")


def test_guessing_is_no_capacity():
    """Accuracy equal to the floor is recall 0, however high the floor."""
    rows = frame(
        *(
            both_splits(1 / pairs, n_kv_pairs=pairs, n_queries=pairs, floor_ceiling=1 / pairs)
            for pairs in (2, 4, 8)
        )
    )
    lines, _ = capacities(rows)
    assert (lines.k50.item(), lines.k50_bound.item()) == (2, "<")
