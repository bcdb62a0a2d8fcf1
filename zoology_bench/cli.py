"""The command line: parses verbs and prints; every decision is made elsewhere.

Only argparse and constants are imported here, so that ``--help`` answers at once.
"""

import argparse
import gc
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from zoology_bench.exit_codes import DONE, FAILED, INTERRUPTED, WRONG_INPUT

VERBS = ("run", "report", "compare", "data", "score", "ls")

_DESCRIPTION = """\
Synthetic associative recall for people who design sequence models.

  zoology-bench                                    the quickstart experiment
  zoology-bench run experiment=smoke               one experiment
  zoology-bench run task=mqar model=base_conv seed=0,1,2
  zoology-bench key=value ...                      means run"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the process's exit code.

    Returns:
        0 done, 1 a run or a check failed, 2 the input was wrong (one line on stderr),
        130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        words = ["run", "experiment=quickstart"]
    elif words[0] not in VERBS and not words[0].startswith("-"):
        words = ["run", *words] if "=" in words[0] else words
    options = _parse(words)
    if os.getcwd() not in sys.path:
        # A console script sees its own folder first, not the user's, where their mixer lives.
        sys.path.insert(0, os.getcwd())
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    try:
        text, code = _VERB_FUNCTIONS[options.verb](options)
    except KeyboardInterrupt:
        print("zoology-bench: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        return _explain(error)
    return code if _say(text) else WRONG_INPUT


def _say(text: str) -> bool:
    """Print what a verb found; False where it could not be written, which is not a verdict.

    A reader that went away (| head) is no error: the verdict stands whether or not it is read.
    """
    try:
        print(text.rstrip("\n"), flush=True)
    except OSError as error:
        # The interpreter must not complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"zoology-bench: stdout cannot be written: {error.strerror}", file=sys.stderr)
            return False
    return True


def _explain(error: Exception) -> int:
    from zoology_bench.user_errors import translate

    known = translate(error)
    if known is None or os.environ.get("HYDRA_FULL_ERROR") == "1":
        raise error
    print(f"zoology-bench: {known}", file=sys.stderr)
    return WRONG_INPUT


class _OneLineParser(argparse.ArgumentParser):
    """argparse without the usage block in front of every error."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parse(words: list[str]) -> argparse.Namespace:
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    # argparse stops filling key=value words at the first option; the later ones belong there too.
    if rest and (not hasattr(options, "overrides") or any(w.startswith("-") for w in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="zoology-bench",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_run(verbs)
    _add_report(verbs)
    _add_compare(verbs)
    _add_data(verbs)
    _add_score(verbs)
    _add_ls(verbs)
    return parser


def _version() -> str:
    from zoology_bench import __version__

    return f"zoology-bench {__version__}"


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides")
    parser.add_argument(
        "--config-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with further YAML presets (may be given several times)",
    )


def _add_run(verbs: "argparse._SubParsersAction[_OneLineParser]") -> None:
    run = verbs.add_parser("run", help="train or build models and log what they recall")
    _add_overrides(run)
    run.add_argument("-m", "--multirun", action="store_true", help="sweep (also implied by a=1,2)")
    run.add_argument("--cfg", action="store_true", help="print the composed configs and stop")


def _add_report(verbs: "argparse._SubParsersAction[_OneLineParser]") -> None:
    report = verbs.add_parser("report", help="tables and figures from stored results")
    report.add_argument("paths", nargs="+", metavar="PATH", help="results.csv or output folders")
    report.add_argument("--out", metavar="DIR", help="default: report/ beside the first path")
    report.add_argument(
        "--by",
        action="append",
        default=[],
        choices=("distance", "binding_distance", "n_kv_pairs"),
        help="a further table, resolved along this axis (may be given several times)",
    )


def _add_compare(verbs: "argparse._SubParsersAction[_OneLineParser]") -> None:
    compare = verbs.add_parser("compare", help="fail where a result fell (docs/ci.md)")
    compare.add_argument("baseline", metavar="BASELINE", help=".csv, .parquet or output folder")
    compare.add_argument("candidate", metavar="CANDIDATE", help="likewise, measured later")
    compare.add_argument("--tolerance", default="auto", metavar="auto|X", help="largest drop")
    compare.add_argument("--level", type=float, default=0.05, help="false alarms, all cells")
    compare.add_argument("--numerics", choices=("warn", "fail"), default="warn")
    compare.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    compare.add_argument("--summary", metavar="FILE", help="append the Markdown to FILE as well")
    compare.add_argument("--update", action="store_true", help="make CANDIDATE the baseline")
    compare.add_argument("--note", default="", help="why, for the changelog of --update")


def _add_data(verbs: "argparse._SubParsersAction[_OneLineParser]") -> None:
    data = verbs.add_parser("data", help="export, audit or hash a task's rows")
    actions = data.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser("export", help="write rows to .npz or .jsonl (docs/tasks.md)")
    _add_overrides(export)
    export.add_argument("--out", required=True, metavar="FILE", help="a new .npz or .jsonl file")
    export.add_argument("--split", default="report", help="train, select or report")
    export.add_argument("--start", type=int, default=0, help="first row")
    export.add_argument("--stop", type=int, default=1000, help="one past the last row")
    audit = actions.add_parser("audit", help="baselines against the published ceiling")
    _add_overrides(audit)
    audit.add_argument("--rows", type=int, default=20_000, help="report rows to grade")
    hashed = actions.add_parser("hash", help="sha256 of the first 1,000 report rows")
    _add_overrides(hashed)


def _add_score(verbs: "argparse._SubParsersAction[_OneLineParser]") -> None:
    score = verbs.add_parser("score", help="grade predictions made elsewhere on exported rows")
    score.add_argument("predictions", metavar="PREDICTIONS", help=".npz or .jsonl (docs/tasks.md)")
    _add_overrides(score)


def _add_ls(verbs: "argparse._SubParsersAction[_OneLineParser]") -> None:
    ls = verbs.add_parser("ls", help="every preset: experiments, tasks, models, mixers")
    ls.add_argument("--config-dir", action="append", default=[], metavar="DIR")


@contextmanager
def _importing() -> Iterator[None]:
    """Keep the cycle collector off what a verb imports: it lives as long as the process.

    Looking through torch's modules again and again, at exit as well, would cost a second a start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run(options: argparse.Namespace) -> tuple[str, int]:
    with _importing():
        from zoology_bench import launch

    if options.cfg:
        return launch.describe(options.overrides, options.config_dir), DONE
    outcome = launch.launch(options.overrides, options.config_dir, multirun=options.multirun)
    return outcome.text, FAILED if outcome.failed else DONE


def _report(options: argparse.Namespace) -> tuple[str, int]:
    with _importing():
        from zoology_bench.reporting.report import write_report

    first = Path(options.paths[0])
    folder = Path(options.out or (first if first.is_dir() else first.parent) / "report")
    return "\n".join(map(str, write_report(options.paths, folder, options.by))), DONE


def _compare(options: argparse.Namespace) -> tuple[str, int]:
    with _importing():
        from zoology_bench.reporting.gate_command import compare

    text, passed = compare(options)
    return text, DONE if passed else FAILED


def _data(options: argparse.Namespace) -> tuple[str, int]:
    with _importing():
        from zoology_bench import data_commands

    if options.action == "export":
        return data_commands.export(options), DONE
    if options.action == "hash":
        return data_commands.hashes(options.overrides, options.config_dir), DONE
    text, failed = data_commands.audit(options.overrides, options.config_dir, options.rows)
    return text, FAILED if failed else DONE


def _score(options: argparse.Namespace) -> tuple[str, int]:
    with _importing():
        from zoology_bench import data_commands

    return data_commands.score(options.predictions, options.overrides, options.config_dir), DONE


def _ls(options: argparse.Namespace) -> tuple[str, int]:
    from zoology_bench import presets

    return presets.listing(presets.preset_folders(options.config_dir)), DONE


_VERB_FUNCTIONS = {
    "run": _run,
    "report": _report,
    "compare": _compare,
    "data": _data,
    "score": _score,
    "ls": _ls,
}
"""Each carries out its verb and returns what to print and the exit code."""
