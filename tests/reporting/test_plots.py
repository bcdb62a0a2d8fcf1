from functools import cache

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tests.reporting.frames import both_splits, failed, frame, row, sweep
from zoology_bench.reporting.aggregate import error_shares, summarise
from zoology_bench.reporting.capacity import capacities
from zoology_bench.reporting.plot_parts import FLOORS, render
from zoology_bench.reporting.plots import (
    accuracy_by_distance,
    accuracy_by_parameters,
    accuracy_by_seq_len,
)
from zoology_bench.reporting.plots_axes import accuracy_by_load, accuracy_by_noise, accuracy_by_size
from zoology_bench.reporting.plots_choices import error_bars, rate_windows

QUICK = sweep(
    [("attention", "recipe"), ("base_conv", "recipe")], [(32, 4), (64, 8)], [64], 2, analytic=True
)
SINGLE = sweep([("attention", "recipe")], [(64, 4)], [64], 1)
WIDE = sweep(
    [("attention", "recipe"), ("base_conv", "recipe"), ("base_conv", "random"), ("rwkv", "gpt2")],
    [(64, 4), (128, 4), (64, 8)],
    [32, 64, 128],
    2,
    analytic=True,
)
SWEEPS = {"single run": SINGLE, "quickstart": QUICK, "many arms and widths": WIDE}


@cache
def figures(name) -> dict[str, Figure]:
    """All figures of one of the sweeps, made once; tests only look at them."""
    rows = SWEEPS[name]
    summary = summarise(rows)
    return (
        accuracy_by_seq_len(summary)
        | accuracy_by_parameters(summary)
        | accuracy_by_distance(summarise(rows, "distance"))
    )


def floor_values(ax, name):
    lines = [line for line in ax.get_lines() if line.get_gid() == f"floor {name}"]
    return sorted({float(np.asarray(line.get_ydata())[0]) for line in lines})


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def caption_of(figure):
    return " ".join(" ".join(text.get_text().split()) for text in figure.texts)


@pytest.mark.parametrize("sweep_name", SWEEPS)
def test_every_panel_of_every_figure_draws_its_floors(sweep_name):
    for name, figure in figures(sweep_name).items():
        known = set(FLOORS) - ({"best baseline"} if "distance" in name else set())
        for ax in figure.axes:
            for floor in known:
                assert floor_values(ax, floor), (name, ax.get_title(), floor)
        assert known <= set(legend_of(figure))


def test_floors_stand_at_their_values_and_belong_to_their_cell():
    (ax,) = figures("quickstart")["accuracy_seq_len"].axes
    assert floor_values(ax, "1/P") == [0.125, 0.25]
    assert floor_values(ax, "1/V") == [1 / 128]
    assert floor_values(ax, "content-blind ceiling") == pytest.approx([1.15 / 8, 1.15 / 4])
    assert floor_values(ax, "best baseline") == pytest.approx([1.1 / 8, 1.1 / 4])
    at_32 = [
        line
        for line in ax.get_lines()
        if line.get_gid() == "floor 1/P" and np.asarray(line.get_ydata())[0] == 0.25
    ]
    left, right = np.asarray(at_32[0].get_xdata())
    assert left < 32 < right < 64


@pytest.mark.parametrize("sweep_name", SWEEPS)
def test_perfect_and_chance_accuracies_lie_inside_the_axes(sweep_name):
    for figure in figures(sweep_name).values():
        for ax in figure.axes:
            low, high = ax.get_ylim()
            assert low < 0 < 1 < high


def test_models_with_equal_accuracy_do_not_cover_each_other():
    rows = frame(both_splits(1.0), both_splits(1.0, model="hybrid"))
    (ax,) = accuracy_by_seq_len(summarise(rows))["accuracy_seq_len"].axes
    points = [c.lines[0] for c in ax.containers]
    xs = [float(np.asarray(line.get_xdata())[0]) for line in points]
    assert len(points) == 2
    assert xs[0] != xs[1]


