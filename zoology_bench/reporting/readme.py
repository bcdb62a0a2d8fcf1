"""The README of a results folder: how the numbers came about and what they do not show."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.columns import CELL
from zoology_bench.reporting.files import atomic_write
from zoology_bench.reporting.tables import format_accuracy

REACH = 0.9
"""Mean accuracy from which a width counts as enough for a cell."""

_NOT_COMPARED = {"n_kv_pairs", "seq_len", "n_queries", "distance_law", "data_hash"}


def write_results_readme(
    out: str | Path,
    *,
    experiment: str,
    command: str,
    hardware: str,
    commit: str,
    date: str,
    versions: Mapping[str, str],
    notes: Sequence[str],
    figures: Sequence[str] = ("accuracy_seq_len.png", "accuracy_params.png"),
) -> Path:
    """Write ``README.md`` beside a report; nothing in it is looked up here.

    Args:
        out: the folder (results/<experiment>).
        experiment: heading.
        command: what reproduces the folder, as typed.
        hardware: what it ran on.
        commit: of the code that ran.
        date: of the run.
        versions: package to version.
        notes: findings and warnings, one line each (``result_notes``, ``published_shape_notes``).
        figures: files in ``out`` to show.

    Raises:
        OutputError: the folder cannot be written.
    """
    folder = Path(out)
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = [
        f"# {experiment}",
        f"```\n{command}\n```",
        f"Run on {date} at commit {commit}; {hardware}; {packages}.",
        "[table.md](table.md) holds the accuracies with floors and intervals, "
        "[summary.csv](summary.csv) the same for machines, [results.csv](results.csv) every row.",
        "## Notes",
        "\n".join(f"- {note}" for note in notes) or "None.",
        *(f"![{name}]({name})" for name in figures if (folder / name).exists()),
    ]
    path = folder / "README.md"
    atomic_write(path, ("\n\n".join(parts) + "\n").encode(), folder)
    return path


def result_notes(summary: pd.DataFrame) -> list[str]:
    """What a reader must know before quoting a number: failures, short budgets, seeds.

    Args:
        summary: ``aggregate.summarise(frame)``.
    """
    rows = labels.named(summary).to_dict("records")
    trained = [row for row in rows if row["kind"] == "trained"]
    seeds = sorted({row["n_seeds"] for row in trained})
    notes = []
    if trained:
        shown = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        notes.append(f"Seeds per point: {shown}; all of them are in the numbers.")
    for row in trained:
        if row["n_failed"]:
            notes.append(
                f"Failed: {row['where']}: {row['n_failed']} of {row['n_seeds']} runs "
                f"({row['fail_reason']}); each counts as 0 unless it left a number."
            )
    for row in trained:
        if row["n_eligible"] < row["n_choices"]:
            notes.append(
                f"lr grid incomplete: {row['where']}: chosen among the {row['n_eligible']} of "
                f"{row['n_choices']} choices with the most seeds."
            )
    notes += _budget_notes(trained)
    if any(row["init"] == "recipe" for row in trained):
        notes.append(
            "The `recipe` initialisation already holds the structure of the solution; accuracies "
            "under it say what training can reach from there, not from scratch."
        )
    return notes


def _budget_notes(trained: Sequence[Mapping]) -> list[str]:
    """One note an arm, however many of its cells ran out of budget."""
    places: dict[str, dict[str, list[str]]] = {}
    for row in trained:
        if row["n_budget_limited"]:
            shown = f"{row['width']} {row['n_budget_limited']}/{row['n_seeds']}".strip()
            places.setdefault(row["arm"], {}).setdefault(row["cell"], []).append(shown)
    return [
        f"Budget-limited: {arm}; runs that still improved when the budget ended: "
        + "; ".join(f"{', '.join(shown)} at {cell}" for cell, shown in cells.items())
        + "."
        for arm, cells in places.items()
    ]


def published_shape_notes(summary: pd.DataFrame) -> list[str]:
    """Compare with the published shape of Figure 2 of arXiv:2312.04927, both ways.

    The shape: attention solves every cell; BaseConv needs a width that grows with the task.

    Args:
        summary: ``aggregate.summarise(frame)``.
    """
    named = labels.named(summary)
    notes = []
    for model, note in (("attention", _attention_note), ("base_conv", _width_note)):
        lines = named.loc[named.model == model]
        if lines.empty:
            notes.append(f"{model} was not run, so that its part of the published shape is open.")
        notes += [note(str(arm), lines.loc[lines.arm == arm]) for arm in dict.fromkeys(lines.arm)]
    return notes


def _attention_note(arm: str, lines: pd.DataFrame) -> str:
    missed = lines.loc[lines.solve_rate < 1].to_dict("records")
    n_cells = lines.cell.nunique()
    if not missed:
        return f"{arm} solves all {n_cells} cells with every seed at every width, as published."
    shown = "; ".join(
        f"{row['where'].removeprefix(arm).strip()}: "
        f"{round(row['solve_rate'] * row['n_seeds'])}/{row['n_seeds']} seeds, "
        + _accuracy(row["accuracy"], row["low"], row["high"])
        for row in missed
    )
    return f"Not the published shape: {arm} does not solve every cell with every seed ({shown})."


def _accuracy(value: float, low: float, high: float) -> str:
    return "no number" if math.isnan(value) else f"accuracy {format_accuracy(value, low, high)}"


def _width_note(arm: str, lines: pd.DataFrame) -> str:
    """Needed widths, and whether they grow along pairs and along length."""
    widest = int(lines.d_model.max())
    cells = lines.drop_duplicates("cell").to_dict("records")
    needed = {str(c["cell"]): _needed_width(lines.loc[lines.cell == c["cell"]]) for c in cells}
    listed = "; ".join(
        f"{cell}: {f'> {widest}' if math.isinf(width) else f'{width:.0f}'}"
        for cell, width in needed.items()
    )
    verdicts: list[str] = []
    flags: list[bool] = []
    for axis, name in (("n_kv_pairs", "pairs"), ("seq_len", "length")):
        series = _series_along(cells, axis, needed)
        if series:
            grows = [_grows(widths) for widths in series]
            verdicts.append(f"{sum(grows)} of {len(series)} series along {name}")
            flags += grows
    text = f"{arm}, smallest width with mean accuracy >= {REACH}: {listed}."
    if not verdicts:
        return f"{text} The cells form no series along pairs or length to compare."
    head = "Only in part the published shape:" if any(flags) else "Not the published shape:"
    head = "As published," if all(flags) else head
    return f"{text} {head} it grows in {' and '.join(verdicts)}."


def _needed_width(lines: pd.DataFrame) -> float:
    """Smallest width that reaches ``REACH``; inf where none does."""
    enough = [
        float(width)
        for width, accuracy in zip(lines.d_model, lines.accuracy, strict=True)
        if accuracy >= REACH
    ]
    return min(enough, default=math.inf)


def _series_along(
    cells: Sequence[Mapping], axis: str, needed: Mapping[str, float]
) -> list[list[float]]:
    """Needed widths of cells that differ along ``axis`` only, in its order."""
    other = {"n_kv_pairs": "seq_len", "seq_len": "n_kv_pairs"}[axis]
    fixed = [name for name in CELL if name not in _NOT_COMPARED] + [other]
    series: list[list[Mapping]] = []
    for group in _alike(cells, lambda cell: (_law(cell), *(cell[name] for name in fixed))):
        # A longer row has room for longer distances: along length, a law's bounds may move with it.
        moves = axis == "seq_len" and len({cell[axis] for cell in group}) == len(group)
        series += [group] if moves else _alike(group, lambda cell: cell["distance_law"])
    return [
        [width for _, width in sorted((cell[axis], needed[cell["cell"]]) for cell in one)]
        for one in series
        if len(one) > 1
    ]


def _law(cell: Mapping) -> str:
    return str(cell["distance_law"]).partition("(")[0]


def _alike(cells: Sequence[Mapping], key: Callable[[Mapping], object]) -> list[list[Mapping]]:
    groups: dict[object, list[Mapping]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return list(groups.values())


def _grows(widths: Sequence[float]) -> bool:
    never_shrinks = all(a <= b for a, b in pairwise(widths))
    return never_shrinks and widths[-1] > widths[0]
