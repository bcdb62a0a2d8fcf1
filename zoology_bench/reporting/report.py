"""One call from results to everything a reader needs: tables, CSV, figures and a page."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import error_shares, summarise
from zoology_bench.reporting.capacity import Fit, capacities, capacity_markdown
from zoology_bench.reporting.configs import encode_configs, known_configs
from zoology_bench.reporting.constructions import constructions_markdown
from zoology_bench.reporting.files import atomic_write, csv_bytes, output_error
from zoology_bench.reporting.gap import gap_markdown
from zoology_bench.reporting.html import has_plotly, report_html
from zoology_bench.reporting.html_figures import figures
from zoology_bench.reporting.latex import latex_page, latex_table
from zoology_bench.reporting.load import load_results
from zoology_bench.reporting.rates import by_rate, windows
from zoology_bench.reporting.state_bits import state_markdown
from zoology_bench.reporting.tables import cell_table, overview, provenance, table_markdown
from zoology_bench.reporting.tables_by import by_markdown, resolved, tables_by

log = logging.getLogger(__name__)

_FIGURE_NAME = re.compile(
    r"(accuracy_(seq_len|params|width|state|load|noise|distance(_d\d+)?)|learning_rates|errors)"
    r"\.(png|svg)"
)


def write_report(
    paths: Iterable[str | Path] | str | Path,
    out: str | Path,
    by: Sequence[str] = (),
    *,
    page: bool = True,
) -> list[Path]:
    """Write tables (Markdown, CSV, LaTeX), results.csv, the figures and index.html.

    Everything is made before anything is written. Files of an earlier report are replaced, figures
    it no longer has are removed; results.csv is left alone where it belongs to runs or is an input.

    Args:
        paths: results files and output folders (``load_results``).
        out: folder for the report; created if absent.
        by: axes of further tables, of ``tables_by.BY``.
        page: whether to write index.html, which holds plotly's whole script.

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
    with_errors = _with_errors(summary, frame)
    title = _title(frame)
    held, fits = capacities(frame)
    sections = gap_markdown(summary), capacity_markdown(held), state_markdown(summary)
    tables = table_markdown(with_errors, title, provenance(frame), *sections)
    if constructions := constructions_markdown(summary):
        tables += f"\n## Constructions\n\n{constructions}\n"
    files = {"table.md": tables.encode(), "summary.csv": csv_bytes(summary)}
    files["table.tex"] = _latex(summary, title)
    for axis in by:
        files |= _by(frame, axis)
    configs = known_configs(frame, sources)
    if not _holds_results(folder, sources):
        files["results.csv"] = csv_bytes(frame)
        files |= {"configs.json": encode_configs(configs)} if configs else {}
    choices = {"learning_rates.csv": windows(by_rate(frame)), "capacity.csv": held}
    files |= {name: csv_bytes(table) for name, table in choices.items() if len(table)}
    images = _figures(frame, with_errors, fits)
    files |= images
    if page:
        files["index.html"] = _page(frame, summary, title, configs, images)
    for name, data in files.items():
        atomic_write(folder / name, data, folder, "out")
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


def _latex(summary: pd.DataFrame, title: str) -> bytes:
    named = labels.named(summary)
    tables = [latex_table(overview(named), title, "overview")]
    for index, cell in enumerate(dict.fromkeys(named.cell)):
        table = cell_table(named.loc[named.cell == cell])
        tables.append(latex_table(table, f"{title}, {cell}", f"cell-{index + 1}"))
    return latex_page(tables).encode()


def _by(frame: pd.DataFrame, axis: str) -> dict[str, bytes]:
    tables = tables_by(frame, axis)
    latex = [
        latex_table(table, f"Accuracy by {axis}, {cell}", f"by-{axis}-{index + 1}")
        for index, (cell, table) in enumerate(tables.items())
    ]
    stem = f"table_by_{axis}"
    return {
        f"{stem}.md": by_markdown(frame, axis).encode(),
        f"{stem}.csv": csv_bytes(resolved(frame, axis).drop(columns="order")),
        f"{stem}.tex": latex_page(latex).encode(),
    }


def _figures(
    frame: pd.DataFrame, summary: pd.DataFrame, fits: dict[tuple[str, str, str], Fit]
) -> dict[str, bytes]:
    """PNG and SVG of every figure by file name."""
    # matplotlib takes half a second to import
    from zoology_bench.reporting import plots, plots_axes, plots_choices
    from zoology_bench.reporting.plot_parts import render

    models = summary.loc[summary.kind != "baseline"]
    if not models.accuracy.notna().to_numpy().any():
        log.warning("no figures: no model has a number")
        return {}
    drawn = plots.accuracy_by_seq_len(summary) | plots.accuracy_by_parameters(summary)
    for column in ("d_model", "state_bytes"):
        drawn |= plots_axes.accuracy_by_size(summary, column)
    drawn |= plots_axes.accuracy_by_load(summary, fits)
    drawn |= plots_axes.accuracy_by_noise(summary)
    slices = summarise(frame, "distance")
    if slices.loc[slices.kind != "baseline", "accuracy"].notna().to_numpy().any():
        drawn |= plots.accuracy_by_distance(slices)
    drawn |= plots_choices.rate_windows(frame) | plots_choices.error_bars(summary)
    return {
        f"{stem}.{suffix}": render(figure, suffix)
        for stem, figure in drawn.items()
        for suffix in ("png", "svg")
    }


def _page(
    frame: pd.DataFrame,
    summary: pd.DataFrame,
    title: str,
    configs: Mapping[str, object],
    images: Mapping[str, bytes],
) -> bytes:
    interactive = has_plotly()
    if not interactive:
        log.info("index.html: static figures; install zoology-bench[html] for interactive ones")
    return report_html(
        frame,
        summary,
        title=title,
        configs=configs,
        figures=figures(frame, summary, summarise(frame, "distance")) if interactive else [],
        images={name: data for name, data in images.items() if name.endswith(".svg")},
    ).encode()


def _remove_stale_figures(folder: Path, written: set[str]) -> None:
    """Figures of an earlier report with other widths would contradict the new table."""
    for path in folder.iterdir():
        if _FIGURE_NAME.fullmatch(path.name) and path.name not in written:
            try:
                path.unlink()
            except OSError as error:
                raise output_error(folder, error, path, "out") from error
