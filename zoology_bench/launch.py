"""From overrides to finished runs: every planned run is validated before Hydra starts the first."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pandas as pd
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from tqdm import tqdm

from zoology_bench.conclusions import sweep_conclusion, sweep_info
from zoology_bench.config import plan, plan_alone
from zoology_bench.jobs import Job, carry_out
from zoology_bench.plain import to_plain
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.constructions import constructions_markdown
from zoology_bench.reporting.files import OutputError
from zoology_bench.reporting.load import load_results
from zoology_bench.reporting.report import write_report
from zoology_bench.reporting.store import RunStore
from zoology_bench.reporting.tables import overview_markdown
from zoology_bench.result_rows import kind_of, run_id_of
from zoology_bench.run_config import RunConfig
from zoology_bench.runner import check_device
from zoology_bench.training.checkpoint import ForeignCheckpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What the command line prints, and whether any run failed."""

    text: str
    failed: bool


def launch(overrides: Sequence[str], config_dirs: Sequence[str], *, multirun: bool) -> Outcome:
    """Validate every planned run, start them through Hydra, and report.

    Args:
        overrides: Hydra overrides; ``a=1,2`` sweeps.
        config_dirs: folders with further presets.
        multirun: sweep even where the grid has one cell (uses the configured launcher).

    Raises:
        ValueError, or an OmegaConf or Hydra error: nothing was started or written.
    """
    jobs = [
        Job(config=config, run_id=run_id_of(config), overrides=words)
        for config, words in plan_alone(overrides, config_dirs)
    ]
    for job in jobs:
        check_device(job.config.device)
    _check_workers(overrides)
    _check_repeats(jobs)
    stores = {job.config.output_dir: job.store for job in jobs}
    for store in stores.values():
        store.check_writable()
        # A stored result that cannot be read must stop the sweep before it starts, not after.
        store.read_all()
    # The seeds of a sweep share one run of an untrained model.
    expected = list(dict.fromkeys((stores[job.config.output_dir], job.run_id) for job in jobs))
    is_sweep = multirun or len(jobs) > 1
    try:
        try:
            with _SweepProgress(expected, enabled=is_sweep):
                carry_out(jobs, overrides, config_dirs, multirun=is_sweep)
        finally:
            # Whatever ended the sweep, the rows of the runs that did finish are there to be read.
            tables = [store.write_results_csv() for store in stores.values()]
        outcome = _conclude(expected, tables, with_report=is_sweep)
        if is_sweep:
            _tell_logger([job.config for job in jobs], stores)
        return outcome
    except (OutputError, ForeignCheckpoint):
        raise
    except (ValueError, OSError) as error:
        # The input was found good before: what breaks from here on is no fault of the user's.
        raise RuntimeError("the runs were planned, but not all could be carried out") from error


def _check_workers(overrides: Sequence[str]) -> None:
    """Refuse here what the launcher would refuse only after the sweep has started."""
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        if override.get_key_element() == "hydra.launcher.n_jobs" and override.value() == 0:
            raise ValueError(
                "hydra.launcher.n_jobs=0 must be a number of workers, or -1 for one a core"
            )


def _check_repeats(jobs: Sequence[Job]) -> None:
    """Two workers must not train one run; the seeds of an untrained model share theirs."""
    times = Counter((job.config.output_dir, job.run_id) for job in jobs)
    for job in jobs:
        if times[job.config.output_dir, job.run_id] > 1 and kind_of(job.config) == "trained":
            raise ValueError(
                f"the grid holds run {job.run_id} more than once: give every value of an axis once"
            )


def describe(overrides: Sequence[str], config_dirs: Sequence[str]) -> str:
    """The planned runs as YAML documents, without running them."""
    cells = plan(overrides, config_dirs)
    return "---\n".join(yaml.safe_dump(to_plain(cell), sort_keys=False) for cell in cells)


def _conclude(
    expected: list[tuple[RunStore, str]], tables: list[Path], *, with_report: bool
) -> Outcome:
    ended = [(store, run_id) for store, run_id in expected if store.has_result(run_id)]
    results = [store.read_result(run_id) for store, run_id in ended]
    lines = []
    for path in tables:
        lines.append(f"results: {path}")
        if with_report and results:
            lines += _report_lines(path)
    failed = [run_id for (_, run_id), r in zip(ended, results, strict=True) if r.status == "failed"]
    missing = sorted({run_id for _, run_id in expected} - {run_id for _, run_id in ended})
    lines += [f"failed:  {run_id}" for run_id in failed]
    lines += [f"no result: {run_id}" for run_id in missing]
    table = []
    if results:
        rows = pd.concat([result.rows for result in results], ignore_index=True)
        summary = summarise(rows)
        table = [overview_markdown(summary), ""]
        if constructions := constructions_markdown(summary):
            table += [constructions, ""]
    return Outcome(text="\n".join([*table, *lines]), failed=bool(failed or missing))


def _report_lines(results: Path) -> list[str]:
    try:
        written = write_report([results], results.parent / "report")
    except OutputError:
        raise
    except ValueError as error:
        # Older runs of the folder may not compare with these (other threads, another device).
        return [f"report:  not written: {error}"]
    return [f"report:  {path}" for path in written if path.suffix != ".svg"]


def _tell_logger(cells: Sequence[RunConfig], stores: dict[str, RunStore]) -> None:
    """The whole sweep as one run of the dashboard, where a dashboard is asked for."""
    for output_dir, store in stores.items():
        cell = next(cell for cell in cells if cell.output_dir == output_dir)
        info = sweep_info(cell.experiment, {"output_dir": output_dir, "n_runs": len(cells)})
        logger = cell.logger.build(store.output_dir / "dashboard", info)
        if not logger.remote:
            continue
        frame = load_results(store.output_dir)
        logger.start(0)
        logger.conclude(sweep_conclusion(frame, store.output_dir / "report"))
        logger.close()


class _SweepProgress:
    """Counts finished results in the stores: that works for every launcher, local or remote."""

    POLL_S = 0.5

    def __init__(self, expected: list[tuple[RunStore, str]], *, enabled: bool) -> None:
        self._expected = expected
        self._bar = tqdm(
            total=len(expected), desc="runs", disable=None if enabled else True, leave=False
        )
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(self.POLL_S):
            self._bar.n = sum(store.is_finished(run_id) for store, run_id in self._expected)
            self._bar.refresh()

    def __enter__(self) -> None:
        if not self._bar.disable:
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        self._bar.close()