def test_error_bars_are_the_printed_interval():
    rows = frame(both_splits(0.8, seed=0), both_splits(0.9, seed=1), both_splits(0.85, seed=2))
    line = summarise(rows).iloc[0]
    (ax,) = accuracy_by_seq_len(summarise(rows))["accuracy_seq_len"].axes
    bar = ax.containers[0].lines[2][0].get_segments()[0]
    assert bar[:, 1] == pytest.approx([line.low, line.high])


def test_the_legend_names_arm_initialisation_and_the_caption_seeds_and_interval():
    figure = figures("quickstart")["accuracy_seq_len"]
    assert {"attention (recipe)", "base_conv (recipe)", "analytic_base_conv"} <= set(
        legend_of(figure)
    )
    caption = caption_of(figure)
    assert "Initialisation: recipe; 2 seeds. D = 64." in caption
    assert "The recipe's initial weights already hold the solution's structure." in caption
    assert "95 % interval across seeds (t), or within a seed (Wilson)" in caption


def test_failures_and_short_budgets_are_in_the_caption():
    rows = frame(both_splits(0.5, budget_limited=True), failed(seed=1))
    caption = caption_of(accuracy_by_seq_len(summarise(rows))["accuracy_seq_len"])
    assert "1 of 2 runs failed" in caption
    assert "1 of 2 runs still rose when the budget ended" in caption
    assert "No number" not in caption


@pytest.mark.parametrize("slice_key", ["", "distance"])
def test_an_arm_without_any_number_is_named_in_the_caption(slice_key):
    sliced = {"slice_key": "distance", "slice_value": "4-5", "hits": 9.0, "n": 10}
    rows = frame(
        *(both_splits(0.9, model="base_conv"), row(model="base_conv", **sliced)),
        *(failed(seed=0), failed(seed=1)),
    )
    draw = accuracy_by_distance if slice_key else accuracy_by_seq_len
    (figure,) = draw(summarise(rows, slice_key)).values()
    assert "attention (recipe)" not in legend_of(figure)
    caption = caption_of(figure)
    assert "No number: attention (recipe) D=64 at T=64 P=4 (2/2 failed)." in caption
    assert "2 of 3 runs failed" in caption


def test_every_page_of_distances_names_what_has_no_page():
    arms = [("attention", "recipe"), ("a", "recipe"), ("b", "recipe"), ("c", "recipe")]
    good = sweep(arms, [(32, 4)], [32, 64, 128], 1)
    summary = summarise(pd.concat([good, frame(failed(d_model=256, seq_len=32))]), "distance")
    pages = accuracy_by_distance(summary)
    assert len(pages) == 3
    for figure in pages.values():
        assert "No number: attention (recipe) D=256 at T=32 P=4 (1/1 failed)." in caption_of(figure)
        assert "1 of 5 runs failed" in caption_of(figure)


def test_the_caption_counts_a_run_once_however_many_cells_it_was_measured_on():
    def run(seed):
        whole = {"train_id": "mix", "run_id": f"mix-{seed}", "seed": seed, "budget_limited": True}
        return [r for t in (32, 64, 128, 256) for r in both_splits(0.5, seq_len=t, **whole)]

    figure = accuracy_by_seq_len(summarise(frame(run(0))))["accuracy_seq_len"]
    assert "1 of 1 runs still rose" in caption_of(figure)
    figure = accuracy_by_seq_len(summarise(frame(run(0), run(1))))["accuracy_seq_len"]
    assert "2 of 2 runs still rose" in caption_of(figure)


def test_the_caption_counts_runs_on_different_training_data_each():
    rows = frame(both_splits(0.5, budget_limited=True), both_splits(0.5, seq_len=128))
    figure = accuracy_by_seq_len(summarise(rows))["accuracy_seq_len"]
    assert "1 of 2 runs still rose" in caption_of(figure)


