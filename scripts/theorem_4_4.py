"""Draw the circuit of Theorem 4.4 into results/theorem_4_4: its records on their way, its sizes.

python scripts/theorem_4_4.py
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from zoology_bench.analytic import BaseConvCircuit
from zoology_bench.analytic.circuit.every_lag import every_lag_program
from zoology_bench.analytic.circuit.trace import Snapshot, trace
from zoology_bench.reporting.files import atomic_write, csv_bytes
from zoology_bench.reporting.plot_parts import STYLE, render

OUT = Path(__file__).resolve().parents[1] / "results" / "theorem_4_4"
# Key 1 is written twice and asked in between and after; key 3 is asked before it is written.
ROW = (1, 5, 3, 2, 7, 1, 1, 4, 2, 3, 6, 1)
COLOURS = {1: "#0072B2", 2: "#D55E00", 3: "#009E73"}
SIZES = (4, 8, 16, 22, 23, 32, 33, 52, 53, 64, 65, 74, 75, 96)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", default=OUT, type=Path)
    out = parser.parse_args().out
    sizes = compiled_sizes()
    files = {"sizes.csv": csv_bytes(sizes)}
    with mpl.rc_context(STYLE):
        for stem, figure in (("records", draw_records()), ("sizes", draw_sizes(sizes))):
            files |= {f"{stem}.{suffix}": render(figure, suffix) for suffix in ("png", "svg")}
    for name, data in files.items():
        atomic_write(out / name, data, out)
    print(sizes.to_string(index=False))


def compiled_sizes() -> pd.DataFrame:
    """Sizes of the circuit's variants and of the every-lag model, compiled at c = 2n."""
    lines = []
    for n in SIZES:
        for causal in (True, False):
            model = BaseConvCircuit(n, 2 * n, causal)
            sizes = (model.n_layers, model.d_model, model.n_rows, model.n_params().total)
            lines.append(("circuit, padded" if causal else "circuit, cyclic", n, 2 * n, *sizes))
        program = every_lag_program(n, 2 * n)
        sizes = (program.n_layers, program.width, program.n_rows, program.n_params)
        lines.append(("every lag", n, 2 * n, *sizes))
    columns = ["construction", "n", "c", "layers", "width", "rows", "parameters"]
    return pd.DataFrame(lines, columns=columns)


def draw_sizes(sizes: pd.DataFrame) -> Figure:
    """Parameters against n."""
    figure = Figure(figsize=(4.6, 3.0), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    looks = zip(sizes.groupby("construction"), ("o", "s", "^"), COLOURS.values(), strict=True)
    for (name, lines), marker, colour in looks:
        ax.loglog(lines.n, lines.parameters, marker=marker, color=colour, markersize=4, label=name)
    ax.set(xlabel="triples n (vocabulary c = 2n)", ylabel="parameters, all tensors")
    ax.set_title("Parameters of the compiled layers")
    ax.legend(frameon=False)
    return figure


def draw_records() -> Figure:
    """Rows against stages: where each record stands, and what it holds."""
    snapshots = trace(BaseConvCircuit(len(ROW) // 3, 8), torch.tensor(ROW))
    figure = Figure(figsize=(11.5, 8.6), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.axhspan(-0.5, len(ROW) - 0.5, color="#f2f2f2", zorder=0)
    for row, token in enumerate(ROW):
        ax.text(-1, row, f"{'kvq'[row % 3]} {token}", ha="center", va="center", family="monospace")
    for left, right in zip(range(len(snapshots)), range(1, len(snapshots)), strict=False):
        _connect(ax, left, snapshots[left], snapshots[right])
    for column, snapshot in enumerate(snapshots):
        _draw_stage(ax, column, snapshot)
    ax.set_xticks([-1, *range(len(snapshots))])
    ax.set_xticklabels(["tokens", *(s.stage for s in snapshots)], rotation=60, ha="right")
    ax.set_xlim(-1.7, len(snapshots) - 0.5)
    ax.set_ylabel("row (the tokens' rows shaded, zero rows below)")
    ax.invert_yaxis()
    ax.set_title(
        "Records moving down through the padded circuit, n = 4. Colour: token (1 blue, 2 orange, "
        "3 green); square: key record, circle: query record.\n"
        "Number: its value, then the value it has found (scan), then its answer if the tokens "
        "agree (undo); empty: none."
    )
    return figure


def _connect(ax: Axes, column: int, before: Snapshot, after: Snapshot) -> None:
    rows = {record.time: record.row for record in after.records}
    for record in before.records:
        ends = [record.row, rows[record.time]]
        ax.plot([column, column + 1], ends, color=COLOURS[record.token], linewidth=0.8, alpha=0.6)


def _draw_stage(ax: Axes, column: int, snapshot: Snapshot) -> None:
    for record in snapshot.records:
        colour = COLOURS[record.token]
        marker = "s" if record.is_key else "o"
        face = colour if record.is_key else "white"
        ax.plot(column, record.row, marker, color=colour, markerfacecolor=face, markersize=11)
        if record.value is not None:
            ink = "white" if record.is_key else "black"
            ax.text(column, record.row, str(record.value), ha="center", va="center", color=ink)


if __name__ == "__main__":
    main()
