"""Figures of what was tried and what went wrong: learning rates, and where the errors go."""

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import TRAINING, summarise
from zoology_bench.reporting.palette import ERRORS, RIGHT
from zoology_bench.reporting.plot_parts import (
    STYLE,
    Looks,
    columns_for,
    finish,
    in_rows,
    panel_grid,
)
from zoology_bench.reporting.rates import WITHIN, by_rate, windows


def named_rates(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rates and windows with the arm's name and width, for arms run at several rates."""
    rates = by_rate(frame)
    found = windows(rates)
    if found.empty:
        return rates.iloc[:0], found
    keys = list(TRAINING)
    named = labels.named(summarise(frame))
    names = named.drop_duplicates(keys)[[*keys, "arm", "width"]]
    found = found.merge(names, on=keys, how="left")
    return rates.merge(found[[*keys, "arm", "width"]], on=keys, how="inner"), found


def rate_windows(frame: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy on select against the learning rate, the window of each model shaded.

    Returns:
        Figure by file stem; none where no model was run at several rates.
    """
    rates, found = named_rates(frame)
    if found.empty:
        return {}
    looks = Looks(rates, by_width=False)
    rows = found.sort_values(["arm", "d_model"], kind="stable").to_dict("records")
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid(in_rows(len(rows), columns_for(len(rows))))
        for ax, row in zip(axes, rows, strict=True):
            same = rates[list(TRAINING)].astype(str) == pd.Series(
                {k: str(row[k]) for k in TRAINING}
            )
            arm = rates.loc[same.all(axis=1)].sort_values("lr")
            look = looks[row["arm"], None]
            ax.set_xscale("log")
            ax.axvspan(row["low_lr"] * 0.93, row["high_lr"] * 1.07, color=look.colour, alpha=0.13)
            style = {"color": look.colour, "marker": look.marker, "markersize": 4.5}
            ax.plot(arm.lr, arm.select_accuracy, linewidth=1.1, **style)
            ax.plot(arm.lr, arm.report_accuracy, linewidth=0.8, linestyle=":", **style, mfc="white")
            edge = "at least " if row["at_edge"] else ""
            ax.set_title(
                f"{row['arm']}{row['width']}\n{edge}{row['decades']:.1f} decades, "
                f"optimism {row['optimism']:.3f}",
                fontsize=7,
            )
            ax.set_xlabel("learning rate")
        grey = "#555555"
        legend = [
            Line2D([], [], color=grey, marker="o", markersize=4, label="select (chosen on)"),
            Line2D([], [], color=grey, marker="o", mfc="white", linestyle=":", label="report"),
        ]
        text = (
            f"Shaded: rates within {WITHIN:g} of the best on select, without a gap. Optimism: what "
            "the best rate on the reported split would have claimed beyond the rate chosen on "
            "select. At least: the window touches the end of the grid."
        )
        finish(figure, "Learning-rate windows", legend, text)
    return {"learning_rates": figure}


def error_bars(lines: pd.DataFrame) -> dict[str, Figure]:
    """Right answers and every kind of wrong one as stacked bars, one panel a cell.

    Args:
        lines: ``aggregate.summarise(frame)`` joined with ``aggregate.error_shares(frame)``.

    Returns:
        Figure by file stem; none where no errors were counted.
    """
    kinds = [name for name in ERRORS if name in lines.columns]
    named = labels.named(lines)
    counted = named.loc[named[kinds].notna().any(axis=1)] if kinds else named.iloc[:0]
    if counted.empty:
        return {}
    cells = list(dict.fromkeys(counted.cell))
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid(in_rows(len(cells), columns_for(len(cells))))
        for ax, cell in zip(axes, cells, strict=True):
            panel = counted.loc[counted.cell == cell]
            at, bottom = np.arange(len(panel)), np.zeros(len(panel))
            layers = [(RIGHT, panel.accuracy), *((ERRORS[name], panel[name]) for name in kinds)]
            for (_, colour, hatch, _), share in layers:
                height = share.fillna(0).to_numpy(dtype=float)
                ax.bar(
                    at,
                    height,
                    bottom=bottom,
                    color=colour,
                    hatch=hatch,
                    width=0.75,
                    zorder=2,
                    edgecolor="white",
                    linewidth=0.4,
                )
                bottom += height
            ax.set_xticks(at, [f"{i + 1}" for i in at])
            ax.set_title(cell)
            if ax.get_ylabel():
                ax.set_ylabel("share of queries")
        kinds_said = [RIGHT, *(ERRORS[name] for name in kinds)]
        legend = [
            Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name)
            for name, colour, hatch, _ in kinds_said
        ]
        named_bars = {cell: _bar_names(counted, cell) for cell in cells}
        same = len(set(named_bars.values())) == 1
        said = [named_bars[cells[0]]] if same else [f"{c}: {n}" for c, n in named_bars.items()]
        text = f"Shares of all queries on report rows, mean over seeds. Bars: {'; '.join(said)}."
        finish(figure, "Where the answers go", legend, text)
    return {"errors": figure}


def _bar_names(counted: pd.DataFrame, cell: str) -> str:
    panel = counted.loc[counted.cell == cell]
    return ", ".join(f"{i + 1} {name}" for i, name in enumerate(panel.arm + panel.width))
