"""Run the benches and keep what they print in results/bench, with hardware and commit.

python scripts/publish_bench.py [data] [train] [start] [kernels]
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from zoology_bench.provenance import provenance
from zoology_bench.reporting.files import atomic_write

CHECKOUT = Path(__file__).resolve().parents[1]
OUT = CHECKOUT / "results" / "bench"
REPEATS = 5
BUILD = (
    "import time, torch; begin = time.perf_counter()\n"
    "from zoology_bench.config import compose; from zoology_bench.training import seeding\n"
    "compose(['model=attention']).model.build(seeding.generator(0, 'init'))\n"
    "print(time.perf_counter() - begin)"
)
"""Prints the seconds from an imported torch to a model that stands."""
START_COMMANDS = {
    "zoology-bench --help": ["-m", "zoology_bench", "--help"],
    "zoology-bench ls": ["-m", "zoology_bench", "ls"],
    "import torch, alone": ["-c", "import torch"],
    "compose a config and build a model, the whole process": ["-c", BUILD],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", nargs="*", default=["data", "train", "start", "kernels"])
    # Asked once: what the first bench writes would make the checkout of the next ones dirty.
    here = provenance("cpu")
    for name in parser.parse_args().which:
        text = _start_table() if name == "start" else _printed([f"scripts/bench_{name}.py"])
        atomic_write(OUT / f"{name}.md", f"{_header(name, here)}\n{text}".encode(), OUT)


def _header(name: str, here: dict[str, Any]) -> str:
    dirty = " (dirty)" if here["dirty"] else ""
    return (
        f"# bench {name}\n\n`python scripts/publish_bench.py {name}` on {here['hardware']}, "
        f"commit {str(here['git_sha'])[:12]}{dirty}, {here['timestamp']}; {here['versions']}.\n"
    )


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )


def _printed(words: list[str]) -> str:
    done = _run(words)
    table = done.stdout if "|---" in done.stdout else f"```\n{done.stdout}```\n"
    # A bench ends with 1 where a floor is missed; what it measured is kept all the same.
    return table if done.returncode == 0 else f"{table}\nNot all floors met: {done.stderr}\n"


def _start_table() -> str:
    """Median seconds from nothing to the end of the process, a fresh one each time."""
    lines = ["| what | seconds |", "|---|---:|"]
    for name, words in START_COMMANDS.items():
        seconds = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            _run(words).check_returncode()
            seconds.append(time.perf_counter() - begin)
        lines.append(f"| {name} | {statistics.median(seconds):.2f} |")
    own = [float(_run(["-c", BUILD]).stdout) for _ in range(REPEATS)]
    lines.append(f"| of it, after `import torch` | {statistics.median(own):.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
