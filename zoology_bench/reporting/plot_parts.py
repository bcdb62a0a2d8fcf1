"""What all figures share: palette, panels, floors, legend, caption, and bytes that repeat.

Uses matplotlib's object interface only, so that a notebook's own pyplot state is never touched.
"""

import io
import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoology_bench.reporting.aggregate import TRAINING
from zoology_bench.reporting.palette import COLOURS

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""They repeat the distinction that colours make."""
_DASHES = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1.2)))
"""Widths from large to small."""
LEVEL_DASH = (0, (6, 2))
"""A model without a place on the x axis."""

STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "zoology-bench",
    "savefig.dpi": 150,
}
PANEL = (2.1, 1.65)
"""Inches of the axes of a panel in a grid."""
ALONE = (4.7, 2.7)
"""Inches of the axes of a panel that stands alone."""
_SPREAD = 0.24
"""Octaves of x over which all arms of a figure stand side by side: ticks are rarely closer."""
_GAP = (0.22, 0.78)
"""Inches between panels: columns; rows, with tick labels, axis label and the next title."""
_PANEL_TITLE = 0.22
_LEFT, _RIGHT, _TOP, _MIN_WIDTH = 0.58, 0.12, 0.28, 5.4

Position = tuple[int, int]
"""Row and column of a panel."""
Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """How one arm at one width is drawn."""

    colour: str
    marker: str
    dash: Any
    size: float

    def line(self, label: str) -> Line2D:
        """The legend's sample."""
        return Line2D(
            [],
            [],
            color=self.colour,
            marker=self.marker,
            linestyle=self.dash,
            markersize=self.size,
            label=label,
        )


