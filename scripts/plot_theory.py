"""Measure what the constructions of docs/theory.md recall and err, and draw it.

python scripts/plot_theory.py            measure into results/theory/*.csv, then draw
python scripts/plot_theory.py --draw     draw again from the CSV files
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoology_bench.analytic import AnalyticBaseConv
from zoology_bench.analytic.memory_state import ERRORS, key_table, measured_error
from zoology_bench.config import compose
from zoology_bench.reporting.files import atomic_write
from zoology_bench.reporting.plot_parts import STYLE, render

OUT = Path(__file__).resolve().parents[1] / "results" / "theory"
TASKS = ("mqar_official_128_8", "mqar_prefix_log", "mqar_stream_log", "mqar_triples")
SELECTIONS = ("cross", "prefix_causal", "raw")
DISTANCES = (1, 2, 4, 8, 16, 32)
N_ROWS = 100
KEY_COUNTS = (2, 4, 8, 16, 24, 32, 48, 64)
D_KEY = 16
N_DRAWS = 400
COLOURS = ("#0072B2", "#D55E00", "#009E73")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draw", action="store_true", help="from the CSV files, measure nothing")
    if not parser.parse_args().draw:
        for name, frame in (("coverage", coverage_frame()), ("memory", memory_frame())):
            text = frame.to_csv(index=False, float_format="%.6g")
            atomic_write(OUT / f"{name}.csv", text.encode(), OUT)
    for name, draw in (("coverage", draw_coverage), ("memory", draw_memory)):
        with mpl.rc_context(STYLE):
            figure = draw(pd.read_csv(OUT / f"{name}.csv"))
        for suffix in ("png", "svg"):
            atomic_write(OUT / f"{name}.{suffix}", render(figure, suffix), OUT)


def coverage_frame() -> pd.DataFrame:
    """Accuracy and predicted coverage of the analytic BaseConv by task, selection and J."""
    rows = []
    for name in TASKS:
        task = compose([f"task={name}"]).task
        batch = task.rows("report", task.data_seed, 0, N_ROWS)
        for selection in SELECTIONS:
            for n_distances in DISTANCES:
                model = AnalyticBaseConv.for_task(task, n_distances, selection)
                hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
                covered = model.covered(batch)
                assert torch.equal(hits, covered), (name, selection, n_distances)
                shares = {"accuracy": hits.double().mean(), "coverage": covered.double().mean()}
                where = {"task": name, "selection": selection, "n_distances": n_distances}
                rows.append({**where, **{key: share.item() for key, share in shares.items()}})
    return pd.DataFrame(rows)


def memory_frame() -> pd.DataFrame:
    """Error and recall of memories with random keys, beside the closed form."""
    rows = []
    for rule, predicted in ERRORS.items():
        for n_keys in KEY_COUNTS:
            generator = torch.Generator().manual_seed(n_keys)
            keys = key_table(N_DRAWS * n_keys, D_KEY, "random", generator)
            error, recall = measured_error(rule, keys.view(N_DRAWS, n_keys, D_KEY))
            numbers = {"predicted": predicted(n_keys, D_KEY), "measured": error, "recall": recall}
            rows.append({"rule": rule, "n_keys": n_keys, "d_key": D_KEY, **numbers})
    return pd.DataFrame(rows)


def draw_coverage(frame: pd.DataFrame) -> Figure:
    """One panel per task: predicted coverage as lines, measured accuracy as marks on them."""
    figure, axes = _panels(len(TASKS))
    for axis, (name, task) in zip(axes, frame.groupby("task", sort=False), strict=True):
        for colour, (selection, line) in zip(
            COLOURS, task.groupby("selection", sort=False), strict=True
        ):
            axis.plot(line.n_distances, line.coverage, color=colour, label=selection)
            axis.plot(line.n_distances, line.accuracy, "o", color=colour, markersize=3.5)
        axis.set(title=name, xscale="log", xlabel="J, lags looked at", ylim=(-0.03, 1.03))
        axis.set_xticks(DISTANCES, [str(j) for j in DISTANCES])
        axis.minorticks_off()
    axes[0].set_ylabel("share answered")
    _legend(figure, axes[0])
    return figure


def draw_memory(frame: pd.DataFrame) -> Figure:
    """Error with the closed form over it, and recall by argmax."""
    figure, axes = _panels(2)
    for colour, (rule, line) in zip(COLOURS, frame.groupby("rule", sort=False), strict=False):
        axes[0].plot(line.n_keys, line.predicted, color=colour, label=rule)
        axes[0].plot(line.n_keys, line.measured, "o", color=colour, markersize=3.5)
        axes[1].plot(line.n_keys, line.recall, "o:", color=colour, markersize=3.5, label=rule)
    d_key = frame.d_key.iloc[0]
    axes[0].set(title=f"random keys, d_k = {d_key}", ylabel="mean squared error of S k")
    axes[1].set(title="recall by argmax", ylim=(0, 1.03))
    for axis in axes:
        axis.axvline(d_key, color="#999999", linewidth=0.7)
        axis.set(xlabel="K, keys written")
    _legend(figure, axes[0])
    return figure


def _legend(figure: Figure, axis: Axes) -> None:
    """Colours by name, then what a line and a dot are."""
    kinds = [
        Line2D([], [], color="#555555", label="line: predicted"),
        Line2D([], [], color="#555555", marker="o", ls="", markersize=3.5, label="dot: measured"),
    ]
    handles = [*axis.get_legend_handles_labels()[0], *kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(2.4 * count + 0.4, 2.7), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, count, sharey=count > 2))


if __name__ == "__main__":
    main()
