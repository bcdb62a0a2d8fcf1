"""Shipped task presets and their committed hashes; ``python -m tests.tasks.presets`` renews them.

Renew only together with a raised task version: an old hash stands for rows others have used.
"""

import json
from pathlib import Path

from zoology_bench.config import compose
from zoology_bench.presets import config_dir
from zoology_bench.tasks.base import Task

GOLDEN_HASHES = Path(__file__).parents[1] / "data" / "golden_hashes.json"


def preset_names() -> list[str]:
    """Every task preset that ships."""
    return sorted(path.stem for path in (Path(config_dir()) / "task").glob("*.yaml"))


def preset(name: str) -> Task:
    """The task of a preset."""
    return compose([f"task={name}"]).task


def main() -> None:
    hashes = {name: preset(name).data_hash() for name in preset_names()}
    GOLDEN_HASHES.write_text(json.dumps(hashes, indent=2) + "\n")


if __name__ == "__main__":
    main()
