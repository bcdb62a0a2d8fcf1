"""The Triton kernels without a GPU: in the interpreter, and compiled ahead of time.

Both need a process of their own: TRITON_INTERPRET is read when Triton is imported.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, interpret: bool, cache: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON", "PYTEST"))}
    env["TRITON_CACHE_DIR"] = str(cache)
    if interpret:
        env["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("file", ["accuracy", "operators", "kernel_mutants"])
def test_the_interpreter_agrees(file: str, tmp_path: Path) -> None:
    path = f"tests/kernels/interpreted/test_{file}.py"
    run(
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        path,
        interpret=True,
        cache=tmp_path,
    )


@pytest.mark.slow
def test_the_interpreter_agrees_on_the_whole_matrix(tmp_path: Path) -> None:
    path = "tests/kernels/interpreted"
    run(
        "pytest", "-q", "-p", "no:cacheprovider", "-m", "slow", path, interpret=True, cache=tmp_path
    )


def test_the_largest_tiles_compile_for_gpus(tmp_path: Path) -> None:
    run("tests.kernels.aot", interpret=False, cache=tmp_path)


@pytest.mark.slow
def test_every_tile_compiles_for_gpus(tmp_path: Path) -> None:
    run("tests.kernels.aot", "--all", interpret=False, cache=tmp_path)
