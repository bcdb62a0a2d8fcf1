"""How forgiving a model is of its learning rate, and what choosing it on the wrong split hides."""

import math

import pandas as pd

from zoology_bench.reporting.aggregate import CHOICE, TRAINING, candidates

WITHIN = 0.05
"""Accuracy below the best that still counts as inside the window."""

_TRAINING = list(TRAINING)


def by_rate(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per arm and learning rate: accuracy on select and on report, means over seeds.

    A run that failed without a number counts as 0 on both. Where a sweep varied more of the
    trainer than its rate, the choice that is best on select stands for its rate.
    """
    table = candidates(frame)
    table = table.loc[(table.kind == "trained") & table.lr.notna()]
    named = frame.assign(train_id=frame.train_id.where(frame.train_id != "", frame.data_hash))
    overall = named.loc[(named.metric == "accuracy") & (named.slice_key == "")]
    blind = (overall.status == "failed") & overall.value.isna()
    report = overall.loc[(overall.split == "report") | blind]
    report = report.assign(value=report.value.fillna(0.0))
    keys = [*_TRAINING, *CHOICE]
    runs = report.groupby([*keys, "run_id"], dropna=False, as_index=False).value.mean()
    means = runs.groupby(keys, dropna=False, as_index=False).value.mean()
    table = table.merge(means.rename(columns={"value": "report_accuracy"}), on=keys, how="left")
    order = table.sort_values("select_accuracy", ascending=False, kind="stable")
    return order.drop_duplicates([*_TRAINING, "lr"]).sort_values([*_TRAINING, "lr"], kind="stable")


def windows(rates: pd.DataFrame) -> pd.DataFrame:
    """One line per arm that was run at several rates.

    Args:
        rates: ``by_rate(frame)``.

    Returns:
        best_lr (on select); low_lr and high_lr, the ends of the unbroken run of rates around it
        whose accuracy on select is within ``WITHIN`` of the best, with decades = log10 of their
        ratio; at_edge, whether the window touches an end of the grid, so that it may be wider;
        report_accuracy of the choice made on select; optimism, how much more the best rate on
        report would have claimed.
    """
    lines = []
    for key, arm in rates.groupby(_TRAINING, dropna=False, sort=False):
        if len(arm) < 2 or arm.select_accuracy.isna().to_numpy().any():
            continue
        assert isinstance(key, tuple)
        grid = arm.sort_values("lr").reset_index(drop=True)
        best = int(grid.select_accuracy.to_numpy().argmax())
        inside = (grid.select_accuracy >= grid.select_accuracy[best] - WITHIN).tolist()
        low, high = _run_around(inside, best)
        lines.append(
            dict(zip(_TRAINING, key, strict=True))
            | {
                "n_rates": len(grid),
                "best_lr": grid.lr[best],
                "low_lr": grid.lr[low],
                "high_lr": grid.lr[high],
                "decades": math.log10(grid.lr[high] / grid.lr[low]),
                "at_edge": low == 0 or high == len(grid) - 1,
                "report_accuracy": grid.report_accuracy[best],
                "optimism": grid.report_accuracy.max() - grid.report_accuracy[best],
            }
        )
    return pd.DataFrame(lines)


def _run_around(inside: list[bool], index: int) -> tuple[int, int]:
    low = high = index
    while low > 0 and inside[low - 1]:
        low -= 1
    while high < len(inside) - 1 and inside[high + 1]:
        high += 1
    return low, high