class Looks:
    """Colour and marker by arm; dash and marker size by width where one panel shows several."""

    def __init__(self, named: pd.DataFrame, *, by_width: bool) -> None:
        order = named.sort_values(["kind", "arm"], kind="stable")
        self.arms = list(dict.fromkeys(order.arm))
        widths = sorted({int(width) for width in named.d_model.dropna()}, reverse=True)
        self.widths = widths if by_width else []

    def __getitem__(self, key: tuple[str, int | None]) -> Look:
        arm, width = key
        index = self.arms.index(arm)
        rank = self.widths.index(width) if self.widths and width is not None else 0
        return Look(
            colour=COLOURS[index % len(COLOURS)],
            marker=_MARKERS[(index + index // len(COLOURS)) % len(_MARKERS)],
            dash=_DASHES[min(rank, len(_DASHES) - 1)],
            size=max(3.2, 6.2 - 1.1 * rank),
        )

    def dodge(self, arm: str, width: int | None, step: float) -> float:
        """Factor on x that keeps lines with equal accuracy from hiding each other."""
        rank = self.widths.index(width) if self.widths and width is not None else 0
        middle = (len(self.arms) - 1) / 2
        step = min(step, _SPREAD / len(self.arms))
        return 2 ** (step * (self.arms.index(arm) - middle + 0.3 * rank))

    def legend(
        self, lines: pd.DataFrame, level: Collection[str] = (), lacking: str = "parameters"
    ) -> list[Line2D]:
        """Samples of the arms that are drawn (some as level lines), then of the widths."""
        samples = []
        for arm in self.arms:
            if arm in level:
                bare = Look(self[arm, None].colour, "none", LEVEL_DASH, 0)
                samples.append(bare.line(f"{arm}, no {lacking}"))
            elif arm in set(lines.arm):
                samples.append(self[arm, None].line(arm))
        for width in self.widths:
            look = self[self.arms[0], width]
            samples.append(Look("#555555", "o", look.dash, look.size).line(f"D = {width}"))
        return samples


FLOORS = {
    "best baseline": ("best_baseline", "#777777", "-"),
    "content-blind ceiling": ("floor_ceiling", "#333333", (0, (5, 1.5, 1, 1.5))),
    "1/P": ("floor_pairs", "#777777", (0, (4, 2))),
    "1/V": ("floor_vocab", "#777777", (0, (1, 1.5))),
}
"""Name, column, colour and dash of the chance floors."""


def draw_floors(ax: Axes, line: Row, left: float | None = None, right: float = 1.0) -> None:
    """Draw every known floor of one summary line.

    Args:
        ax: panel.
        line: anything that maps the floors' columns to numbers.
        left: start on the x axis; None draws across the whole panel.
        right: end on the x axis.
    """
    for name, (column, colour, dash) in FLOORS.items():
        value = float(line.get(column, math.nan))
        if math.isnan(value):
            continue
        across = ax.transData if left is not None else ax.get_yaxis_transform()
        ax.plot(
            [0.0 if left is None else left, right],
            [value, value],
            color=colour,
            linestyle=dash,
            linewidth=1.0,
            zorder=1.5,
            gid=f"floor {name}",
            transform=across,
        )


def floor_legend(lines: pd.DataFrame) -> list[Line2D]:
    """Samples of the floors that are known."""
    return [
        Line2D([], [], color=colour, linestyle=dash, linewidth=1.0, label=name)
        for name, (column, colour, dash) in FLOORS.items()
        if not lines[column].isna().to_numpy().all()
    ]


def columns_for(n_panels: int, at_most: int = 4) -> int:
    """Panels per row: as few rows as possible, rows as equal as possible."""
    return math.ceil(n_panels / math.ceil(n_panels / at_most))


def in_rows(n_panels: int, n_columns: int) -> list[Position]:
    """Positions of panels filled row by row."""
    return [divmod(index, n_columns) for index in range(n_panels)]


def panel_grid(positions: Sequence[Position]) -> tuple[Figure, list[Axes]]:
    """A figure with one panel of accuracy axes at each (row, column)."""
    n_rows = 1 + max(row for row, _ in positions)
    n_columns = 1 + max(column for _, column in positions)
    panel = ALONE if len(positions) == 1 else PANEL
    width = max(_MIN_WIDTH, _LEFT + panel[0] * n_columns + _GAP[0] * (n_columns - 1) + _RIGHT)
    figure = Figure(figsize=(width, panel[1] * n_rows + _GAP[1] * n_rows))
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(n_rows, n_columns)
    axes = [figure.add_subplot(grid[position]) for position in positions]
    for ax, (_, column) in zip(axes, positions, strict=True):
        # Room above 1 and below 0: perfect models and chance must not hide behind the frame.
        ax.set_ylim(-0.04, 1.04)
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
        ax.grid(axis="y", color="#e6e6e6", linewidth=0.6, zorder=0)
        ax.tick_params(labelleft=column == 0)
        if column == 0:
            ax.set_ylabel("accuracy")
    return figure, axes


def finish(figure: Figure, title: str, legend: Sequence[Artist], caption: str) -> Figure:
    """Add the title above and, in a strip below that no data can reach, legend and caption.

    Margins are set in inches: a layout engine would draw everything twice more to find the same.
    """
    width, height = figure.get_size_inches()
    n_columns = _legend_columns([str(sample.get_label()) for sample in legend], width)
    text = textwrap.fill(caption, width=int(width * 17))
    text_height = 0.08 + 0.115 * (1 + text.count("\n"))
    strip = text_height + 0.14 + 0.17 * math.ceil(len(legend) / n_columns)
    total = _TOP + height + strip
    figure.set_size_inches(width, total)
    grid = figure.axes[0].get_gridspec()
    assert grid is not None
    panel = [
        (width - _LEFT - _RIGHT + _GAP[0]) / grid.ncols - _GAP[0],
        height / grid.nrows - _GAP[1],
    ]
    figure.subplots_adjust(
        left=_LEFT / width,
        right=1 - _RIGHT / width,
        top=1 - (_TOP + _PANEL_TITLE) / total,
        bottom=(strip + _GAP[1] - _PANEL_TITLE) / total,
        wspace=_GAP[0] / panel[0],
        hspace=_GAP[1] / panel[1],
    )
    figure.suptitle(title, fontsize=9.5, fontweight="bold", y=1 - 0.1 / total)
    figure.legend(
        handles=list(legend),
        loc="upper center",
        bbox_to_anchor=(0.5, strip / total),
        ncols=n_columns,
        frameon=False,
        handlelength=2.8,
        borderaxespad=0.3,
    )
    figure.text(0.06 / width, 0.06 / total, text, fontsize=6.5, color="#444444", va="bottom")
    return figure


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """The most columns whose labels fit into ``width`` inches (legends fill column by column)."""
    for n_columns in range(len(labels), 1, -1):
        n_rows = math.ceil(len(labels) / n_columns)
        columns = [labels[i : i + n_rows] for i in range(0, len(labels), n_rows)]
        if sum(0.7 + 0.064 * max(map(len, column)) for column in columns) <= width:
            return len(columns)
    return 1


def caption(named: pd.DataFrame) -> str:
    """Initialisations, seeds, width, what the bars are, what went wrong and what is missing.

    Args:
        named: lines of ``labels.named``, also those without a number.
    """
    models = named.loc[named.kind != "baseline"]
    lines = models.loc[models.accuracy.notna()]
    trained = lines.loc[lines.kind == "trained"]
    parts = []
    if len(trained):
        inits = ", ".join(sorted({init for init in trained.init if init})) or "unnamed"
        seeds = sorted(set(trained.n_seeds))
        count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        parts.append(f"Initialisation: {inits}; {count} seed{'s' if seeds[-1] > 1 else ''}.")
        if trained.d_model.nunique() == 1:
            parts.append(f"D = {trained.d_model.dropna().iloc[0]}.")
        if "recipe" in set(trained.init):
            parts.append("The recipe's initial weights already hold the solution's structure.")
    kinds = set(lines.interval)
    if kinds >= {"seeds", "rows"}:
        bars = "across seeds (t), or within a seed (Wilson) where seeds agree or there is only one"
    else:
        bars = "across seeds (t)" if "seeds" in kinds else "within a seed (Wilson)"
    parts.append(f"Bars and bands: 95 % interval {bars}.")
    # A run has a line for each cell and slice that it was measured on, and is one run.
    runs = models.loc[models.kind == "trained"].groupby(list(TRAINING), dropna=False)
    counts = runs[["n_seeds", "n_failed", "n_budget_limited"]].max().sum()
    for count, what in (
        (counts.n_failed, "failed (one without a number counts as 0 in its arm's mean)"),
        (counts.n_budget_limited, "still rose when the budget ended"),
    ):
        if count:
            parts.append(f"{count} of {counts.n_seeds} runs {what}.")
    missing = models.loc[models.accuracy.isna()].to_dict("records")
    if missing:
        shown = [
            f"{line['where']} ({line['n_failed']}/{line['n_seeds']} failed)" for line in missing
        ]
        parts.append(f"No number: {'; '.join(shown)}.")
    return " ".join(parts)


def render(figure: Figure, suffix: str) -> bytes:
    """Encode as png or svg; the same figure gives the same bytes (no date, fixed ids)."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {"Software": None}
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=suffix, metadata=metadata)
    return buffer.getvalue()
