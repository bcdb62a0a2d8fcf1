"""What the gate says: Markdown for a pull request, JSON, and the rewritten baseline."""

import json
import math
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from zoology_bench.reporting.files import atomic_write, save_results
from zoology_bench.reporting.gate import FAILING, Cell, Comparison
from zoology_bench.reporting.tables import markdown_table

_HEADER = (
    *("", "model, cell", "before", "now", "drop", "fails from", "detectable", "p (Holm)", "moved"),
)


def to_markdown(comparison: Comparison) -> str:
    """A summary for a pull-request comment: the verdict, what failed, then everything folded."""
    failures, cells = comparison.failures, comparison.cells
    parts = [
        f"## Recall gate: {'passed' if comparison.passed else 'failed'}",
        _headline(comparison),
    ]
    parts += ["\n".join(f"- ⚠ {_plain(line)}" for line in comparison.warnings)]
    if failures:
        parts.append(_table(failures))
    rest = [cell for cell in cells if cell.verdict not in FAILING]
    if rest:
        parts.append(
            f"<details><summary>{len(rest)} other cells</summary>\n\n{_table(rest)}\n\n</details>"
        )
    parts.append(_legend(comparison))
    return "\n\n".join(part for part in parts if part) + "\n"


def to_json(comparison: Comparison) -> str:
    """Everything, one object; numbers that JSON lacks become null."""
    plain = _finite(comparison.to_dict())
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def update_baseline(
    path: Path, candidate: pd.DataFrame, comparison: Comparison | None, note: str = ""
) -> list[Path]:
    """Make the candidate the baseline, and say so in ``<name>.changelog.md`` beside it.

    Args:
        path: results file, .csv or .parquet.
        candidate: rows to keep there.
        comparison: with the baseline it replaces; None where there was none.
        note: why, in the words of whoever accepts the new numbers.

    Returns:
        The files written.

    Raises:
        OutputError: the folder cannot be written.
    """
    save_results(candidate, path)
    log = path.with_suffix(".changelog.md")
    before = log.read_text(encoding="utf-8") if log.exists() else f"# Changes of {path.name}\n\n"
    line = _changelog_line(candidate, comparison, note)
    atomic_write(log, f"{before}{line}\n".encode(), path.parent, "folder")
    return [path, log]


def _changelog_line(candidate: pd.DataFrame, comparison: Comparison | None, note: str) -> str:
    commits = sorted({sha[:12] or "no commit" for sha in candidate.git_sha})
    dates = sorted({text[:10] for text in candidate.timestamp if text}) or [f"{date.today()}"]
    if comparison is None:
        changes = f"first baseline, {candidate.run_id.nunique()} runs"
    else:
        changes = ", ".join(_counts(comparison)) or "no cell changed"
    said = f": {' '.join(note.split())}" if note.strip() else ""
    return f"- {dates[-1]}, {', '.join(commits)}: {changes}{said}"


def _counts(comparison: Comparison) -> list[str]:
    drops = [cell.drop for cell in comparison.cells if cell.drop is not None]
    verdicts = [cell.verdict for cell in comparison.cells]
    out = [f"{verdicts.count(name)} {name}" for name in (*FAILING, "new") if verdicts.count(name)]
    if drops and max(map(abs, drops)) > 0:
        out.append(f"largest drop {max(0.0, *drops):.4f}, largest rise {max(0.0, -min(drops)):.4f}")
    return out


def _headline(comparison: Comparison) -> str:
    n = len(comparison.cells)
    if comparison.passed:
        return f"None of {n} cells fell by more than chance explains."
    kinds = [cell.verdict for cell in comparison.failures]
    said = ", ".join(f"{kinds.count(name)} {name}" for name in FAILING if name in kinds)
    return f"**{len(kinds)} of {n} cells fail**: {said}."


def _table(cells: list[Cell]) -> str:
    return markdown_table(_HEADER, [_line(cell) for cell in cells])


def _line(cell: Cell) -> list[str]:
    mark = "❌" if cell.verdict in FAILING else "✅"
    verdict = "" if cell.verdict == "ok" else f" {cell.verdict}"
    moved = cell.cause
    if cell.cause == "numerics moved" and cell.numerics is not None:
        moved += f" ({cell.numerics:.0e})"
    return [
        mark + verdict,
        _plain(cell.name),
        _share(cell.baseline, cell.baseline_seeds),
        _share(cell.candidate, cell.candidate_seeds),
        _number(cell.drop, signed=True),
        _threshold(cell.tolerance, cell.baseline),
        _threshold(cell.detectable, cell.baseline),
        "-" if cell.p is None else (f"{cell.p:.2g}" if cell.p >= 1e-4 else "< 1e-4"),
        moved or "nothing" if cell.drop is not None else moved or "-",
    ]


def _share(value: float | None, n_seeds: int) -> str:
    return "-" if value is None else f"{value:.4f} ({n_seeds})"


def _number(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.4f}" if signed and round(value, 4) else f"{value:.4f}"


def _threshold(drop: float | None, accuracy: float | None) -> str:
    """A drop, or ``none`` where even a fall to zero would stay below it."""
    if drop is not None and accuracy is not None and drop > accuracy:
        return "none"
    return _number(drop)


def _plain(text: str) -> str:
    """Text from a configuration as text, not as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "'").replace("@", "&#64;")


def _legend(comparison: Comparison) -> str:
    tested = sum(cell.p is not None for cell in comparison.cells)
    if comparison.fixed_tolerance is not None:
        rule = f"A cell fails when it drops by more than {comparison.fixed_tolerance:g}."
    else:
        rule = (
            f"Drops are tested one-sided over {tested} cells, Holm-corrected: where nothing "
            f"changed the gate fails with probability {comparison.level:g}. `fails from` is the "
            "drop that fails whatever the other cells show."
        )
    return (
        f"<sub>Mean accuracy on report rows (seeds). {rule} `detectable` is the true drop that is "
        "found with probability .8; `none`: not even a fall to zero would be.</sub>"
    )


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
