import math

import pandas as pd
import pytest

from tests.reporting.frames import baselines, both_splits, failed, frame, row, sweep
from zoology_bench.reporting.aggregate import candidates, choose, error_shares, summarise


def test_learning_rates_are_chosen_on_select_where_report_disagrees():
    rows = frame(
        both_splits(0.70, select=0.95, lr=1e-3),
        both_splits(0.99, select=0.60, lr=1e-2),
    )
    line = summarise(rows).iloc[0]
    assert line.lr == 1e-3
    assert line.accuracy == pytest.approx(0.70)
    assert line.select_accuracy == pytest.approx(0.95)
    assert line.n_choices == 2


def test_choices_are_made_on_the_mean_over_seeds_not_the_best_seed():
    rows = frame(
        both_splits(0.9, select=1.0, lr=1e-2, seed=0),
        both_splits(0.1, select=0.1, lr=1e-2, seed=1),
        both_splits(0.6, select=0.7, lr=1e-3, seed=0),
        both_splits(0.6, select=0.7, lr=1e-3, seed=1),
    )
    assert summarise(rows).lr.tolist() == [1e-3]


def test_a_failed_seed_counts_against_its_learning_rate():
    rows = frame(
        both_splits(0.9, lr=1e-2, seed=0),
        failed(lr=1e-2, seed=1),
        both_splits(0.6, lr=1e-3, seed=0),
        both_splits(0.6, lr=1e-3, seed=1),
    )
    table = candidates(rows).set_index("lr")
    assert table.select_accuracy[1e-2] == pytest.approx(0.45)
    assert table.chosen.to_dict() == {1e-3: True, 1e-2: False}


def test_a_choice_with_fewer_seeds_is_not_chosen_whatever_its_mean():
    """An interrupted sweep: one lucky seed must not beat a mean over all of them."""
    rows = frame(
        both_splits(0.99, lr=1e-2, seed=0),
        *(both_splits(0.98, lr=1e-3, seed=seed) for seed in range(3)),
        *(both_splits(0.97, lr=1e-4, seed=seed) for seed in range(3)),
    )
    table = candidates(rows).set_index("lr")
    assert table.chosen.to_dict() == {1e-3: True, 1e-4: False, 1e-2: False}
    assert set(table.n_choices) == {3}
    assert set(table.n_eligible) == {2}
    assert summarise(rows)[["lr", "n_seeds", "n_eligible"]].to_numpy().tolist() == [[1e-3, 3, 2]]


def test_a_failed_seed_is_a_seed_that_its_choice_has():
    rows = frame(
        both_splits(0.9, lr=1e-2, seed=0),
        failed(lr=1e-2, seed=1),
        both_splits(0.3, lr=1e-3, seed=0),
        both_splits(0.3, lr=1e-3, seed=1),
    )
    line = summarise(rows).iloc[0]
    assert (line.lr, line.n_choices, line.n_eligible) == (1e-2, 2, 2)


def test_other_trainer_choices_are_chosen_too():
    rows = frame(
        both_splits(0.5, trainer_id="short", run_id="a"),
        both_splits(0.9, trainer_id="long", run_id="b"),
    )
    assert summarise(rows).trainer_id.tolist() == ["long"]


def test_each_arm_and_cell_makes_its_own_choice():
    rows = frame(
        both_splits(0.9, lr=1e-3, d_model=64),
        both_splits(0.1, lr=1e-2, d_model=64),
        both_splits(0.1, lr=1e-3, d_model=128, run_id="c"),
        both_splits(0.9, lr=1e-2, d_model=128, run_id="d"),
        both_splits(0.1, lr=1e-3, seq_len=128),
        both_splits(0.9, lr=1e-2, seq_len=128),
    )
    chosen = summarise(rows).set_index(["seq_len", "d_model"]).lr
    assert chosen.to_dict() == {(64, 64): 1e-3, (64, 128): 1e-2, (128, 64): 1e-2}


def test_an_arm_trained_on_a_mixture_makes_one_choice_for_all_cells():
    def run(lr, short, long):
        common = {"lr": lr, "train_id": "mix", "run_id": f"run-{lr}"}
        return [
            *both_splits(short, **common),
            *both_splits(long, seq_len=128, **common),
        ]

    rows = frame(run(1e-3, 0.8, 0.8), run(1e-2, 1.0, 0.1))
    assert summarise(rows).lr.tolist() == [1e-3, 1e-3]


