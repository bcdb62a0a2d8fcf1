"""Figures along width, state size, load (with capacity fits) and noise on written-down weights."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoology_bench.reporting import labels
from zoology_bench.reporting.capacity import LEVELS, Fit
from zoology_bench.reporting.plot_lines import (
    MAX_LINES,
    draw_points,
    drawable,
    each_line,
    group_lines,
    n_lines,
)
from zoology_bench.reporting.plot_parts import (
    STYLE,
    Looks,
    caption,
    columns_for,
    draw_floors,
    finish,
    floor_legend,
    in_rows,
    panel_grid,
)
from zoology_bench.reporting.plots import size_panel
from zoology_bench.reporting.state_bits import JUDGED_LAYOUT, bound_curve

_AXES = {
    "d_model": ("accuracy_width", "width", "width D"),
    "state_bytes": ("accuracy_state", "state size", "state, bytes per sequence"),
}
"""Column: file stem, what it is called, label."""
_BOUND: dict[str, Any] = {"color": "#222222", "linestyle": "-", "linewidth": 0.9, "zorder": 2}
"""The information bound of a state (``state_bits``), which holds for every model."""


def accuracy_by_size(summary: pd.DataFrame, column: str) -> dict[str, Figure]:
    """Accuracy against ``d_model`` or ``state_bytes``, one panel a cell.

    Args:
        summary: ``aggregate.summarise(frame)``.
        column: one of the two.

    Returns:
        Figure by file stem; none where fewer than two sizes are known.
    """
    named = labels.named(summary)
    lines = drawable(named)
    if len(set(lines[column].dropna())) < 2:
        return {}
    stem, what, axis = _AXES[column]
    looks = Looks(lines, by_width=False)
    cells = list(dict.fromkeys(lines.cell))
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid(in_rows(len(cells), columns_for(len(cells))))
        bounded = False
        for ax, cell in zip(axes, cells, strict=True):
            panel = lines.loc[lines.cell == cell]
            first = panel.iloc[0]
            if column == "state_bytes" and first.layout == JUDGED_LAYOUT:
                size, best = bound_curve(int(first.vocab_size), int(first.n_queries))
                ax.plot(size, best, **_BOUND)
                size_panel(ax, panel, column, looks, smallest=float(size[0]))
                bounded = True
            else:
                size_panel(ax, panel, column, looks)
            ax.set_xlabel(axis)
            ax.set_title(cell)
        bare = {str(arm) for arm in lines.loc[lines[column].isna(), "arm"]}
        legend = [*looks.legend(lines, bare, lacking=what), *floor_legend(lines)]
        if bounded:
            legend.append(Line2D([], [], **_BOUND, label="most a state can give back (Fano)"))
        finish(figure, f"Accuracy against {what}", legend, caption(named))
    return {stem: figure}


def accuracy_by_load(
    summary: pd.DataFrame, fits: dict[tuple[str, str, str], Fit]
) -> dict[str, Figure]:
    """Accuracy against the number of pairs, with the logistic fits behind the points.

    Args:
        summary: ``aggregate.summarise(frame)``.
        fits: ``capacity.capacities(frame)[1]``.

    Returns:
        Figure by file stem; none where no cells differ in the number of pairs only.
    """
    named = labels.named(summary)
    drawn = drawable(named)
    lines = drawn.assign(cells=labels.load_names(drawn))
    loads = lines.groupby("cells").n_kv_pairs.transform("nunique")
    lines = lines.loc[loads > 1]
    if lines.empty:
        return {}
    split = n_lines(lines) > MAX_LINES and lines.d_model.nunique() > 1
    # A model looks the same in every figure, also where others have no load to vary.
    looks = Looks(drawn, by_width=not split and lines.d_model.nunique() > 1)
    panels = group_lines(lines, ["cells", "d_model"] if split else ["cells"])
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid(in_rows(len(panels), columns_for(len(panels))))
        for ax, (key, panel) in zip(axes, panels, strict=True):
            ax.set_title(str(key[0]) + (f", D = {key[1]}" if split else ""))
            _load_panel(ax, panel, looks, fits)
        legend = [*looks.legend(lines), *floor_legend(lines)]
        said = " Thin curves: logistic fits of recall above the floor; ticks below: K50."
        finish(figure, "Accuracy against load", legend, caption(named) + (said if fits else ""))
    return {"accuracy_load": figure}


_NOISE = r"^(?P<scheme>.+), sigma=(?P<sigma>.+)$"
"""The initialisation's name where a construction's weights were disturbed before training."""


def accuracy_by_noise(summary: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy after training against the noise on the weights it started from.

    Args:
        summary: ``aggregate.summarise(frame)``.

    Returns:
        Figure by file stem; none where fewer than two levels of noise are known.
    """
    named = labels.named(summary)
    found = named.init.str.extract(_NOISE)
    lines = drawable(named).join(found, how="inner").dropna(subset=["sigma"])
    if lines.sigma.nunique() < 2:
        return {}
    sigma = lines.sigma.astype(float)
    lines = lines.assign(sigma=sigma, arm=lines.model + " (" + lines.scheme + ")")
    looks = Looks(lines, by_width=lines.d_model.nunique() > 1)
    panels = group_lines(lines, ["cell"])
    smallest = float(sigma[sigma > 0].min())
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid(in_rows(len(panels), columns_for(len(panels))))
        for ax, (key, panel) in zip(axes, panels, strict=True):
            ax.set_title(str(key[0]))
            ax.set_xscale("symlog", base=2, linthresh=smallest, linscale=0.7)
            draw_floors(ax, panel.iloc[0].to_dict())
            for arm, width, line in each_line(panel):
                ordered, look = line.sort_values("sigma"), looks[arm, width]
                x = ordered.sigma.to_numpy() * looks.dodge(arm, width, 0.06)
                draw_points(ax, x, ordered, look)
            ticks = sorted(set(panel.sigma))
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
            ax.set_xlim(-smallest / 2, float(sigma.max()) * 1.3)
            ax.set_xlabel("sigma, noise over weight")
        legend = [*looks.legend(lines), *floor_legend(lines)]
        finish(figure, "Accuracy after training against noise", legend, caption(named))
    return {"accuracy_noise": figure}


