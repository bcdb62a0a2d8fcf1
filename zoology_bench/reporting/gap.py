"""Expressible minus learned: what a construction recalls on the rows where its twin was trained.

A gap is the part of an error that more or better training could still remove; what the construction
misses itself, no training of that architecture at that size is known to reach.
"""

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.columns import CELL
from zoology_bench.reporting.tables import MAX_DIGITS, format_accuracy, markdown_table

TWINS = {
    "attention": "analytic_attention",
    "base_conv": "analytic_every_lag",
    "base_conv[autocorrelation]": "analytic_base_conv",
}
"""The construction of every learned model that has one."""


def gaps(summary: pd.DataFrame) -> pd.DataFrame:
    """Pair every trained arm with its construction on the same rows of the same experiment.

    Args:
        summary: ``aggregate.summarise(frame)``.

    Returns:
        The trained lines that have a twin in their cell, with twin, expressible (the twin's
        accuracy on the same report rows, so that only seeds are uncertain), gap = expressible -
        accuracy, and gap_low..gap_high from the interval of the accuracy.
    """
    on = ["experiment", *CELL, "twin"]
    learned = summary.loc[summary.kind == "trained"]
    learned = learned.assign(twin=learned.model.map(TWINS)).dropna(subset=["twin"])
    analytic = summary.loc[(summary.kind == "untrained") & summary.model.isin(TWINS.values())]
    analytic = analytic.rename(columns={"model": "twin", "accuracy": "expressible"})
    # Of several sizes of one construction (n_distances), the best says what can be expressed.
    analytic = analytic.groupby(on, as_index=False, dropna=False).expressible.max()
    paired = learned.merge(analytic, on=on, how="inner")
    return paired.assign(
        gap=paired.expressible - paired.accuracy,
        gap_low=paired.expressible - paired.high,
        gap_high=paired.expressible - paired.low,
    )


def gap_markdown(summary: pd.DataFrame) -> str:
    """A section of table.md; empty where no trained arm has its twin beside it."""
    paired = gaps(labels.named(summary))
    if paired.empty:
        return ""
    lines = [
        [
            row["where"],
            row["twin"],
            f"{row['expressible']:.{MAX_DIGITS}f}",
            format_accuracy(row["accuracy"], row["low"], row["high"]),
            format_accuracy(row["gap"], row["gap_low"], row["gap_high"]),
        ]
        for row in paired.sort_values(["cell", "arm", "d_model"], kind="stable").to_dict("records")
    ]
    header = ["trained", "construction", "expressible", "learned", "expressible - learned"]
    return f"## Expressible minus learned\n\n{markdown_table(header, lines)}"
