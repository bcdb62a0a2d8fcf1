"""Figures: accuracy against length, parameters and interaction distance, floors in every panel."""

import math
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import slice_bounds
from zoology_bench.reporting.plot_lines import (
    MAX_LINES,
    draw_band,
    draw_points,
    drawable,
    each_line,
    group_lines,
    n_lines,
)
from zoology_bench.reporting.plot_parts import (
    LEVEL_DASH,
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

_CELL_FACETS = ["n_kv_pairs", "filler", "layout", "distance_law", "vocab_size", "task"]
_FACETS = (
    [],
    ["n_kv_pairs"],
    ["n_kv_pairs", "filler"],
    _CELL_FACETS,
    [*_CELL_FACETS, "n_queries", "data_hash"],
)
"""What may have to be held fixed so that a length names one cell."""


def _facets(lines: pd.DataFrame) -> list[str]:
    """The fewest columns to split panels by, so that each length stands for one cell."""
    cells = lines.drop_duplicates("cell")
    return next(f for f in _FACETS if not cells.duplicated([*f, "seq_len"]).any())


_SAY: dict[str, Callable[[Any], str]] = {
    "n_kv_pairs": lambda value: f"P = {value}",
    "d_model": lambda value: "" if pd.isna(value) else f"D = {value}",
    "vocab_size": lambda value: f"V = {value}",
    "n_queries": lambda value: f"Q = {value}",
    "filler": lambda value: f"filler {value}",
    "data_hash": lambda value: str(value)[:8],
}


def _panel_title(columns: list[str], key: tuple[Any, ...], varying: set[str]) -> str:
    said = [
        _SAY.get(name, str)(value)
        for name, value in zip(columns, key, strict=True)
        if name in varying
    ]
    return ", ".join(text for text in said if text)


def accuracy_by_seq_len(summary: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy against T; panels by pairs or width where one panel cannot hold them.

    Args:
        summary: ``aggregate.summarise(frame)``.

    Returns:
        Figure by file stem (one).
    """
    named = labels.named(summary)
    lines = drawable(named)
    columns = _facets(lines)
    split = n_lines(lines) > MAX_LINES and lines.d_model.nunique() > 1
    looks = Looks(lines, by_width=not split and lines.d_model.nunique() > 1)
    per_row = lines.d_model.nunique() if split and columns else 4
    columns = [*columns, "d_model"] if split else columns
    panels = group_lines(lines, columns)
    varying = {name for name in columns if len(set(lines[name])) > 1}
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid(in_rows(len(panels), columns_for(len(panels), per_row)))
        for ax, (key, panel) in zip(axes, panels, strict=True):
            ax.set_title(_panel_title(columns, key, varying))
            _seq_len_panel(ax, panel, looks)
        legend = [*looks.legend(lines), *floor_legend(lines)]
        finish(figure, "Accuracy against sequence length", legend, caption(named))
    return {"accuracy_seq_len": figure}


def _seq_len_panel(ax: Axes, panel: pd.DataFrame, looks: Looks) -> None:
    ax.set_xscale("log", base=2)
    cells = panel.drop_duplicates("seq_len").sort_values("seq_len")
    for cell in cells.to_dict("records"):
        # A floor belongs to its cell: drawn around that length, nearly half-way to a doubled one.
        draw_floors(ax, cell, cell["seq_len"] * 2**-0.45, cell["seq_len"] * 2**0.45)
    for arm, width, line in each_line(panel):
        ordered = line.sort_values("seq_len")
        x = ordered.seq_len.to_numpy() * looks.dodge(arm, width, 0.05)
        draw_points(ax, x, ordered, looks[arm, width])
    lengths, pairs = cells.seq_len.tolist(), cells.n_kv_pairs.tolist()
    ax.set_xlim(lengths[0] * 2**-0.6, lengths[-1] * 2**0.6)
    vary = len(set(pairs)) > 1
    names = [f"{t}\nP={p}" if vary else f"{t}" for t, p in zip(lengths, pairs, strict=True)]
    ax.set_xticks(lengths, names)
    ax.minorticks_off()
    ax.set_xlabel("sequence length T")


_SIZES = {
    "n_params_total": "parameters, total",
    "n_params_non_embedding": "parameters, non-embedding",
}


def accuracy_by_parameters(summary: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy against size, total above (or beside) non-embedding, one pair of panels a cell.

    A model without parameters is a level line.

    Args:
        summary: ``aggregate.summarise(frame)``.

    Returns:
        Figure by file stem (one).
    """
    named = labels.named(summary)
    lines = drawable(named)
    looks = Looks(lines, by_width=False)
    cells = list(dict.fromkeys(lines.cell))
    per_row = columns_for(len(cells))
    panels = [
        (cell, size, _size_position(index, rank, per_row))
        for index, cell in enumerate(cells)
        for rank, size in enumerate(_SIZES)
    ]
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid([position for _, _, position in panels])
        for ax, (cell, size, _) in zip(axes, panels, strict=True):
            size_panel(ax, lines.loc[lines.cell == cell], size, looks)
            ax.set_xlabel(_SIZES[size])
            ax.set_title(cell)
        bare = {str(arm) for arm in lines.loc[lines.n_params_total.fillna(0) == 0, "arm"]}
        legend = [*looks.legend(lines, level=bare), *floor_legend(lines)]
        widths = [str(width) for width in sorted(lines.d_model.dropna().unique())]
        along = f" Points along a line: D = {', '.join(widths)}." if len(widths) > 1 else ""
        finish(figure, "Accuracy against parameters", legend, caption(named) + along)
    return {"accuracy_params": figure}


def _size_position(index: int, rank: int, per_row: int) -> tuple[int, int]:
    """Non-embedding (rank 1) stands below total, or beside it where there is one cell."""
    block, column = divmod(index, per_row)
    return (0, rank) if per_row == 1 else (2 * block + rank, column)


def size_panel(
    ax: Axes, panel: pd.DataFrame, size: str, looks: Looks, smallest: float = math.inf
) -> None:
    """Accuracy against a column of sizes; a model that has none is a level line.

    Args:
        ax: where to draw.
        panel: lines of one cell.
        size: the column.
        looks: of every arm.
        smallest: a size that the axis must reach down to.
    """
    ax.set_xscale("log")
    draw_floors(ax, panel.iloc[0].to_dict())
    sized = panel.loc[panel[size].fillna(0) > 0]
    for arm, _, line in each_line(panel.assign(at=panel[size], d_model=pd.NA)):
        look = looks[arm, None]
        points = line.loc[line.index.isin(sized.index)].sort_values("at")
        if len(points):
            x = points["at"].to_numpy(dtype=float) * looks.dodge(arm, None, 0.02)
            draw_points(ax, x, points, look)
        for y in line.loc[~line.index.isin(sized.index), "accuracy"]:
            ax.axhline(y, color=look.colour, linestyle=LEVEL_DASH, linewidth=1.4, zorder=2)
    ax.minorticks_off()
    if sized.empty:
        ax.set_xticks([])
        return
    low, high = min(smallest, float(sized[size].min()) / 1.5), float(sized[size].max()) * 1.5
    ax.set_xlim(low, high)
    if size == "d_model":
        widths = sorted(set(sized[size].astype(int)))
        ax.set_xticks(widths, [str(width) for width in widths])
        return
    steps = (1, 2, 3, 4, 6, 8) if high / low < 5 else (1, 2, 5) if high / low < 100 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    ax.set_xticks(ticks, [_short(tick) for tick in ticks])


def _short(number: float) -> str:
    """20000 as 20k."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


def accuracy_by_distance(slices: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy against the interaction distance, one panel a cell.

    Args:
        slices: ``aggregate.summarise(frame, "distance")``.

    Returns:
        Figure by file stem: one, or one a width where a panel could not hold all of them.
    """
    named = labels.named(slices)
    lines = drawable(named)
    several = lines.d_model.nunique() > 1
    if not several or n_lines(lines) <= MAX_LINES:
        looks = Looks(lines, by_width=several)
        return {"accuracy_distance": _distance_figure(lines, looks, caption(named))}
    looks = Looks(lines, by_width=False)
    # A width of which nothing has a number has no page: every page names what is missing.
    missing = named.accuracy.isna()
    return {
        f"accuracy_distance_d{key[0]}": _distance_figure(
            page, looks, caption(named.loc[missing | named.index.isin(page.index)])
        )
        for key, page in group_lines(lines, ["d_model"])
    }


def _distance_figure(lines: pd.DataFrame, looks: Looks, said: str) -> Figure:
    cells = list(dict.fromkeys(lines.cell))
    widths = lines.d_model.dropna().unique()
    which = f", D = {widths[0]}" if len(widths) == 1 else ""
    with mpl.rc_context(STYLE):
        figure, axes = panel_grid(in_rows(len(cells), columns_for(len(cells))))
        for ax, cell in zip(axes, cells, strict=True):
            _distance_panel(ax, lines.loc[lines.cell == cell], looks)
            ax.set_title(cell)
        legend = [*looks.legend(lines), *floor_legend(lines)]
        text = said + " 1/V, 1/P and the ceiling are those of all distances together."
        finish(figure, f"Accuracy against interaction distance{which}", legend, text)
    return figure


def _distance_panel(ax: Axes, panel: pd.DataFrame, looks: Looks) -> None:
    ax.set_xscale("log", base=2)
    bounds = slice_bounds(panel.slice_value)
    panel = panel.join(bounds).assign(middle=np.sqrt(bounds["first"] * bounds["last"]))
    panel = panel.loc[panel.middle > 0]
    draw_floors(ax, panel.iloc[0].drop("best_baseline").to_dict())
    for one in panel.drop_duplicates("slice_value").to_dict("records"):
        draw_floors(
            ax, {"best_baseline": one["best_baseline"]}, one["first"] - 0.5, one["last"] + 0.5
        )
    for arm, width, line in each_line(panel):
        ordered, look = line.sort_values("middle"), looks[arm, width]
        x = ordered.middle.to_numpy() * looks.dodge(arm, width, 0.03)
        if len(ordered) == 1:
            draw_points(ax, x, ordered, look)
        else:
            draw_band(ax, x, ordered, look)
    edges = bounds.to_numpy(dtype=float)
    ax.set_xlim(np.nanmin(edges) - 0.5, np.nanmax(edges) * 1.1 + 0.5)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.minorticks_off()
    ax.set_xlabel("interaction distance s")
