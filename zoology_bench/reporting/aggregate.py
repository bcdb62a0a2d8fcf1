"""From rows to numbers: choose on select, report on report, count every seed.

Pure functions on long-form frames. An arm is a model with its initialisation and width; a cell is
what it was measured on; a choice is a learning rate with the rest of the trainer.
"""

import pandas as pd

from zoology_bench.reporting.columns import CELL, COVERAGE, KINDS, UNBOUNDED_METRICS
from zoology_bench.reporting.intervals import effective_n, t_interval, wilson_interval

SOLVED = 0.99
"""A seed solves a cell when its report accuracy is above this."""

ARM = ("experiment", "kind", "model", "mixer", "init", "causal", "n_layers", "d_model", "model_id")
"""Columns that say what was measured, seeds and trainer choices aside."""
CHOICE = ("lr", "trainer_id")
"""Columns that a sweep may vary and of which one combination is reported."""

TRAINING = (*ARM, "train_id")
"""Columns that say what was trained on what: one run for each seed and choice."""

_TRAINING = list(TRAINING)
_CANDIDATE = [*TRAINING, *CHOICE]
_GROUP = [*_CANDIDATE, *CELL]
_CHOSEN = ("select_accuracy", "n_choices", "n_eligible")


def candidates(frame: pd.DataFrame) -> pd.DataFrame:
    """Score every trainer choice of every arm by its accuracy on ``select``.

    The score is the mean over seeds of the mean over cells; a run that failed without a number
    scores 0. Means over unequal seeds do not compare, as after an interrupted sweep: only choices
    with the most seeds (failed ones included) can be chosen, and n_eligible says how many of the
    arm's choices those are. Ties go to the choice that needed fewer steps, then to the smaller
    learning rate. An arm trained on a mixture makes one choice for all its cells. Models that are
    not trained have nothing to choose: the first of equal runs stands for all.

    Returns:
        One line per arm, training data and choice: select_accuracy (nan without select rows),
        n_seeds, n_failed, n_choices (alternatives of the arm, itself included), n_eligible (those
        with the most seeds), chosen.

    Raises:
        ValueError: several choices, and finished runs without select rows to choose by. Report rows
            are never used to choose.
    """
    overall = _overall(_with_training(frame))
    runs = overall.groupby([*_CANDIDATE, "seed", "run_id"], dropna=False, as_index=False).agg(
        failed=("status", lambda s: bool((s == "failed").any())), steps=("steps", "max")
    )
    select = overall[overall.split == "select"]
    # One run may grade several models (the baselines), so that run_id alone names none.
    scores = select.groupby(["run_id", "model"], as_index=False).agg(score=("value", "mean"))
    runs = runs.merge(scores, on=["run_id", "model"], how="left")
    runs["score"] = runs.score.where(runs.score.notna() | ~runs.failed, 0.0)
    table = runs.groupby(_CANDIDATE, dropna=False, as_index=False).agg(
        select_accuracy=("score", lambda s: s.mean(skipna=False)),
        n_seeds=("seed", "nunique"),
        n_failed=("failed", "sum"),
        steps=("steps", "median"),
    )
    sizes = table.groupby(_TRAINING, dropna=False).lr.transform("size")
    table["n_choices"] = sizes.astype("int64")
    most = table.groupby(_TRAINING, dropna=False).n_seeds.transform("max")
    table["_eligible"] = table.n_seeds == most
    eligible = table.groupby(_TRAINING, dropna=False)._eligible.transform("sum")
    table["n_eligible"] = eligible.astype("int64")
    undecided = (table.n_choices > 1) & (table.kind == "trained")
    blind = table.loc[undecided & table.select_accuracy.isna()]
    if len(blind):
        one = blind.iloc[0]
        raise ValueError(
            f"model={one.model} d_model={one.d_model} was run with {one.n_choices} trainer choices "
            f"but lr={one.lr} has no select rows to choose by"
        )
    order = [*_TRAINING, "_short", "_rank", "steps", *CHOICE]
    rank = {"_short": ~table._eligible, "_rank": -table.select_accuracy.round(12)}
    table = table.assign(**rank).sort_values(order, kind="stable")
    table["chosen"] = ~table.duplicated(_TRAINING)
    return table.drop(columns=["_eligible", "_short", "_rank", "steps"]).reset_index(drop=True)


