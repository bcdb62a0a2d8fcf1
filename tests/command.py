"""The command line, called in the tests' own process."""

import contextlib
import io
import subprocess
from pathlib import Path

from zoology_bench.cli import main


def zoology(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run one command from ``cwd``: a process for each would import torch for minutes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
