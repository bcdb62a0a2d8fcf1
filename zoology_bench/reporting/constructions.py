"""Sizes of what was built rather than trained, against the size of its task, and its errors."""

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.tables import markdown_table

_HEADER = ("construction", "P", "T", "V", "layers", "width", "parameters", "queries", "errors")


def constructions_markdown(summary: pd.DataFrame) -> str:
    """One line for each untrained model with layers and cell, by model and by pairs written.

    Args:
        summary: ``aggregate.summarise(frame)``.

    Returns:
        A Markdown table; empty where no untrained model has layers.
    """
    built = summary.loc[(summary.kind == "untrained") & summary.n_layers.notna()]
    if built.empty:
        return ""
    named = labels.named(built).sort_values(["arm", "n_kv_pairs", "seq_len"], kind="stable")
    lines = []
    for row in named.to_dict("records"):
        sizes = [row[name] for name in ("n_kv_pairs", "seq_len", "vocab_size")]
        sizes += [row[name] for name in ("n_layers", "d_model", "n_params_total")]
        failed = pd.isna(row["accuracy"])
        errors = "no number" if failed else f"{round((1 - row['accuracy']) * row['n']):,}"
        counts = ["-" if pd.isna(size) else f"{int(size):,}" for size in sizes]
        lines.append([row["arm"], *counts, f"{row['n']:,}", errors])
    return markdown_table(_HEADER, lines)
