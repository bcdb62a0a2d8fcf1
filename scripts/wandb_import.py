"""Send finished runs of an output folder to Weights & Biases, curves and results alike.

python scripts/wandb_import.py outputs/quickstart --mode online

For runs that were logged locally alone. A run that has a W&B run already is left out: where that is
an offline one, ``wandb sync outputs/quickstart/runs/*/wandb/offline-run-*`` sends it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from tqdm import tqdm

from zoology_bench.conclusions import conclude, stored_info
from zoology_bench.reporting.store import RunStore
from zoology_bench.training.loggers import METRICS_FILE, WandbLoggerConfig
from zoology_bench.training.loggers_wandb import ID_FILE, media


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output_dir", type=Path, help="folder of runs/<run_id>")
    parser.add_argument("--mode", choices=("online", "offline"), default="online")
    parser.add_argument("--project", default="zoology-bench")
    parser.add_argument("--entity")
    parser.add_argument("--tag", action="append", default=[])
    options = parser.parse_args()
    sent, known = import_runs(
        options.output_dir,
        mode=options.mode,
        project=options.project,
        entity=options.entity,
        tags=options.tag,
    )
    print(f"{len(sent)} runs sent, {len(known)} already have a W&B run")


def import_runs(
    output_dir: Path,
    *,
    mode: str,
    project: str = "zoology-bench",
    entity: str | None = None,
    tags: list[str] | None = None,
) -> tuple[list[str], list[str]]:
    """Send every run with a result and no W&B run; the id file is written last, as the receipt.

    Returns:
        run_ids that were sent, and those left out.
    """
    store, sent, known = RunStore(output_dir), [], []
    folders = sorted(path.parent for path in output_dir.glob("runs/*/result.json"))
    for folder in tqdm(folders, desc="runs", disable=None):
        if (folder / ID_FILE).exists():
            known.append(folder.name)
            continue
        rows = store.read_result(folder.name).rows
        config = WandbLoggerConfig(
            mode=mode,
            project=project,
            entity=entity,
            group=str(rows.experiment.iloc[0]),
            tags=tags or [],
        )
        info = stored_info(rows, json.loads((folder / "config.json").read_text()))
        # The run's own id: sending it twice after an interruption makes one W&B run, not two.
        run = config.open_run(folder, info, folder.name, mode)
        for line in _curve(folder / METRICS_FILE):
            run.log({k: v for k, v in line.items() if k != "step"}, step=line["step"])
        conclusion = conclude(rows, folder)
        run.summary.update(dict(conclusion.summary))
        run.log(media(conclusion))
        run.finish(exit_code=int((rows.status == "failed").any()))
        (folder / ID_FILE).write_text(folder.name)
        sent.append(folder.name)
    return sent, known


def _curve(path: Path) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl; none where nothing was trained."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
