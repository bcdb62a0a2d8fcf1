"""Turn a finished experiment into results/<experiment> and refresh README.md's excerpt of it.

zoology-bench run experiment=quickstart
python scripts/publish_results.py quickstart --command "bash scripts/quickstart.sh"

Rows of a later run join a published folder when both are sources.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.configs import encode_configs, known_configs
from zoology_bench.reporting.files import atomic_write, save_results
from zoology_bench.reporting.load import load_results
from zoology_bench.reporting.readme import (
    published_shape_notes,
    result_notes,
    write_results_readme,
)
from zoology_bench.reporting.report import write_report
from zoology_bench.reporting.tables import overview_markdown

CHECKOUT = Path(__file__).resolve().parents[1]
SHAPE_IS_CLAIMED = ("figure2_mini", "iclr24_figure2")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("experiment")
    parser.add_argument(
        "--source",
        action="append",
        help="results.csv or output folder, may be given several times; "
        "default: outputs/<experiment>/results.csv",
    )
    parser.add_argument(
        "--command",
        action="append",
        help="what was typed, may be given several times; default: the run command",
    )
    parser.add_argument("--note", action="append", default=[], help="a line for its README")
    options = parser.parse_args()
    experiment = options.experiment
    default = CHECKOUT / "outputs" / experiment / "results.csv"
    sources = [Path(source) for source in options.source or [default]]
    commands = options.command or [f"zoology-bench run experiment={experiment}"]
    publish(experiment, sources, commands, options.note)


def publish(
    experiment: str, sources: Sequence[Path], commands: Sequence[str], notes: Sequence[str]
) -> None:
    """Write results/<experiment> from ``sources`` and refresh the excerpt in README.md."""
    frame = load_results(sources)
    configs = known_configs(frame, sources)
    out = CHECKOUT / "results" / experiment
    write_report(sources, out, page=False)
    # A report leaves alone what it reads; the folder must hold the other sources' rows as well.
    save_results(frame, out / "results.csv")
    if configs:
        atomic_write(out / "configs.json", encode_configs(configs), out)
    summary = summarise(frame)
    findings = published_shape_notes(summary) if experiment in SHAPE_IS_CLAIMED else []
    write_results_readme(
        out,
        experiment=experiment,
        command="\n".join([*commands, f"python scripts/publish_results.py {experiment}"]),
        hardware=_one(frame.hardware) + f", {_one(frame.threads)} thread(s) a run",
        commit=_one(frame.git_sha.str[:12] + frame.dirty.map({True: " (dirty)", False: ""})),
        date=_one(frame.timestamp.str[:10]),
        versions=_versions(frame),
        notes=[*findings, *notes, *result_notes(summary), _seconds_note(frame)],
    )
    page = CHECKOUT / "README.md"
    text = page.read_text()
    atomic_write(
        page, insert_excerpt(text, experiment, excerpt(frame, experiment)).encode(), CHECKOUT
    )


def excerpt(frame: pd.DataFrame, experiment: str) -> str:
    """The table and figure that README.md shows of an experiment."""
    folder = f"results/{experiment}"
    return (
        f"{overview_markdown(summarise(frame))}\n\n"
        "Accuracy on `report` rows with its 95 % interval across seeds (* within a seed, where "
        "they agree) and the seeds above .99; † still rising when the budget ended. The ceiling is "
        "an expectation, the best baseline a score on these rows. "
        f"Everything else: [{folder}/README.md]({folder}/README.md).\n\n"
        f"![Accuracy against sequence length]({folder}/accuracy_seq_len.png)\n"
    )


def insert_excerpt(page: str, experiment: str, text: str) -> str:
    """Replace what stands between the experiment's markers; a page without them stays as it is."""
    begin, end = f"<!-- results:{experiment} -->", f"<!-- /results:{experiment} -->"
    return re.sub(
        f"{re.escape(begin)}.*?{re.escape(end)}",
        lambda _: f"{begin}\n{text}{end}",
        page,
        flags=re.DOTALL,
    )


def _one(column: pd.Series) -> str:
    return ", ".join(sorted({str(value) for value in column}))


def _versions(frame: pd.DataFrame) -> dict[str, str]:
    words = " ".join(sorted({str(text) for text in frame.versions})).split()
    return {name: number for name, _, number in (word.partition("=") for word in words)}


def _seconds_note(frame: pd.DataFrame) -> str:
    runs = frame.drop_duplicates("run_id")
    return (
        f"{len(runs)} runs; {runs.wall_s.sum():.0f} s of training in all, "
        f"{runs.wall_s.max():.0f} s the longest."
    )


if __name__ == "__main__":
    main()