def test_several_choices_without_select_rows_are_refused():
    rows = frame(row(lr=1e-3), row(lr=1e-2))
    with pytest.raises(
        ValueError, match=r"was run with 2 trainer choices but lr=.* no select rows"
    ):
        summarise(rows)


def test_untrained_models_have_nothing_to_choose():
    none = {"kind": "untrained", "model": "analytic_base_conv", "lr": None}
    rows = frame(row(**none, trainer_id="a", run_id="a"), row(**none, trainer_id="b", run_id="b"))
    assert summarise(rows).n_seeds.tolist() == [1]


def test_ties_go_to_the_choice_that_needed_fewer_steps():
    rows = frame(both_splits(0.9, lr=1e-3, steps=500), both_splits(0.9, lr=1e-2, steps=100))
    assert summarise(rows).lr.tolist() == [1e-2]


def test_failed_seeds_are_counted_as_zero_never_dropped():
    rows = frame(both_splits(1.0, seed=0), both_splits(1.0, seed=1), failed(seed=2))
    line = summarise(rows).iloc[0]
    assert (line.n_seeds, line.n_failed) == (3, 1)
    assert line.accuracy == pytest.approx(2 / 3)
    assert line.solve_rate == pytest.approx(2 / 3)
    assert line.fail_reason == "loss is NaN at step 12"
    assert line.interval == "seeds"


def test_failed_seeds_count_in_slices_as_well():
    sliced = {"slice_key": "distance", "slice_value": "4-5", "hits": 10.0, "n": 10}
    rows = frame(both_splits(1.0, seed=0), row(seed=0, **sliced), failed(seed=1))
    line = summarise(rows, "distance").iloc[0]
    assert (line.accuracy, line.n_seeds, line.n_failed) == (0.5, 2, 1)


def test_an_arm_of_which_every_seed_failed_keeps_a_line_among_the_slices():
    sliced = {"slice_key": "distance", "slice_value": "4-5", "hits": 10.0, "n": 10}
    rows = frame(
        *(both_splits(1.0, model="base_conv"), row(model="base_conv", **sliced)),
        *(failed(seed=0), failed(seed=1)),
        both_splits(0.5, model="without slices"),
    )
    lines = summarise(rows, "distance").set_index("model")
    assert sorted(lines.index) == ["attention", "base_conv"]
    lost = lines.loc["attention"]
    assert (lost.slice_value, lost.n_seeds, lost.n_failed) == ("", 2, 2)
    assert math.isnan(lost.accuracy)


@pytest.mark.parametrize("split", ["select", "report"])
def test_an_arm_of_which_every_seed_failed_stays_in_the_table(split):
    line = summarise(frame(failed(split=split, n_params_total=None))).iloc[0]
    assert math.isnan(line.accuracy)
    assert (line.n_seeds, line.n_failed, line.solve_rate) == (1, 1, 0.0)
    assert not line.above_floor


def test_a_failed_run_that_left_a_number_keeps_it():
    rows = frame(row(status="failed", fail_reason="nan", hits=2000.0), both_splits(0.6, seed=1))
    line = summarise(rows).iloc[0]
    assert line.accuracy == pytest.approx(0.55)
    assert line.n_failed == 1


def test_solved_means_strictly_above_99_percent():
    rows = frame(both_splits(0.99, seed=0), both_splits(0.9925, seed=1))
    assert summarise(rows).solve_rate.tolist() == [0.5]


def test_one_seed_is_printed_with_its_interval_within_the_seed():
    line = summarise(frame(both_splits(0.9))).iloc[0]
    assert line.interval == "rows"
    assert math.isnan(line.seeds_low)
    assert line.low < 0.9 < line.high


def test_row_errors_are_not_divided_by_the_number_of_seeds():
    """All seeds are scored on the same rows: three agreeing seeds know no more about rows."""
    rows = {"se": 0.02}  # well above that of independent queries
    one = summarise(frame(both_splits(0.9, **rows))).iloc[0]
    three = summarise(frame(*(both_splits(0.9, seed=s, **rows) for s in range(3)))).iloc[0]
    assert one.high - one.low == pytest.approx(2 * 1.96 * 0.02, rel=0.02)
    assert three.interval == "rows"
    assert (three.low, three.high) == pytest.approx((one.low, one.high))