def _load_panel(
    ax: Axes, panel: pd.DataFrame, looks: Looks, fits: dict[tuple[str, str, str], Fit]
) -> None:
    ax.set_xscale("log", base=2)
    cells = panel.drop_duplicates("n_kv_pairs").sort_values("n_kv_pairs")
    loads = cells.n_kv_pairs.to_numpy(dtype=float)
    for cell in cells.to_dict("records"):
        draw_floors(ax, cell, cell["n_kv_pairs"] * 2**-0.45, cell["n_kv_pairs"] * 2**0.45)
    for arm, width, line in each_line(panel):
        ordered, look = line.sort_values("n_kv_pairs"), looks[arm, width]
        x = ordered.n_kv_pairs.to_numpy() * looks.dodge(arm, width, 0.04)
        draw_points(ax, x, ordered, look)
        first = ordered.iloc[0]
        fit = fits.get((str(first.arm), str(first.width), str(first.cells)))
        if fit is not None:
            dense = np.geomspace(loads[0], loads[-1], 60)
            floor = np.interp(
                np.log(dense),
                np.log(ordered.n_kv_pairs.to_numpy(dtype=float)),
                ordered.floor.to_numpy(dtype=float),
            )
            ax.plot(
                dense,
                floor + (1 - floor) * fit.recall(dense),
                color=look.colour,
                linewidth=0.6,
                alpha=0.8,
                zorder=2,
                gid="capacity fit",
            )
            k50 = fit.load_at(LEVELS["k50"])[0]
            if loads[0] <= k50 <= loads[-1]:
                ax.plot([k50], [-0.03], marker="|", color=look.colour, markersize=7, zorder=4)
    ax.set_xlim(loads[0] * 2**-0.6, loads[-1] * 2**0.6)
    ax.set_xticks(loads, [f"{load:g}" for load in loads])
    ax.minorticks_off()
    ax.set_xlabel("pairs P")
