"""Accuracy resolved along one axis: interaction distance, binding distance or number of pairs."""

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import slice_bounds, summarise
from zoology_bench.reporting.tables import Table, accuracy_cell, format_floor, markdown_table

BY = ("distance", "binding_distance", "n_kv_pairs")
"""What ``report --by`` takes."""
_SAY = {"distance": "s", "binding_distance": "b", "n_kv_pairs": "P"}
_TITLES = {
    "distance": "interaction distance s (query position - key position)",
    "binding_distance": "binding distance b (other pairs written between write and query)",
    "n_kv_pairs": "number of pairs P",
}
_FLOORS = {"best baseline": "best_baseline", "content-blind ceiling": "floor_ceiling"}


def resolved(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """Summary lines with the axis value as ``at`` (text) and its place in ``order``.

    Args:
        frame: validated rows.
        by: one of ``BY``.
    """
    summary = summarise(frame, "" if by == "n_kv_pairs" else by)
    named = labels.named(summary.loc[summary.accuracy.notna()])
    if by == "n_kv_pairs":
        at = named.n_kv_pairs.astype(str)
        return named.assign(cell=labels.load_names(named), at=at, order=named.n_kv_pairs)
    order = slice_bounds(named.slice_value)["first"]
    return named.assign(at=named.slice_value, order=order)


def tables_by(frame: pd.DataFrame, by: str) -> dict[str, Table]:
    """One table per cell (for n_kv_pairs: per set of cells that differ in P only), arms down.

    The floors close each table: the best shipped baseline of that column; the ceiling where a
    column is a cell of its own, for it is known for whole cells alone.

    Raises:
        ValueError: the results have no such slices.
    """
    lines = resolved(frame, by)
    if lines.loc[lines.kind != "baseline"].empty:
        raise ValueError(f"--by {by}: no model has accuracies by {by}")
    return {str(cell): _table(lines.loc[lines.cell == cell], by) for cell in _cells(lines)}


def by_markdown(frame: pd.DataFrame, by: str) -> str:
    """The page table_by_<axis>.md."""
    parts = [
        f"# Accuracy by {_TITLES[by]}",
        "On `report` rows, mean over seeds with its 95 % interval (* within a seed) and the seeds "
        "above .99.",
    ]
    for cell, table in tables_by(frame, by).items():
        parts += [f"## {cell}", markdown_table(*table)]
    return "\n\n".join(parts) + "\n"


def _cells(lines: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(lines.loc[lines.kind != "baseline", "cell"]))


def _table(lines: pd.DataFrame, by: str) -> Table:
    columns = list(dict.fromkeys(lines.sort_values("order", kind="stable")["at"]))
    models = lines.assign(line=lines.arm + lines.width).loc[lines.kind != "baseline"]
    models = models.sort_values(["kind", "arm", "d_model"], kind="stable", na_position="first")
    shown = {(row["line"], row["at"]): accuracy_cell(row) for row in models.to_dict("records")}
    body = [
        [name, *(shown.get((name, column), "-") for column in columns)]
        for name in dict.fromkeys(models.line)
    ]
    firsts = {row["at"]: row for row in lines.drop_duplicates("at").to_dict("records")}
    for name, key in _FLOORS.items():
        if key == "floor_ceiling" and by != "n_kv_pairs":
            continue
        body.append([name, *(format_floor(firsts[column][key]) for column in columns)])
    return ["model", *(f"{_SAY[by]}={column}" for column in columns)], body
