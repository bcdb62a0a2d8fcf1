"""Configurations of runs, found beside their results."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

FILE = "configs.json"
"""Kept beside a report's results.csv: configuration by run_id."""


def known_configs(frame: pd.DataFrame, sources: Iterable[Path]) -> dict[str, Any]:
    """Configuration by run_id, of the runs whose config.json or configs.json is still there.

    Args:
        frame: validated rows.
        sources: the files and folders they were read from.

    Raises:
        ValueError: a file of that name which is not JSON.
    """
    folders = [source if source.is_dir() else source.parent for source in sources]
    found: dict[str, Any] = {}
    for folder in folders:
        kept = folder / FILE
        found |= _read(kept) if kept.is_file() else {}
    runs = frame.drop_duplicates("run_id")
    for run_id, kept_at in zip(runs.run_id, runs.config_path, strict=True):
        for folder in folders:
            if kept_at and (folder / kept_at).is_file():
                found[run_id] = _read(folder / kept_at)
    return found


def encode_configs(configs: Mapping[str, Any]) -> bytes:
    """The file ``configs.json``."""
    return (json.dumps(configs, indent=1, sort_keys=True) + "\n").encode()


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