def choose(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of the chosen runs; adds select_accuracy, n_choices and n_eligible."""
    table = candidates(frame)
    kept = table.loc[table.chosen, [*_CANDIDATE, *_CHOSEN]]
    return _with_training(frame).merge(kept, on=_CANDIDATE, how="inner")


def summarise(frame: pd.DataFrame, slice_key: str = "") -> pd.DataFrame:
    """One line per arm, training data, cell and slice value, from the report rows of chosen runs.

    Accuracy is the mean over all seeds. A seed that failed without a number counts as 0: leaving it
    out would flatter the model. An arm of which every seed failed without a number keeps a line,
    with accuracy nan and slice_value "".

    Args:
        frame: validated rows.
        slice_key: "" for all queries, or the slice to resolve (distance, binding_distance, ...).

    Returns:
        The columns of the arm, choice and cell; slice_value; accuracy with seeds_low..high (t
        interval across seeds), rows_low..high (Wilson, within a seed) and low..high, the one to
        print, named by interval (seeds or rows); solve_rate, n_seeds, n_failed, n_budget_limited;
        medians of steps and wall_s; n_reached, the seeds that reached their threshold on select,
        and seconds_to_criterion, the median of the seconds of training that these needed; sizes;
        floors, best_baseline and whether low is above_floor.

    Raises:
        ValueError: a choice cannot be made on select, or runs that are told apart by no column.
    """
    chosen = choose(frame)
    chosen["group"] = chosen.groupby(_GROUP, dropna=False).ngroup()
    accuracy = chosen.loc[chosen.metric == "accuracy"]
    numbers = accuracy.loc[
        (accuracy.split == "report") & (accuracy.slice_key == slice_key) & accuracy.value.notna()
    ]
    # A run that failed without a number counts on whichever split it left its row.
    blind = accuracy.loc[(accuracy.status == "failed") & accuracy.value.isna()]
    report = accuracy.loc[(accuracy.split == "report") & (accuracy.slice_key == "")]
    runs = pd.concat([report, blind]).drop_duplicates(["group", "run_id"])
    blind = runs.loc[runs.value.isna()]
    lines = _describe_runs(runs).merge(_score(numbers, blind), on="group", how="left")
    # What has no slices of this key goes, but not an arm that failed: it would vanish unsaid.
    return _finish(lines.loc[lines.slice_value.notna() | (lines.n_failed == lines.n_seeds)])


def error_shares(frame: pd.DataFrame) -> pd.DataFrame:
    """Where the errors of the chosen runs go, on report rows.

    Returns:
        One line per arm, training data, choice and cell, with a column ``error_<kind>`` for every
        kind of error: its share of all queries, mean over the seeds that have a number.
    """
    chosen = choose(frame)
    kinds = ~chosen.metric.isin(["accuracy", COVERAGE, *UNBOUNDED_METRICS])
    rows = chosen.loc[kinds & (chosen.split == "report") & (chosen.slice_key == "")]
    rows = rows.assign(metric="error_" + rows.metric)
    means = rows.groupby([*_GROUP, "metric"], dropna=False, as_index=False).value.mean()
    return means.pivot(index=_GROUP, columns="metric", values="value").reset_index()


def slice_bounds(values: pd.Series) -> pd.DataFrame:
    """First and last number (both included) of slice values such as ``16-22`` or ``3``."""
    bounds = values.str.extract(r"^(?P<first>\d+)(?:-(?P<last>\d+))?$").astype("float64")
    return bounds.assign(last=bounds["last"].fillna(bounds["first"]))


def _overall(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.loc[(frame.slice_key == "") & (frame.metric == "accuracy")]


def _with_training(frame: pd.DataFrame) -> pd.DataFrame:
    """Name the training data by the cell where the run does not name it."""
    return frame.assign(train_id=frame.train_id.where(frame.train_id != "", frame.data_hash))


_SIZES = ("n_params_total", "n_params_non_embedding", "n_params_mixer", "state_bytes")
_FLOORS = ("floor_vocab", "floor_pairs", "floor_ceiling", "ceiling_se", "ceiling_method")
_CONSTANT = (*_GROUP, *_CHOSEN, *_FLOORS)


def _describe_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """One line per group of runs that differ in their seed only."""
    twice = runs.loc[runs.duplicated(["group", "seed"], keep=False)]
    if len(twice):
        one, other = twice.sort_values(["group", "seed"], kind="stable").run_id.iloc[:2]
        raise ValueError(
            f"runs {one} and {other} have the same seed and no column tells them apart"
        )
    for name in _SIZES:
        _check_constant(runs, name)
    reached = runs.wall_s.where(runs.stop_reason == "threshold")
    groups = runs.assign(reached_s=reached).groupby("group")
    return groups.agg(
        **{name: (name, "first") for name in _SIZES},
        n_reached=("reached_s", "count"),
        seconds_to_criterion=("reached_s", "median"),
        n_seeds=("seed", "size"),
        n_failed=("status", lambda s: int((s == "failed").sum())),
        n_budget_limited=("budget_limited", "sum"),
        fail_reason=("fail_reason", "max"),
        steps=("steps", "median"),
        wall_s=("wall_s", "median"),
        peak_mem_bytes=("peak_mem_bytes", "max"),
    ).join(runs.drop_duplicates("group").set_index("group")[list(_CONSTANT)])


def _check_constant(runs: pd.DataFrame, name: str) -> None:
    """Refuse to average models of different size (runs that failed early may lack a size)."""
    known = runs.loc[runs[name].notna()].drop_duplicates(["group", name])
    clash = known.loc[known.duplicated("group", keep=False)]
    if len(clash):
        one, other = clash.sort_values("group", kind="stable").iloc[0:2].to_dict("records")
        raise ValueError(
            f"runs {one['run_id']} and {other['run_id']} differ in {name} ({one[name]}, "
            f"{other[name]}) and no column tells their models apart"
        )


def _score(numbers: pd.DataFrame, blind: pd.DataFrame) -> pd.DataFrame:
    """Accuracy and its intervals by group and slice value.

    Args:
        numbers: report rows with a value.
        blind: failed runs without one; each counts as 0 in every slice of its group.
    """
    slices = numbers[["group", "slice_value"]].drop_duplicates()
    zeros = blind[["group"]].merge(slices, on="group").assign(value=0.0)
    scored = numbers.assign(counted=numbers.kind != "baseline")  # they store expected hits
    columns = ["group", "slice_value", "value", "n", "n_rows", "se", "counted"]
    seeds = pd.concat([scored[columns], zeros]).groupby(["group", "slice_value"], as_index=False)
    lines = seeds.agg(
        accuracy=("value", "mean"),
        values=("value", list),
        solve_rate=("value", lambda s: float((s > SOLVED).mean())),
        n=("n", "min"),
        n_rows=("n_rows", "min"),
        se=("se", "mean"),
        counted=("counted", "min"),
    )
    measured = zip(*(lines[name] for name in _MEASURED), strict=True)
    intervals = [_intervals(*cells) for cells in measured]
    return lines.drop(columns=["values", "se", "counted"]).join(
        pd.DataFrame(intervals, columns=list(_INTERVALS), index=lines.index)
    )


_MEASURED = ("accuracy", "values", "n", "n_rows", "se", "counted")
_INTERVALS = ("low", "high", "interval", "seeds_low", "seeds_high", "rows_low", "rows_high")


def _intervals(
    mean: float, values: list[float], n: float, n_rows: float, se: float, counted: object
) -> tuple[float, float, str, float, float, float, float]:
    """Both intervals of a mean over seeds, and the one to print: across seeds where they differ.

    All seeds are scored on the same rows, so that their row errors may be fully correlated: the
    within-seed standard error of the mean is the mean one, not that divided by sqrt(seeds).
    """
    size = effective_n(mean, se, int(n), int(n_rows), counted=bool(counted))
    rows, seeds = wilson_interval(mean, size), t_interval(values)
    differ = min(values) < max(values)
    return (*(seeds if differ else rows), "seeds" if differ else "rows", *seeds, *rows)


_RESULTS = (
    *("slice_value", "accuracy", *_INTERVALS, "solve_rate", "n_seeds", "n_failed"),
    *("n_budget_limited", "fail_reason", "n", "n_rows", "steps", "wall_s", "peak_mem_bytes"),
    *("n_reached", "seconds_to_criterion"),
)


def _finish(lines: pd.DataFrame) -> pd.DataFrame:
    """Add the best baseline of each cell, compare with the floors, and sort."""
    empty = {"slice_value": "", "interval": "", "solve_rate": 0.0, "n": 0, "n_rows": 0}
    lines = lines.fillna(empty).astype({"n": "int64", "n_rows": "int64"})
    lines = lines.loc[:, [*_CONSTANT, *_RESULTS, *_SIZES]]
    where = [*CELL, "slice_value"]
    baselines = lines.loc[(lines.kind == "baseline") & lines.accuracy.notna()]
    best = baselines.sort_values(by="accuracy", ascending=False, kind="stable")
    best = best.drop_duplicates(where).set_index(where)[["accuracy", "model"]]
    best.columns = ["best_baseline", "best_baseline_model"]
    lines = lines.merge(best.reset_index(), on=where, how="left")
    lines["best_baseline_model"] = lines.best_baseline_model.fillna("")
    floors = lines[["floor_vocab", "floor_pairs", "floor_ceiling", "best_baseline"]]
    lines["floor"] = floors.max(axis=1)
    lines["above_floor"] = lines.low > lines.floor
    lines["_kind"] = lines.kind.map(KINDS.index)
    lines["_slice"] = slice_bounds(lines.slice_value)["first"]
    order = ["task", "layout", "filler", "vocab_size", "n_kv_pairs", "seq_len"]
    order += [*CELL[1:], "_slice", "_kind", "model", "mixer", "init", "n_layers", "d_model"]
    order = list(dict.fromkeys([*order, *_CANDIDATE]))
    lines = lines.sort_values(order, kind="stable", na_position="first")
    return lines.drop(columns=["_kind", "_slice"]).reset_index(drop=True)
