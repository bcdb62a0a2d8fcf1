"""Tables for people: accuracy by model x cell x width, with the digits its interval carries."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.intervals import wilson_interval

MAX_DIGITS = 4
Row = dict[Hashable, Any]
Table = tuple[list[str], list[list[str]]]
"""Header and lines."""

LEGEND = (
    "Accuracy on `report` rows, mean over seeds, with its 95 % interval: Student's t across seeds, "
    "or with * Wilson's within a seed (rows as clusters) where there is one seed or all agree. "
    "`2/3` = seeds above .99 / seeds run; a failed seed counts as 0. Learning rates were chosen on "
    "`select`, among those run with the most seeds. `to criterion` = median seconds of training "
    "until `select` reached `trainer.stop_at`, over the seeds that did (their number). † = some "
    "curve still rose when its budget "
    "ended. Floors are what can be had without recall: 1/V, 1/P, the ceiling, the best shipped "
    "baseline. The ceiling is the better of two guessers blind to token identity that judge one "
    "query at a time, by its position and those of all pairs, or by its rank; one that weighs all "
    "query positions at once can score a little more (docs/tasks.md prints how much)."
)


def n_digits(low: float, high: float) -> int:
    """Decimals that an interval supports: two significant ones of its half-width, or one.

    The rule of the Particle Data Group: two if the leading digits of the half-width are below 355,
    else one.
    """
    half = (high - low) / 2
    if not half > 0:
        return MAX_DIGITS
    exponent = math.floor(math.log10(half))
    leading = round(half / 10**exponent, 2)
    return min(MAX_DIGITS, max(1, -exponent + (1 if leading < 3.55 else 0)))


def format_accuracy(value: float, low: float, high: float) -> str:
    """``0.931 [0.919, 0.943]``, rounded by the interval."""
    digits = n_digits(low, high)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def format_floor(value: float, se: float = 0.0) -> str:
    """A floor to three significant digits, or to what its standard error supports."""
    if pd.isna(value):
        return "-"
    if se > 0:
        return f"{value:.{n_digits(value - 1.96 * se, value + 1.96 * se)}f}"
    return f"{value:.3g}"


def format_share(value: float, n: int) -> str:
    """A share of ``n`` queries, to the digits that counting them can resolve."""
    if pd.isna(value):
        return "-"
    low, high = wilson_interval(value, n)
    return f"{value:.{n_digits(low, high)}f}"


def format_quantity(value: float) -> str:
    """A count or a time to two significant digits, without an exponent: 4.5, 12, 380."""
    if pd.isna(value):
        return "-"
    if value == 0:
        return "0"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is left-aligned, the others right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    shown = [header, rule, *lines]
    return "\n".join("| " + " | ".join(_escape(cell) for cell in line) + " |" for line in shown)


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("<", "&lt;")


def table_markdown(
    summary: pd.DataFrame, title: str, provenance: Sequence[str] = (), *sections: str
) -> str:
    """The page table.md.

    Args:
        summary: ``aggregate.summarise(frame)``, with the columns of ``error_shares`` if known.
        title: heading of the page.
        provenance: lines that say what was measured where.
        sections: Markdown to put before them; empty ones are left out.
    """
    named = labels.named(summary)
    parts = [f"# {title}", LEGEND, markdown_table(*overview(named))]
    for cell in dict.fromkeys(named.cell):
        parts.append(_cell_section(named.loc[named.cell == cell], cell))
    parts += _error_section(named)
    parts += [section for section in sections if section]
    if provenance:
        parts.append("\n".join(f"- {line}" for line in provenance))
    return "\n\n".join(parts) + "\n"


def overview_markdown(summary: pd.DataFrame) -> str:
    """The first table of table.md alone, short enough for a terminal."""
    return markdown_table(*overview(labels.named(summary)))


def provenance(frame: pd.DataFrame) -> list[str]:
    """Where the rows come from: experiments, runs, code, hardware, versions."""
    runs = frame.drop_duplicates("run_id")
    commits = runs.git_sha.str[:12] + runs.dirty.map({True: " (dirty)", False: ""})
    out = [f"experiments: {_distinct(runs.experiment)}; {len(runs)} runs"]
    for name, column in (("code", commits), ("hardware", runs.hardware), ("with", runs.versions)):
        if text := _distinct(column):
            out.append(f"{name}: {text}")
    return out


def _distinct(column: pd.Series) -> str:
    return "; ".join(sorted({text for text in column if text}))


def overview(named: pd.DataFrame) -> Table:
    """Arms down, cells across; the floors close it.

    Args:
        named: lines of ``labels.named``.
    """
    cells = list(dict.fromkeys(named.cell))
    # Assigned before the choice: an empty frame would grow to the length of what it is given.
    models = named.assign(line=named.arm + named.width).loc[named.kind != "baseline"]
    models = models.sort_values(["kind", "arm", "d_model"], kind="stable", na_position="first")
    shown = {(row["line"], row["cell"]): accuracy_cell(row) for row in models.to_dict("records")}
    lines = [
        [line, *(shown.get((line, cell), "-") for cell in cells)]
        for line in dict.fromkeys(models.line)
    ]
    floors = [floor_texts(row) for row in named.drop_duplicates("cell").to_dict("records")]
    lines += [[name, *(texts[name] for texts in floors)] for name in floors[0]]
    return ["model", *cells], lines


def accuracy_cell(row: Row) -> str:
    """Accuracy with its interval, seeds that solve, and what went wrong."""
    rising = "†" if row["n_budget_limited"] else ""
    failed = f", failed {row['n_failed']}" if row["n_failed"] else ""
    return f"{_accuracy_text(row)} {_solved_text(row)}{rising}{failed}"


def _accuracy_text(row: Row) -> str:
    if pd.isna(row["accuracy"]):
        return "no number"
    within = "*" if row["interval"] == "rows" else ""
    return format_accuracy(row["accuracy"], row["low"], row["high"]) + within


def _solved_text(row: Row) -> str:
    return f"{round(row['solve_rate'] * row['n_seeds'])}/{row['n_seeds']}"


def floor_texts(row: Row) -> dict[str, str]:
    """Every floor of a line's cell by name."""
    best, ceiling = format_floor(row["best_baseline"]), format_floor(row["floor_ceiling"])
    if best != "-":
        best += f" ({row['best_baseline_model']})"
    if row["ceiling_method"]:
        se = 0.0 if pd.isna(row["ceiling_se"]) else row["ceiling_se"]
        ceiling = f"{format_floor(row['floor_ceiling'], se)} ({row['ceiling_method']})"
    return {
        "best baseline": best,
        "content-blind ceiling": ceiling,
        "1/P": format_floor(row["floor_pairs"]),
        "1/V": format_floor(row["floor_vocab"]),
    }


