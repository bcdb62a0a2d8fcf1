"""Reading results back: files and folders in, one checked frame out."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from zoology_bench.reporting.columns import KEY
from zoology_bench.reporting.files import check_parquet, read_csv
from zoology_bench.reporting.schema import sort_rows, validate
from zoology_bench.reporting.store import RunStore

Part = tuple[pd.DataFrame, list[str]]
"""Rows, and for each where it was read (``file:line``)."""


def load_results(paths: Iterable[str | Path] | str | Path) -> pd.DataFrame:
    """Read results files and output folders into one long-form frame.

    A folder stands for its finished runs (``runs/*/result.json``), else for its ``results.csv``. A
    row that is found twice counts once.

    Raises:
        ValueError: one line that names file and line: no such file, foreign or partial file, two
            rows that measure the same thing and differ, nothing to read.
    """
    sources = [paths] if isinstance(paths, str | Path) else list(paths)
    parts = [part for source in sources for part in _read(Path(source))]
    if not any(len(frame) for frame, _ in parts):
        raise ValueError(f"no result rows in {', '.join(map(str, sources)) or 'an empty list'}")
    frame = pd.concat([frame for frame, _ in parts], ignore_index=True)
    return sort_rows(_drop_repeats(frame, [where for _, places in parts for where in places]))


def _read(path: Path) -> list[Part]:
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")
    if path.suffix == ".csv":
        return [read_csv(path)]
    if path.suffix == ".parquet":
        return [_read_parquet(path)]
    raise ValueError(f"{path}: results are .csv, .parquet or a folder")


def _read_folder(path: Path) -> list[Part]:
    frame, places = RunStore(path).read_all()
    if len(frame):
        return [(frame, places)]
    if (path / "results.csv").exists():
        return _read(path / "results.csv")
    raise ValueError(f"{path}: holds neither runs/*/result.json nor results.csv")


def _read_parquet(path: Path) -> Part:
    check_parquet(path)
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: not a Parquet file: {reason}") from None
    places = [f"{path}:{number}" for number in range(1, len(frame) + 1)]
    return validate(frame, str(path), places), places


def _drop_repeats(frame: pd.DataFrame, places: list[str]) -> pd.DataFrame:
    """Keep one of each set of equal rows; refuse rows that claim the same key and differ."""
    kept = frame.loc[~frame.duplicated()]
    clash = kept.duplicated(subset=list(KEY))
    if clash.any():
        later = kept.loc[clash].iloc[0]
        same = kept.loc[(kept[list(KEY)] == later[list(KEY)]).all(axis=1)]
        earlier = same.iloc[0]
        column = next(c for c in frame.columns if repr(earlier[c]) != repr(later[c]))
        raise ValueError(
            f"{places[_index(later)]}: {column}={later[column]} contradicts "
            f"{places[_index(earlier)]}: {column}={earlier[column]} "
            "(same run_id, cell, split, slice and metric)"
        )
    return kept


def _index(row: pd.Series) -> int:
    return int(str(row.name))