def test_the_caption_counts_runs_once_however_many_distances_they_have():
    def sliced(value):
        return row(slice_key="distance", slice_value=value, hits=9.0, n=10, budget_limited=True)

    rows = frame(both_splits(0.9, budget_limited=True), sliced("4-5"), sliced("6-7"))
    figure = accuracy_by_distance(summarise(rows, "distance"))["accuracy_distance"]
    assert "1 of 1 runs still rose" in caption_of(figure)


def test_widths_share_a_panel_until_it_is_full_then_get_their_own():
    few = sweep([("attention", "recipe"), ("base_conv", "recipe")], [(32, 4), (64, 4)], [32, 64], 2)
    figure = accuracy_by_seq_len(summarise(few))["accuracy_seq_len"]
    assert len(figure.axes) == 1
    assert {"D = 64", "D = 32"} <= set(legend_of(figure))
    figure = figures("many arms and widths")["accuracy_seq_len"]
    assert [ax.get_title() for ax in figure.axes] == [
        f"P = {pairs}, D = {width}" for pairs in (4, 8) for width in (32, 64, 128)
    ]
    assert {name for name in figures("many arms and widths") if "distance" in name} == {
        "accuracy_distance_d32",
        "accuracy_distance_d64",
        "accuracy_distance_d128",
    }


def test_a_model_without_a_width_appears_beside_every_width():
    figure = figures("many arms and widths")["accuracy_seq_len"]
    for ax in figure.axes:
        tops = [np.asarray(c.lines[0].get_ydata()).max() for c in ax.containers]
        assert len(ax.containers) == 5
        assert max(tops) == 1.0


def test_total_and_non_embedding_parameters_have_their_own_panels():
    figure = figures("many arms and widths")["accuracy_params"]
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert labels.count("parameters, total") == labels.count("parameters, non-embedding") == 3
    summary = summarise(WIDE)
    arm = summary[
        (summary.model == "attention") & (summary.seq_len == 64) & (summary.n_kv_pairs == 4)
    ]
    total, rest = (ax for ax in figure.axes if ax.get_title() == "T=64 P=4")
    for ax, sizes in ((total, arm.n_params_total), (rest, arm.n_params_non_embedding)):
        x = np.asarray(ax.containers[0].lines[0].get_xdata(), dtype=float)
        assert x == pytest.approx(sizes.to_numpy(dtype=float), rel=0.05)


def test_a_model_without_parameters_is_a_level_line():
    figure = figures("quickstart")["accuracy_params"]
    assert "analytic_base_conv, no parameters" in legend_of(figure)


def test_distances_stand_at_the_middle_of_their_bin():
    sliced = {"slice_key": "distance", "slice_value": "16-22", "hits": 9.0, "n": 10}
    rows = frame(both_splits(0.9), row(**sliced))
    (ax,) = accuracy_by_distance(summarise(rows, "distance"))["accuracy_distance"].axes
    x = float(np.asarray(ax.containers[0].lines[0].get_xdata())[0])
    assert x == pytest.approx((16 * 22) ** 0.5)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_results_give_the_same_bytes(suffix):
    first, second = (
        render(accuracy_by_seq_len(summarise(SINGLE))["accuracy_seq_len"], suffix) for _ in range(2)
    )
    assert first == second
    assert b"<dc:date>" not in first


def test_drawing_leaves_the_notebooks_own_settings_alone():
    before = dict(mpl.rcParams)
    render(accuracy_by_seq_len(summarise(SINGLE))["accuracy_seq_len"], "png")
    assert dict(mpl.rcParams) == before


def test_nothing_to_draw_is_one_line():
    with pytest.raises(ValueError, match="no model has a number to draw"):
        accuracy_by_seq_len(summarise(frame(failed())))