def test_floors_join_the_best_baseline_of_the_same_cell():
    cell = {"seq_len": 64, "n_kv_pairs": 4, "n_queries": 4}
    other = {"seq_len": 128, "n_kv_pairs": 4, "n_queries": 4}
    rows = frame(both_splits(0.29, **cell), baselines(**cell), both_splits(0.9, **other))
    lines = summarise(rows)
    lines = lines[lines.kind == "trained"].set_index("seq_len")
    assert lines.best_baseline_model[64] == "best_slot"
    assert lines.best_baseline[64] == pytest.approx(0.275)
    assert lines.floor.to_dict() == {64: 0.288, 128: 0.288}
    assert lines.above_floor.to_dict() == {64: False, 128: True}
    assert math.isnan(lines.best_baseline[128])


def test_medians_sizes_flags_and_causality_are_kept():
    rows = frame(
        both_splits(0.9, seed=0, steps=100, wall_s=1.0, causal=False),
        both_splits(0.9, seed=1, steps=900, wall_s=9.0, causal=False, budget_limited=True),
        both_splits(0.9, seed=2, steps=200, wall_s=2.0, causal=False),
    )
    line = summarise(rows).iloc[0]
    assert (line.steps, line.wall_s, line.n_budget_limited) == (200, 2.0, 1)
    assert (line.n_params_total, line.n_params_mixer, line.state_bytes) == (50_000, 32_000, 32_768)
    assert not line.causal
    assert line.init == "recipe"


def test_runs_that_no_column_tells_apart_are_refused():
    rows = frame(both_splits(0.9, run_id="a"), both_splits(0.8, run_id="b"))
    with pytest.raises(ValueError, match="runs a and b have the same seed"):
        summarise(rows)
    rows = frame(both_splits(0.9, seed=0), both_splits(0.9, seed=1, n_params_total=7))
    with pytest.raises(ValueError, match=r"differ in n_params_total \(50000, 7\)"):
        summarise(rows)


def test_initialisations_widths_and_experiments_are_arms_of_their_own():
    rows = frame(
        both_splits(0.9),
        both_splits(0.8, init="random"),
        both_splits(0.7, d_model=128, run_id="w"),
        both_splits(0.6, experiment="other", run_id="e"),
    )
    assert len(summarise(rows)) == 4


def test_one_run_may_grade_several_models():
    """The baselines share a run: their rows must not leak into each other."""
    cell = {"seq_len": 64, "n_kv_pairs": 4, "n_queries": 4}
    rows = frame([r | {"run_id": "floors"} for r in baselines(**cell)])
    lines = summarise(rows).set_index("model").accuracy
    assert lines.to_dict() == pytest.approx(
        {"best_slot": 0.275, "recency": 0.225, "uniform": 1 / 128}
    )


def test_error_shares_are_means_over_seeds_of_the_chosen_runs():
    def shares(seed, wrong):
        return row(seed=seed, metric="misbinding", hits=wrong * 4000, n=4000)

    rows = frame(both_splits(0.9), both_splits(0.9, seed=1), shares(0, 0.1), shares(1, 0.05))
    assert error_shares(rows).error_misbinding.tolist() == pytest.approx([0.075])


def test_aggregation_does_not_depend_on_row_order_and_leaves_its_input_alone():
    rows = sweep(
        [("attention", "recipe"), ("base_conv", "random")], [(32, 4), (64, 8)], [32, 64], 2
    )
    before = rows.copy()
    shuffled = rows.sample(frac=1, random_state=1).reset_index(drop=True)
    pd.testing.assert_frame_equal(summarise(shuffled), summarise(rows))
    pd.testing.assert_frame_equal(rows, before)


def test_choose_keeps_only_rows_of_the_chosen_runs():
    rows = frame(both_splits(0.9, lr=1e-3), both_splits(0.1, lr=1e-2))
    assert set(choose(rows).lr) == {1e-3}


def test_a_baseline_with_an_exact_expectation_has_no_sampling_error():
    """1/P of the queries of every row is a number, not a sample: rows carry no doubt about it."""
    rows = frame(row(kind="baseline", model="in_context", lr=None, hits=1000.0, se=0.0))
    line = summarise(rows).iloc[0]
    assert (line.low, line.accuracy, line.high) == (0.25, 0.25, 0.25)
