"""Lines of a summary as lines of a figure: which to draw, in which group, and how."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from zoology_bench.reporting.plot_parts import Look

MAX_LINES = 8
"""Lines that one panel can carry; beyond, each width gets its own panel or figure."""


def drawable(named: pd.DataFrame) -> pd.DataFrame:
    """Lines (of ``labels.named``) with a number, baselines aside: they appear as a floor.

    Raises:
        ValueError: nothing is left to draw.
    """
    lines = named.loc[(named.kind != "baseline") & named.accuracy.notna()]
    if lines.empty:
        raise ValueError("no model has a number to draw")
    return lines


def n_lines(lines: pd.DataFrame) -> int:
    """Arms times widths."""
    return len(lines.drop_duplicates(["arm", "d_model"]))


def group_lines(
    lines: pd.DataFrame, columns: list[str]
) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Groups by ``columns``; a line without a width belongs to the group of every width."""
    if not columns:
        return [((), lines)]
    everywhere = lines.d_model.isna() if "d_model" in columns else pd.Series(False, lines.index)
    split = lines.loc[~everywhere] if not everywhere.all() else lines
    rest = [name for name in columns if name != "d_model"]
    groups = []
    for key, group in split.groupby(columns, dropna=False):
        assert isinstance(key, tuple)
        same = lines.loc[everywhere & ~lines.index.isin(group.index)]
        for name in rest:
            same = same.loc[same[name] == group[name].iloc[0]]
        groups.append((key, pd.concat([group, same])))
    return groups


def each_line(panel: pd.DataFrame) -> list[tuple[str, int | None, pd.DataFrame]]:
    """Arm, width (None: has none) and points of every line of a panel, wide models first."""
    order = panel.sort_values(["kind", "arm", "d_model"], ascending=[True, True, False])
    lines = []
    for arm, width in dict.fromkeys(zip(order.arm, order.d_model.tolist(), strict=True)):
        bare = width is pd.NA
        same = panel.d_model.isna() if bare else (panel.d_model == width).fillna(False)
        lines.append((arm, None if bare else width, panel.loc[(panel.arm == arm) & same]))
    return lines


def draw_points(ax: Axes, x: np.ndarray, arm: pd.DataFrame, look: Look) -> None:
    """Points with interval bars, joined in the order of x."""
    y = arm.accuracy.to_numpy(dtype=float)
    bars = np.abs(np.stack([y - arm.low, arm.high - y]).astype(float))
    ax.errorbar(
        x,
        y,
        yerr=bars,
        color=look.colour,
        marker=look.marker,
        linestyle=look.dash,
        markersize=look.size,
        linewidth=1.1,
        elinewidth=0.9,
        capsize=1.8,
        markeredgecolor="white",
        markeredgewidth=0.4,
        zorder=3,
        clip_on=False,
    )


def draw_band(ax: Axes, x: np.ndarray, arm: pd.DataFrame, look: Look) -> None:
    """A line with its interval as a band: bars would crowd at many distances."""
    low, high = arm.low.to_numpy(dtype=float), arm.high.to_numpy(dtype=float)
    ax.fill_between(x, low, high, color=look.colour, alpha=0.18, linewidth=0, zorder=2)
    ax.plot(
        x,
        arm.accuracy.to_numpy(dtype=float),
        color=look.colour,
        marker=look.marker,
        linestyle=look.dash,
        markersize=look.size * 0.7,
        linewidth=1.1,
        zorder=3,
        clip_on=False,
    )
