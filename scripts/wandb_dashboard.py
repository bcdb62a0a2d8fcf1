"""Create the project's Weights & Biases workspace: the panels that docs/wandb.md describes.

python scripts/wandb_dashboard.py --entity my-team                 # creates it, prints its address
python scripts/wandb_dashboard.py --entity my-team --dry-run       # prints its definition

Needs the ``wandb-dashboard`` extra (wandb-workspaces).
"""

import argparse
import json
from typing import Any

from zoology_bench.training.loggers_wandb import STEP_METRIC


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entity", required=True, help="W&B team or user")
    parser.add_argument("--project", default="zoology-bench")
    parser.add_argument("--name", default="Associative recall")
    parser.add_argument("--dry-run", action="store_true", help="print the definition, send nothing")
    options = parser.parse_args()
    made = workspace(options.entity, options.project, options.name)
    if options.dry_run:
        print(json.dumps(definition(made), indent=1))
        return
    made.save()
    print(made.url)


def workspace(entity: str, project: str, name: str) -> Any:
    """The workspace, not yet saved."""
    import wandb_workspaces.workspaces as ws

    return ws.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=[
            ws.Section(name=title, panels=panels, is_open=True) for title, panels in _sections()
        ],
        settings=ws.WorkspaceSettings(x_axis=STEP_METRIC, max_runs=50),
        runset_settings=ws.RunsetSettings(groupby=[ws.Metric("Group"), ws.Metric("JobType")]),
    )


def _sections() -> list[tuple[str, list[Any]]]:
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces.reports.v2.interface import ParallelCoordinatesPlotColumn

    def curve(title: str, metric: str, **more: Any) -> Any:
        return wr.LinePlot(title=title, x=STEP_METRIC, y=[metric], title_x="tokens seen", **more)

    return [
        (
            "Does it learn",
            [
                curve("Accuracy on select", "select/accuracy", range_y=(0, 1)),
                curve("Training loss", "train/loss", log_y=True),
                curve("Learning rate", "train/lr"),
                curve("Seconds of training", "train/wall_s"),
            ],
        ),
        (
            "Does it recall",
            [
                wr.BarPlot(title="Best select accuracy", metrics=["select/accuracy"]),
                wr.ScatterPlot(
                    title="Learning rate against accuracy",
                    x=wr.SummaryMetric("lr"),
                    y=wr.SummaryMetric("select/accuracy"),
                    log_x=True,
                ),
                wr.ParallelCoordinatesPlot(
                    columns=[
                        ParallelCoordinatesPlotColumn(wr.Config(name))
                        for name in ("task.seq_len", "task.n_kv_pairs", "model.d_model")
                    ]
                    + [ParallelCoordinatesPlotColumn(wr.SummaryMetric("select/accuracy"))]
                ),
            ],
        ),
        (
            "Where it breaks",
            [
                wr.MediaBrowser(
                    title="Accuracy against distance", media_keys=["figures/accuracy_distance"]
                )
            ],
        ),
        (
            "The sweep",
            [
                wr.MediaBrowser(
                    title="Figures of the report",
                    media_keys=[
                        f"figures/{name}"
                        for name in (
                            "accuracy_seq_len",
                            "accuracy_params",
                            "accuracy_load",
                            "errors",
                        )
                    ],
                ),
                wr.WeavePanelSummaryTable(table_name="accuracy"),
                wr.RunComparer(diff_only="split"),
            ],
        ),
    ]


def definition(made: Any) -> dict[str, Any]:
    """What ``save`` would send, as plain data."""
    return made._to_model().model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    main()