_CELL_HEADER = (
    *("model", "D", "accuracy", "solved", "lr", "steps", "seconds", "to criterion"),
    *("parameters", "non-embedding", "mixer", "state bytes", "notes"),
)


def _cell_section(lines: pd.DataFrame, cell: str) -> str:
    """Everything about one cell: its floors in a sentence, then one line per arm and width."""
    rows = lines.to_dict("records")
    one = rows[0]
    what = [one["task"], one["layout"] and f"layout {one['layout']}", one["distance_law"]]
    what += [one["filler"] and f"filler {one['filler']}"]
    n_rows = max(row["n_rows"] for row in rows)  # 0 where every seed of an arm failed
    sizes = f"V={one['vocab_size']}, Q={one['n_queries']}, {n_rows:,} rows"
    floors = ", ".join(f"{name} {text}" for name, text in floor_texts(one).items())
    head = f"## {cell}\n\n{', '.join(w for w in what if w)}; {sizes}. Floors: {floors}."
    return head + "\n\n" + markdown_table(*cell_table(lines))


def cell_table(lines: pd.DataFrame) -> Table:
    """One line per arm and width of one cell, with everything known of it."""
    return list(_CELL_HEADER), [arm_line(row) for row in lines.to_dict("records")]


def arm_line(row: Row) -> list[str]:
    """One line of a cell's table, under ``_CELL_HEADER``."""
    tried = f" of {row['n_choices']}" if row["n_choices"] > 1 else ""
    trained = row["kind"] == "trained"
    return [
        row["arm"],
        _count(row["d_model"]),
        _accuracy_text(row),
        _solved_text(row),
        "-" if pd.isna(row["lr"]) else f"{row['lr']:.3g}{tried}",
        f"{row['steps']:.0f}" if trained else "-",
        format_quantity(row["wall_s"]) if trained else "-",
        _criterion_text(row),
        *(_count(row[name]) for name in SIZES),
        _notes(row),
    ]


def _criterion_text(row: Row) -> str:
    if not row["n_reached"]:
        return "-"
    return f"{format_quantity(row['seconds_to_criterion'])} ({row['n_reached']})"


_ERRORS = ("error_misbinding", "error_stale_value", "error_out_of_row_value", "error_key_token")


def _error_section(named: pd.DataFrame) -> list[str]:
    """Heading, sentence and table of the error kinds; nothing where they were not counted."""
    columns = [str(name) for name in named.columns if str(name).startswith("error_")]
    columns.sort(key=lambda name: _ERRORS.index(name) if name in _ERRORS else len(_ERRORS))
    counted = named.loc[named[columns].notna().any(axis=1)] if columns else named.iloc[:0]
    if counted.empty:
        return []
    header = [
        "model",
        "D",
        "cell",
        "accuracy",
        *(name.removeprefix("error_").replace("_", " ") for name in columns),
    ]
    lines = [
        [row["arm"], _count(row["d_model"]), row["cell"], _accuracy_text(row)]
        + [format_share(row[name], row["n"]) for name in columns]
        for row in counted.to_dict("records")
    ]
    text = "Shares of all queries, mean over the seeds that have a number."
    return ["## Where the errors go", text, markdown_table(header, lines)]


SIZES = ("n_params_total", "n_params_non_embedding", "n_params_mixer", "state_bytes")


def _count(value: Any) -> str:
    return "-" if pd.isna(value) else f"{value:,}"


def _notes(row: Row) -> str:
    notes = []
    if row["n_failed"]:
        notes.append(f"failed {row['n_failed']}/{row['n_seeds']}: {row['fail_reason']}")
    if row["kind"] == "trained" and row["n_eligible"] < row["n_choices"]:
        notes.append(f"lr grid incomplete: chosen among {row['n_eligible']} of {row['n_choices']}")
    if row["n_budget_limited"]:
        notes.append(f"budget-limited {row['n_budget_limited']}/{row['n_seeds']}")
    if row["kind"] != "baseline" and pd.notna(row["accuracy"]) and not row["above_floor"]:
        notes.append("not above its floor")
    return "; ".join(notes)
