"""One call from results to everything a reader needs: tables, CSV and figures in one folder."""

import logging
import re
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from zoology_bench.reporting.aggregate import error_shares, summarise
from zoology_bench.reporting.constructions import constructions_markdown
from zoology_bench.reporting.files import atomic_write, csv_bytes, output_error
from zoology_bench.reporting.gap import gap_markdown
from zoology_bench.reporting.load import load_results
from zoology_bench.reporting.tables import provenance, table_markdown

log = logging.getLogger(__name__)

_FIGURE_NAME = re.compile(r"accuracy_(seq_len|params|distance(_d\d+)?)\.(png|svg)")


def write_report(paths: Iterable[str | Path] | str | Path, out: str | Path) -> list[Path]:
    """Write table.md, summary.csv, results.csv and the figures for some results.

    Everything is made before anything is written. Files of an earlier report are replaced, figures
    it no longer has are removed; results.csv is left alone where it belongs to runs or is an input.

    Args:
        paths: results files and output folders (``load_results``).
        out: folder for the report; created if absent.

    Returns:
        The files written.

    Raises:
        ValueError: one line: nothing to read, a file that is not ours, runs that do not compare.
        OutputError: ``out`` cannot be written.
    """
    sources = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    folder = Path(out)
    frame = load_results(sources)
    summary = summarise(frame)
    if summary.empty:
        raise ValueError(f"no accuracy on report rows in {', '.join(map(str, sources))}")
    page = table_markdown(
        _with_errors(summary, frame), _title(frame), provenance(frame), gap_markdown(summary)
    )
    if constructions := constructions_markdown(summary):
        page += f"\n## Constructions\n\n{constructions}\n"
    files = {
        "table.md": page.encode(),
        "summary.csv": csv_bytes(summary),
    }
    if not _holds_results(folder, sources):
        files["results.csv"] = csv_bytes(frame)
    files |= _figures(frame, summary)
    for name, data in files.items():
        atomic_write(folder / name, data, folder)
    _remove_stale_figures(folder, set(files))
    return [folder / name for name in files]


def _title(frame: pd.DataFrame) -> str:
    return f"Accuracy: {', '.join(sorted(set(frame.experiment)))}"


def _with_errors(summary: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    errors = error_shares(frame)
    keys = [name for name in errors.columns if name in summary.columns]
    return summary.merge(errors, on=keys, how="left")


def _holds_results(folder: Path, sources: list[Path]) -> bool:
    """Whether results.csv in ``folder`` is a run's or one of the inputs, not a report's."""
    target = (folder / "results.csv").resolve()
    inputs = {source.resolve() for source in sources}
    return (folder / "runs").is_dir() or bool(inputs & {target, folder.resolve()})


def _figures(frame: pd.DataFrame, summary: pd.DataFrame) -> dict[str, bytes]:
    """PNG and SVG of every figure by file name."""
    from zoology_bench.reporting import plots  # matplotlib takes half a second to import
    from zoology_bench.reporting.plot_parts import render

    models = summary.loc[summary.kind != "baseline"]
    if not models.accuracy.notna().to_numpy().any():
        log.warning("no figures: no model has a number")
        return {}
    figures = plots.accuracy_by_seq_len(summary) | plots.accuracy_by_parameters(summary)
    slices = summarise(frame, "distance")
    if slices.loc[slices.kind != "baseline", "accuracy"].notna().to_numpy().any():
        figures |= plots.accuracy_by_distance(slices)
    return {
        f"{stem}.{suffix}": render(figure, suffix)
        for stem, figure in figures.items()
        for suffix in ("png", "svg")
    }


def _remove_stale_figures(folder: Path, written: set[str]) -> None:
    """Figures of an earlier report with other widths would contradict the new table."""
    for path in folder.iterdir():
        if _FIGURE_NAME.fullmatch(path.name) and path.name not in written:
            try:
                path.unlink()
            except OSError as error:
                raise output_error(folder, error, path) from error