LOADED = sweep(
    [("attention", "recipe"), ("base_conv", "recipe")],
    [(64, 2), (64, 4), (64, 8), (64, 16)],
    [32, 64],
    2,
    analytic=True,
)


@cache
def axes_figures() -> dict[str, Figure]:
    summary = summarise(LOADED)
    return (
        accuracy_by_size(summary, "d_model")
        | accuracy_by_size(summary.assign(state_bytes=summary.d_model * 64), "state_bytes")
        | accuracy_by_load(summary, capacities(LOADED)[1])
    )


def test_width_and_state_have_a_panel_a_cell_and_level_lines_for_what_has_none():
    for stem, lacking in (("accuracy_width", "width"), ("accuracy_state", "state size")):
        figure = axes_figures()[stem]
        assert [ax.get_title() for ax in figure.axes] == [f"T=64 P={p}" for p in (2, 4, 8, 16)]
        assert f"analytic_base_conv, no {lacking}" in legend_of(figure)
        for ax in figure.axes:
            levels = [line for line in ax.get_lines() if list(line.get_ydata()) == [1.0, 1.0]]
            assert levels, "the construction's level line is missing"
            assert floor_values(ax, "1/P")


def test_load_draws_the_fits_behind_the_points():
    (ax,) = axes_figures()["accuracy_load"].axes
    fits = [line for line in ax.get_lines() if line.get_gid() == "capacity fit"]
    assert len(fits) == len(capacities(LOADED)[1]) >= 2
    for line in fits:
        assert np.all(np.diff(np.asarray(line.get_ydata(), dtype=float)) <= 1e-9)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2", "4", "8", "16"]


def test_noise_on_written_weights_is_an_axis_with_a_line_a_model():
    rows = frame(
        *(
            both_splits(accuracy, model=model, init=f"analytic, sigma={sigma}")
            for model in ("attention", "base_conv")
            for sigma, accuracy in ((0, 1.0), (0.5, 0.9), (2, 0.4))
        ),
        both_splits(0.7, init="recipe"),
    )
    figure = accuracy_by_noise(summarise(rows))["accuracy_noise"]
    (ax,) = figure.axes
    assert legend_of(figure)[:2] == ["attention (analytic)", "base_conv (analytic)"]
    assert [bars.lines[0].get_ydata().tolist() for bars in ax.containers] == [[1.0, 0.9, 0.4]] * 2
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "0.5", "2"]


def test_figures_that_have_nothing_to_show_are_not_made():
    summary = summarise(SINGLE)
    assert accuracy_by_size(summary, "d_model") == {}
    assert accuracy_by_load(summary, {}) == {}
    assert accuracy_by_noise(summary) == {}
    assert rate_windows(SINGLE) == {}
    assert error_bars(summary) == {}


def test_learning_rates_show_the_window_and_the_optimism():
    rows = frame(
        *(
            both_splits(report, select=select, lr=lr)
            for lr, select, report in ((1e-3, 0.93, 0.96), (1e-2, 0.95, 0.94), (1e-1, 0.2, 0.2))
        )
    )
    figure = rate_windows(rows)["learning_rates"]
    (ax,) = figure.axes
    assert "1.0 decades, optimism 0.020" in ax.get_title()
    assert len(ax.patches) == 1


def test_error_bars_add_up_to_all_queries():
    kinds = {"misbinding": 200.0, "out_of_row_value": 100.0, "other": 50.0}
    rows = frame(
        both_splits(1 - 350 / 4000),
        *(row(metric=kind, hits=hits) for kind, hits in kinds.items()),
    )
    summary = summarise(rows)
    shares = error_shares(rows)
    keys = [name for name in shares.columns if name in summary.columns]
    figure = error_bars(summary.merge(shares, on=keys))["errors"]
    (ax,) = figure.axes
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1.0)
    assert len({bar.get_hatch() for bar in ax.patches if bar.get_height()}) == 4
    assert "1 attention (recipe) D=64" in caption_of(figure)
