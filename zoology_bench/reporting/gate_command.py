"""``zoology-bench compare``: two results in, a verdict out, the baseline rewritten on demand."""

import argparse
from pathlib import Path

from zoology_bench.reporting.files import output_error
from zoology_bench.reporting.gate import compare_results
from zoology_bench.reporting.gate_report import to_json, to_markdown, update_baseline
from zoology_bench.reporting.load import load_results


def compare(options: argparse.Namespace) -> tuple[str, bool]:
    """Carry out the verb.

    Returns:
        What to print, and whether the gate passes (always with ``--update``).

    Raises:
        ValueError: one line: unreadable input, or an option out of its range.
    """
    baseline = Path(options.baseline)
    tolerance = _tolerance(options.tolerance)
    if options.update and baseline.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--update: baseline {baseline} must be a .csv or .parquet file")
    candidate = load_results(options.candidate)
    if options.update and not baseline.exists():
        return _written(update_baseline(baseline, candidate, None, options.note)), True
    comparison = compare_results(
        load_results(baseline),
        candidate,
        tolerance=tolerance,
        level=options.level,
        numerics_fail=options.numerics == "fail",
    )
    markdown = to_markdown(comparison)
    text = to_json(comparison) if options.json else markdown
    if options.summary:
        _append(Path(options.summary), markdown)
    if not options.update:
        return text, comparison.passed
    written = _written(update_baseline(baseline, candidate, comparison, options.note))
    return text if options.json else text + written, True


def _tolerance(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--tolerance={text} must be auto or a number") from None


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise output_error(path, error, field="--summary") from error


def _written(paths: list[Path]) -> str:
    return "".join(f"written: {path}\n" for path in paths)
