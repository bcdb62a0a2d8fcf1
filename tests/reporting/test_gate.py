"""The gate on made-up results: every verdict, and its error rates on resampled runs."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from tests.reporting.frames import both_splits, failed, frame, row
from zoology_bench.reporting import compare_results
from zoology_bench.reporting.frozen import encode_logits
from zoology_bench.reporting.gate import judge
from zoology_bench.reporting.gate_report import to_json, to_markdown
from zoology_bench.reporting.gate_statistics import Sample, row_variance

LOGITS = np.random.default_rng(0).normal(size=64)
CELLS = [(seq_len, pairs) for seq_len in (32, 64, 128) for pairs in (2, 4, 8, 16)]


def runs(n_seeds=3, accuracy=0.95, sd=0.004, cells=((64, 4),), seed=0, **changes):
    rng = np.random.default_rng(seed)
    rows = []
    for seq_len, pairs in cells:
        for index in range(n_seeds):
            value = float(np.clip(accuracy + sd * rng.normal(), 0, 1))
            cell = {"seq_len": seq_len, "n_kv_pairs": pairs, "n_queries": pairs}
            one = {"frozen_logits": encode_logits(LOGITS), **cell, **changes}
            rows.append(row(seed=index, hits=float(round(value * 4000)), **one))
    return rows


def only(comparison):
    (cell,) = comparison.cells
    return cell


def test_a_result_passes_against_itself_and_nothing_moved():
    comparison = compare_results(frame(runs()), frame(runs()))
    cell = only(comparison)
    assert comparison.passed
    assert (cell.drop, cell.cause, cell.numerics, cell.verdict) == (0, "", 0, "ok")
    assert comparison.warnings == []
    assert 0 < cell.tolerance < cell.detectable < 0.1


def test_a_large_drop_fails_and_a_large_rise_does_not():
    high, low = frame(runs()), frame(runs(accuracy=0.9, seed=1))
    down, up = compare_results(high, low), compare_results(low, high)
    assert (only(down).verdict, only(down).cause) == ("dropped", "training moved")
    assert only(down).drop > only(down).tolerance
    assert only(down).p < 0.05
    assert (only(up).verdict, up.passed) == ("ok", True)


def test_data_that_changed_is_no_drop_and_is_not_compared():
    comparison = compare_results(frame(runs()), frame(runs(accuracy=0.5, data_hash="other")))
    cell = only(comparison)
    assert (cell.verdict, cell.cause) == ("data changed", "data changed")
    assert (cell.p, cell.drop) == (None, None)
    other = compare_results(frame(runs()), frame(runs(task_version=2)))
    assert only(other).verdict == "data changed"


@pytest.mark.parametrize(("change", "moved"), [(1e-6, False), (1e-3, True)])
def test_moved_numerics_are_named_and_fail_only_on_request(change, moved):
    logits = LOGITS.copy()
    logits[7] += change
    other = frame(runs(frozen_logits=encode_logits(logits)))
    lenient = compare_results(frame(runs()), other)
    strict = compare_results(frame(runs()), other, numerics_fail=True)
    assert lenient.passed
    assert only(lenient).cause == ("numerics moved" if moved else "")
    assert bool(lenient.warnings) is moved
    assert only(strict).verdict == ("numerics moved" if moved else "ok")


def test_a_drop_with_moved_numerics_names_them_as_the_cause():
    other = frame(runs(accuracy=0.8, frozen_logits=encode_logits(1.01 * LOGITS)))
    assert only(compare_results(frame(runs()), other)).cause == "numerics moved"


def test_without_logits_numerics_are_said_to_be_unknown():
    comparison = compare_results(frame(runs(frozen_logits="")), frame(runs()))
    assert only(comparison).numerics is None
    assert "no frozen logits on one side" in comparison.warnings[0]


def test_a_missing_cell_fails_and_a_new_one_does_not():
    two = frame(runs(cells=[(64, 4), (128, 8)]))
    one = frame(runs())
    assert [c.verdict for c in compare_results(two, one).failures] == ["missing"]
    assert compare_results(one, two).passed
    assert [c.verdict for c in compare_results(one, two).cells] == ["ok", "new"]


def test_a_run_that_failed_fails_the_cell_even_where_the_others_score():
    crashed = frame(runs(n_seeds=2), failed(seed=2, run_id="crashed"))
    assert only(compare_results(frame(runs()), crashed)).verdict == "runs failed"
    assert only(compare_results(crashed, crashed)).verdict == "ok"


def test_models_without_training_must_give_the_same_number():
    def baseline(hits):
        return frame(row(kind="baseline", model="rank", lr=None, d_model=None, hits=hits))

    assert only(compare_results(baseline(1000.0), baseline(999.0))).verdict == "dropped"
    up = compare_results(baseline(999.0), baseline(1000.0))
    assert up.passed
    assert "changed without training, upwards" in up.warnings[0]


def test_hardware_threads_and_seeds_that_differ_are_said():
    before = frame(runs(hardware="EPYC", threads=1, versions="torch=2.13.0"))
    after = frame(runs(n_seeds=2, hardware="Xeon", threads=2, versions="torch=2.14.0"))
    text = "\n".join(compare_results(before, after).warnings)
    assert "hardware differ: EPYC before, Xeon now" in text
    assert "threads differ: 1 before, 2 now" in text
    assert "versions differ: torch=2.13.0 before, torch=2.14.0 now" in text
    assert "fewer seeds than before: attention (recipe) D=64, T=64 P=4" in text


def test_a_cell_whose_seeds_disagree_too_much_says_that_no_drop_would_be_found():
    unstable = frame(*(row(seed=seed, hits=hits) for seed, hits in ((0, 40.0), (1, 3960.0))))
    comparison = compare_results(unstable, unstable)
    assert only(comparison).tolerance > only(comparison).baseline
    (line,) = [x for x in to_markdown(comparison).splitlines() if x.startswith("| ✅")]
    assert [cell.strip() for cell in line.split("|")[6:8]] == ["none", "none"]


def test_one_seed_is_judged_by_its_rows_and_says_so():
    comparison = compare_results(frame(runs(n_seeds=1)), frame(runs(n_seeds=1, accuracy=0.9)))
    assert only(comparison).verdict == "dropped"
    assert "one seed on each side" in comparison.warnings[0]


def test_pairing_ignores_hashes_of_the_configuration_unless_they_alone_tell_apart():
    old, new = runs(model_id="a", trainer_id="t"), runs(model_id="b", trainer_id="u")
    comparison = compare_results(frame(old), frame(new))
    assert comparison.passed
    assert [line.partition(":")[0] for line in comparison.warnings] == [
        "model settings differ",
        "trainer settings differ",
    ]
    named = [
        one | {"run_id": f"{one['run_id']}-{one['model_id']}"}
        for one in (*runs(model_id="a"), *runs(model_id="b", accuracy=0.7))
    ]
    comparison = compare_results(frame(named), frame(named))
    assert len(comparison.cells) == 2
    assert comparison.passed


def test_runs_that_nothing_tells_apart_are_refused():
    twice = [*runs(), *[one | {"run_id": one["run_id"] + "-again"} for one in runs()]]
    with pytest.raises(ValueError, match="have the same seed and no column tells them apart"):
        compare_results(frame(twice), frame(runs()))


def test_learning_rates_are_chosen_on_select_before_comparing():
    def swept(best):
        return frame(
            both_splits(0.9, select=0.9 if best == 1e-3 else 0.1, lr=1e-3),
            both_splits(0.6, select=0.1 if best == 1e-3 else 0.9, lr=1e-2),
        )

    assert only(compare_results(swept(1e-3), swept(1e-3))).baseline == 0.9
    assert only(compare_results(swept(1e-3), swept(1e-2))).verdict == "dropped"


def test_a_given_tolerance_is_the_rule_alone():
    before, after = frame(runs(sd=0.0)), frame(runs(sd=0.0, accuracy=0.93))
    assert compare_results(before, after, tolerance=0.02).passed
    strict = only(compare_results(before, after, tolerance=0.019))
    assert (strict.verdict, strict.p, strict.tolerance) == ("dropped", None, 0.019)
    assert strict.detectable > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"tolerance": 1.5}, "tolerance=1.5 must be auto"), ({"level": 0.7}, "level=0.7 must lie")],
)
def test_numbers_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare_results(frame(runs()), frame(runs()), **arguments)


def test_json_holds_everything_and_only_numbers_that_json_has():
    comparison = compare_results(frame(runs()), frame(runs(accuracy=0.9)))
    plain = json.loads(to_json(comparison))
    assert (plain["passed"], plain["n_cells"], plain["tolerance"]) == (False, 1, "auto")
    (cell,) = plain["cells"]
    assert set(asdict(only(comparison))) | {"cause"} == set(cell)
    assert cell["measured"]["seq_len"] == 64
    assert cell["drop"] == pytest.approx(0.05, abs=0.01)
    infinite = compare_results(
        frame(runs()), frame(runs(frozen_logits=encode_logits(np.nan * LOGITS)))
    )
    assert json.loads(to_json(infinite))["cells"][0]["numerics"] is None


def test_markdown_leads_with_what_fails_and_keeps_names_as_text():
    evil = {"model": "<script>|x@y"}
    before = frame(runs(cells=[(64, 4), (128, 8)], **evil))
    after = frame(runs(**evil), runs(cells=[(128, 8)], accuracy=0.5, **evil))
    text = to_markdown(compare_results(before, after))
    head, _, folded = text.partition("<details>")
    assert head.startswith("## Recall gate: failed\n\n**1 of 2 cells fail**: 1 dropped.")
    assert "T=128 P=8" in head
    assert "T=64 P=4" in folded
    assert "<script>" not in text
    assert "@y" not in text
    assert "\\|x" in text


CELL, SEED, ROWS = 12, 5, 1000


def draw(law, rng, drop=0.0):
    """Accuracies (12 cells, 5 seeds) of one result on 1,000 rows, one query a row: the most noise.

    ``drop`` is taken from cell 0.
    """
    means, seed_sd = LAWS[law]
    truth = means[:, None] + seed_sd[:, None] * rng.normal(size=(CELL, SEED))
    truth[0] -= drop
    return rng.binomial(ROWS, np.clip(truth, 0, 1)) / ROWS


LAWS = {
    "alike": (np.full(CELL, 0.95), np.full(CELL, 0.005)),
    "solved to hard": (np.linspace(0.3, 1.0, CELL), 0.02 * np.sqrt(np.linspace(0.3, 1.0, CELL))),
    "some unstable": (np.full(CELL, 0.9), np.where(np.arange(CELL) < 3, 0.08, 0.003)),
}


def standard_error(value):
    return np.sqrt(value * (1 - value) / (ROWS - 1))


def verdicts(before, after, judge=judge):
    samples = [
        Sample(
            baseline=a.tolist(),
            candidate=b.tolist(),
            row_variance=float(
                np.mean([row_variance(x, standard_error(x), ROWS, ROWS) for x in (*a, *b)])
            ),
        )
        for a, b in zip(before, after, strict=True)
    ]
    return [cell["verdict"] for cell in judge(samples, None, 0.05)]


def count_alarms(law, judge=judge):
    rng = np.random.default_rng(1)
    pairs = [(draw(law, rng), draw(law, rng)) for _ in range(200)]
    return sum("dropped" in verdicts(a, b, judge) for a, b in pairs)


@pytest.mark.parametrize("law", LAWS)
def test_identical_laws_raise_at_most_sixteen_false_alarms_in_200(law):
    """Binomial(200, .05) exceeds 16 with probability .02; the seeds are fixed."""
    assert count_alarms(law) <= 16


def test_without_the_correction_over_cells_the_alarms_are_too_many():
    def each_cell_alone(samples, fixed, level):
        return judge(samples, fixed, level * len(samples))

    assert count_alarms("alike", each_cell_alone) > 40


def test_a_drop_of_three_points_in_one_cell_is_caught_190_times_in_200():
    rng = np.random.default_rng(2)
    pairs = [(draw("alike", rng), draw("alike", rng, drop=0.03)) for _ in range(200)]
    assert sum(verdicts(a, b)[0] == "dropped" for a, b in pairs) >= 190


def as_frame(template, accuracies):
    value = accuracies.ravel()
    counts = {"n": ROWS, "n_rows": ROWS, "hits": value * ROWS}
    return template.assign(value=value, se=standard_error(value), **counts)


@pytest.mark.slow
def test_the_same_error_rates_from_files_to_verdict():
    rng = np.random.default_rng(3)
    template = frame(runs(n_seeds=SEED, cells=CELLS))
    template = template.sort_values(["seq_len", "n_kv_pairs", "seed"], kind="stable")
    alarms = caught = 0
    for _ in range(200):
        before, same, lower = (
            as_frame(template, draw("alike", rng, drop)) for drop in (0.0, 0.0, 0.03)
        )
        alarms += not compare_results(before, same).passed
        names = {cell.name for cell in compare_results(before, lower).failures}
        caught += any(name.endswith("T=32 P=2") for name in names)
    assert alarms <= 16
    assert caught >= 190
