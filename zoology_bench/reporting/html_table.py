"""All lines of a summary as one table for a page that sorts."""

import pandas as pd

from zoology_bench.reporting.tables import SIZES, arm_line, floor_texts

ACCURACY_COLUMN = 3
"""Place of the accuracy, which opens the runs behind it."""

_VALUES = (
    *("arm", "d_model", "cell", "accuracy", "solve_rate", "best_baseline", "floor_ceiling", "lr"),
    *("steps", "wall_s", "seconds_to_criterion"),
)


def table_cells(
    named: pd.DataFrame,
) -> tuple[list[tuple[str, str]], list[list[tuple[str, object]]]]:
    """Header as (name, text or number), lines as (text, sort value).

    Args:
        named: lines of ``labels.named``.
    """
    names = ("model", "D", "cell", "accuracy", "solved", "best baseline", "ceiling", "lr")
    names += ("steps", "seconds", "to criterion", *SIZES, "notes")
    header = [
        (
            name.removeprefix("n_").replace("_", " "),
            "text" if name in ("model", "cell", "notes") else "number",
        )
        for name in names
    ]
    lines = []
    for row in named.to_dict("records"):
        arm = arm_line(row)
        floors = floor_texts(row)
        texts = [arm[0], arm[1], row["cell"], arm[2], arm[3]]
        texts += [floors["best baseline"], floors["content-blind ceiling"], *arm[4:]]
        values = [*(row[name] for name in (*_VALUES, *SIZES)), arm[-1]]
        lines.append(list(zip(texts, values, strict=True)))
    return header, lines
