"""The report's figures as plotly's plain data: lines to hover, zoom, hide, and click."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import error_shares, slice_bounds
from zoology_bench.reporting.palette import COLOURS, ERRORS, RIGHT

_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
_LOG = {"type": "log", "exponentformat": "SI"}
_INTERVAL = (
    "Bars: 95 % interval. Dotted grey: the content-blind ceiling. Click a point for its runs."
)

_AXES = (
    ("seq_len", "sequence length T", ("width", "n_kv_pairs", "filler")),
    ("n_kv_pairs", "load: pairs P", ("width", "seq_len", "filler")),
    ("d_model", "width D", ("cell",)),
    ("n_params_non_embedding", "parameters, non-embedding", ("cell",)),
    ("n_params_total", "parameters, total", ("cell",)),
    ("state_bytes", "state, bytes per sequence", ("cell",)),
)
"""Column, label, and what separates one line of a model from another."""

Figure = dict[str, Any]
Styles = Mapping[str, tuple[str, str]]
"""Colour and marker by arm."""


def figures(frame: pd.DataFrame, summary: pd.DataFrame, slices: pd.DataFrame) -> list[Figure]:
    """Every figure that these results can fill.

    Args:
        frame: validated rows.
        summary: ``aggregate.summarise(frame)``; a point opens the line of this table.
        slices: ``aggregate.summarise(frame, "distance")``.
    """
    named = labels.named(summary)
    lines = _with_numbers(named.assign(index=range(len(named))))
    if lines.empty:
        return []
    by_distance = _with_numbers(labels.named(slices))
    # A model looks the same in every figure, also where others have no place on the axis.
    style = _styles({*lines.arm, *by_distance.arm})
    made = [
        *(_along(lines, column, axis, keys, style) for column, axis, keys in _AXES),
        _by_distance(by_distance, style),
        _errors(summary, frame),
    ]
    return [figure for figure in made if figure]


def _with_numbers(named: pd.DataFrame) -> pd.DataFrame:
    return named.loc[(named.kind != "baseline") & named.accuracy.notna()]


def _along(
    lines: pd.DataFrame, column: str, axis: str, keys: Sequence[str], style: Styles
) -> Figure | None:
    """Accuracy against a column, one line for each model and combination of ``keys``."""
    known = lines.loc[lines[column].notna()]
    if len(set(known[column])) < 2:
        return None
    apart = ["arm", *(key for key in keys if len(set(lines[key])) > 1)]
    traces = []
    for key, line in known.groupby(apart, sort=False):
        assert isinstance(key, tuple)
        ordered = line.sort_values(column, kind="stable")
        x = ordered[column].astype(float).tolist()
        points = _points(x, ordered, style[key[0]], ordered["index"].tolist())
        floor = ordered.floor_ceiling.astype(float)
        traces.append(_floor(x, [None if np.isnan(v) else v for v in floor], points))
        traces.append(points)
    figure = _figure(column, f"Accuracy against {axis}", axis, traces, _INTERVAL)
    ticks = sorted(set(known[column].astype(float)))
    if len(ticks) <= 8 and not column.startswith("n_params"):
        figure["layout"]["xaxis"] |= {"tickvals": ticks, "ticktext": [f"{t:g}" for t in ticks]}
    return figure


def _by_distance(lines: pd.DataFrame, style: Styles) -> Figure | None:
    if lines.empty:
        return None
    bounds = slice_bounds(lines.slice_value)
    lines = lines.assign(middle=np.sqrt(bounds["first"] * bounds["last"]))
    lines = lines.loc[lines.middle > 0]
    traces = []
    keys = ["arm", *(key for key in ("width", "cell") if len(set(lines[key])) > 1)]
    for key, line in lines.groupby(keys, sort=False):
        assert isinstance(key, tuple)
        ordered = line.sort_values("middle", kind="stable")
        x = ordered.middle.tolist()
        traces.append(_points(x, ordered, style[key[0]], None))
    axis = "interaction distance s"
    said = "Bars: 95 % interval. Each point stands for a bin of distances; the filters above apply."
    return _figure("distance", f"Accuracy against {axis}", axis, traces, said)


def _errors(summary: pd.DataFrame, frame: pd.DataFrame) -> Figure | None:
    """Stacked shares of right answers and of every kind of wrong one."""
    shares = error_shares(frame)
    keys = [name for name in shares.columns if name in summary.columns]
    lines = labels.named(summary).merge(shares, on=keys, how="left")
    lines = lines.assign(index=range(len(lines)))
    kinds = [name for name in ERRORS if name in lines.columns]
    lines = lines.loc[lines[kinds].notna().any(axis=1)] if kinds else lines.iloc[:0]
    if lines.empty:
        return None
    names = [escape(text).replace(" at ", "<br>at ", 1) for text in lines["where"]]
    layers = [(RIGHT, lines.accuracy), *((ERRORS[name], lines[name]) for name in kinds)]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": share.fillna(0).astype(float).tolist(),
            "y": names,
            "customdata": lines["index"].tolist(),
            "marker": {"color": colour, "pattern": {"shape": pattern}},
        }
        for (name, colour, _, pattern), share in layers
    ]
    figure = _figure(
        "errors", "Where the answers go", "", traces, "Shares of all queries, mean over seeds."
    )
    figure["layout"] |= {
        "barmode": "stack",
        "height": 200 + 30 * len(names),
        "xaxis": {"title": {"text": "share of queries"}, "range": [0, 1]},
        "yaxis": {"automargin": True, "autorange": "reversed", "tickfont": {"size": 10}},
        "legend": {
            **{"orientation": "h", "traceorder": "normal", "font": {"size": 11}},
            **{"xref": "container", "x": 0, "yref": "container", "y": 1, "yanchor": "top"},
        },
        "margin": {"l": 55, "r": 15, "t": 130, "b": 50},
    }
    return figure


def _styles(arms: Iterable[str]) -> Styles:
    names = sorted(arms)
    return {
        name: (COLOURS[i % len(COLOURS)], _SYMBOLS[i % len(_SYMBOLS)])
        for i, name in enumerate(names)
    }


def _points(
    x: list[float],
    lines: pd.DataFrame,
    style: tuple[str, str],
    index: list[int] | None,
) -> dict[str, Any]:
    colour, symbol = style
    y = lines.accuracy.astype(float)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(str(lines.arm.iloc[0])),
        "legendgroup": str(lines.arm.iloc[0]),
        "meta": {"model": str(lines.arm.iloc[0]), "cells": sorted(set(lines.cell))},
        "x": x,
        "y": y.tolist(),
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": (lines.high - y).astype(float).tolist(),
            "arrayminus": (y - lines.low).astype(float).tolist(),
            "thickness": 1,
        },
        "text": [escape(text) for text in lines["where"]],
        "hovertemplate": "%{text}<br>accuracy %{y:.4f}<extra></extra>",
        "marker": {"color": colour, "symbol": symbol, "size": 8},
        "line": {"color": colour, "width": 1.5},
        **({} if index is None else {"customdata": index}),
    }


def _floor(x: list[float], y: list[float | None], points: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "legendgroup": points["legendgroup"],
        "meta": points["meta"],
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"color": "#777777", "width": 1, "dash": "dot"},
    }


def _figure(name: str, title: str, axis: str, traces: list[dict[str, Any]], caption: str) -> Figure:
    seen: set[str] = set()
    for trace in traces:  # one entry of the legend an arm: it hides and shows all its lines
        if trace.get("legendgroup") and trace.get("showlegend", True):
            trace["showlegend"] = trace["legendgroup"] not in seen
            seen.add(trace["legendgroup"])
    layout = {
        "xaxis": {**_LOG, "title": {"text": axis, "standoff": 6}},
        "yaxis": {"title": {"text": "accuracy"}, "range": [-0.04, 1.04]},
        "legend": {"orientation": "h", "y": -0.32, "yanchor": "top", "font": {"size": 11}},
        "margin": {"l": 55, "r": 15, "t": 36, "b": 110},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
    }
    layout["xaxis"] |= {"gridcolor": "#e6e6e6"}
    layout["yaxis"] |= {"gridcolor": "#e6e6e6"}
    return {
        "id": f"figure-{name}",
        "title": title,
        "caption": caption,
        "data": traces,
        "layout": layout,
    }
