"""What a finished run tells its logger: numbers by slice, tables, figures, and how it is found."""

from pathlib import Path
from typing import Any

import pandas as pd

from zoology_bench.plain import to_plain
from zoology_bench.reporting import labels
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.files import atomic_write
from zoology_bench.result_rows import kind_of, run_fields
from zoology_bench.run_config import RunConfig
from zoology_bench.training.loggers import Conclusion, RunInfo

_TABLE = (
    *("model", "task", "layout", "filler", "seq_len", "n_kv_pairs", "split", "slice_key"),
    *("slice_value", "metric", "value", "se", "hits", "n", "n_rows", "floor_ceiling", "data_hash"),
)
"""Columns of the table that a dashboard gets."""


def run_info(cfg: RunConfig) -> RunInfo:
    """Name, configuration with every field of its tasks and their data hashes, and tags."""
    fields = run_fields(cfg)
    data = {
        f"T{task.seq_len}_P{task.cell()['n_kv_pairs']}_{task.data_hash()[:8]}": {
            "data_hash": task.data_hash(),
            "task_version": task.version,
            "task": to_plain(task),
        }
        for task in cfg.evaluated_tasks()
    }
    tags = [cfg.model.label, cfg.task.name, getattr(cfg.task, "layout", "")]
    tags.append(getattr(cfg.model, "init_label", ""))
    return RunInfo(
        name=f"{cfg.experiment}-{fields['run_id']}",
        config={**to_plain(cfg), "run_id": fields["run_id"], "data": data},
        job_type=kind_of(cfg),
        tags=[tag[:64] for tag in tags if tag],
    )


def stored_info(rows: pd.DataFrame, config: dict[str, Any]) -> RunInfo:
    """``run_info`` of a run that has ended, from its rows and its config.json."""
    first = rows.iloc[0]
    cells = rows.drop_duplicates("data_hash")
    data = {
        f"T{cell['seq_len']}_P{cell['n_kv_pairs']}_{cell['data_hash'][:8]}": {
            "data_hash": cell["data_hash"],
            "task_version": cell["task_version"],
        }
        for cell in cells.to_dict("records")
    }
    tags = [first.model if first.kind != "baseline" else "baselines", first.task, first.layout]
    return RunInfo(
        name=f"{first.experiment}-{first.run_id}",
        config={**config, "run_id": first.run_id, "data": data},
        job_type=first.kind,
        tags=[tag[:64] for tag in (*tags, first.init) if tag],
    )


def conclude(rows: pd.DataFrame, folder: Path) -> Conclusion:
    """Everything of one run's rows that a dashboard shows.

    Args:
        rows: of one run, validated.
        folder: of the run; figures are written to its ``figures``.
    """
    graded = rows.loc[rows.value.notna()]
    table = graded[list(_TABLE)].astype(object).where(graded[list(_TABLE)].notna(), None)
    return Conclusion(
        summary=_summary(graded),
        tables={"rows": (list(_TABLE), table.to_numpy().tolist())},
        images=_figures(rows, folder / "figures"),
    )


def _summary(graded: pd.DataFrame) -> dict[str, float | str]:
    """Values by split, metric, cell and slice, beside the floor and the data hash of each cell."""
    out: dict[str, float | str] = {}
    # Baselines are graded several to a run, everything else one.
    several = graded.model.nunique() > 1
    for row in graded.to_dict("records"):
        cell = f"T{row['seq_len']}_P{row['n_kv_pairs']}"
        model = f"{row['model']}/" if several else ""
        where = f"/{row['slice_key']}/{row['slice_value']}" if row["slice_key"] else ""
        out[f"{row['split']}/{row['metric']}/{model}{cell}{where}"] = row["value"]
        if not row["slice_key"]:
            out[f"data_hash/{cell}"] = row["data_hash"]
            if pd.notna(row["floor_ceiling"]):
                out[f"floor/ceiling/{cell}"] = row["floor_ceiling"]
    if len(graded) and pd.notna(graded.lr.iloc[0]):
        out["lr"] = float(graded.lr.iloc[0])
    return out


def _figures(rows: pd.DataFrame, folder: Path) -> dict[str, Path]:
    """Accuracy against distance and where the answers go, as PNG files."""
    from zoology_bench.reporting.plot_parts import render
    from zoology_bench.reporting.plots import accuracy_by_distance

    slices = summarise(rows, "distance")
    models = slices.loc[slices.kind != "baseline"]
    if not models.accuracy.notna().to_numpy().any():
        return {}
    written = {}
    for stem, figure in accuracy_by_distance(slices).items():
        written[f"figures/{stem}"] = folder / f"{stem}.png"
        atomic_write(written[f"figures/{stem}"], render(figure, "png"), folder)
    return written


def sweep_conclusion(frame: pd.DataFrame, report: Path) -> Conclusion:
    """The sweep as one run of a dashboard: its table, figures and best learning rates.

    Args:
        frame: rows of every run of the sweep.
        report: folder of its report, whose PNG figures are shown.
    """
    summary = summarise(frame)
    named = labels.named(summary.loc[summary.accuracy.notna()])
    columns = ["arm", "d_model", "cell", "accuracy", "low", "high", "solve_rate", "n_seeds"]
    columns += ["lr", "n_choices", "best_baseline", "floor_ceiling", "seconds_to_criterion"]
    columns += ["n_params_total", "n_params_non_embedding", "state_bytes", "steps", "wall_s"]
    table = named[columns].astype(object).where(named[columns].notna(), None)
    numbers: dict[str, float | str] = {}
    for row in named.loc[named.kind == "trained"].to_dict("records"):
        name = f"{row['arm']}{row['width']}"
        numbers[f"best_lr/{name}"] = row["lr"]
        numbers[f"accuracy/{name}/{row['cell']}"] = row["accuracy"]
    return Conclusion(
        summary=numbers,
        tables={"accuracy": (columns, table.to_numpy().tolist())},
        images={f"figures/{path.stem}": path for path in sorted(report.glob("*.png"))},
    )


def sweep_info(experiment: str, config: dict[str, Any]) -> RunInfo:
    """The run that stands for a whole sweep."""
    return RunInfo(name=f"{experiment}-report", config=config, job_type="report")
