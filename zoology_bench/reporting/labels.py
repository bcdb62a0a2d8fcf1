"""Names for arms and cells: as short as tells them apart, never shorter."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import pandas as pd

from zoology_bench.reporting.aggregate import TRAINING
from zoology_bench.reporting.columns import CELL


def named(summary: pd.DataFrame) -> pd.DataFrame:
    """Add what tables, figures and notes call each line.

    Returns:
        The lines with arm, cell, width (`` D=64``, empty where the model has none) and where
        (``attention (recipe) D=64 at T=64 P=4``).
    """
    lines = summary.assign(arm=arm_names(summary), cell=cell_names(summary))
    widths = ["" if pd.isna(width) else f" D={width}" for width in lines.d_model.tolist()]
    lines["width"] = pd.Series(widths, index=lines.index, dtype="str")
    return lines.assign(where=lines.arm + lines.width + " at " + lines.cell)


def arm_names(summary: pd.DataFrame) -> pd.Series:
    """Name each line's model without its width: ``attention (recipe)``.

    Always says the initialisation and whether an output may see later tokens. Says the mixer,
    depth, experiment, training data or model hash only where two arms would share a name.
    """
    # Slices of one arm are one arm, and may differ from those of another that it must not hide.
    arms = summary.loc[~summary.duplicated([*TRAINING, *CELL])]
    init = [f" ({name})" if name else "" for name in arms.init]
    whole = ["" if causal else " [not causal]" for causal in arms.causal]
    names = [a + b + c for a, b, c in zip(arms.model, init, whole, strict=True)]
    parts = [
        [f" {name}" for name in arms.mixer],
        [f" L={depth}" for depth in arms.n_layers],
        [f" in {name}" for name in arms.experiment],
        [f" trained on {name[:8]}" for name in arms.train_id],
        [f" {name[:8]}" for name in arms.model_id],
    ]
    names = _refine(names, _tuples(arms, [*CELL, "d_model"]), parts)
    by_arm = dict(zip(_tuples(arms, [*TRAINING, *CELL]), names, strict=True))
    keys = _tuples(summary, [*TRAINING, *CELL])
    return pd.Series([by_arm[key] for key in keys], index=summary.index, dtype="str")


def cell_names(summary: pd.DataFrame) -> pd.Series:
    """Name each line's cell: ``T=64 P=4``, and what else tells two cells apart."""
    cells = summary.loc[~summary.duplicated(list(CELL))]
    names = [f"T={t} P={p}" for t, p in zip(cells.seq_len, cells.n_kv_pairs, strict=True)]
    parts = [
        [f" filler {name}" for name in cells.filler],
        [f" {name}" for name in cells.layout],
        [f" {name}" for name in cells.distance_law],
        [f" V={size}" for size in cells.vocab_size],
        [f" Q={count}" for count in cells.n_queries],
        [f" {name}" for name in cells.task],
        [f" v{version}" for version in cells.task_version],
        [f" {name[:8]}" for name in cells.data_hash],
    ]
    names = _refine(names, [()] * len(names), parts)
    by_cell = dict(zip(_tuples(cells, CELL), names, strict=True))
    return pd.Series([by_cell[key] for key in _tuples(summary, CELL)], index=summary.index)


LOAD_GROUP = ("task", "task_version", "layout", "distance_law", "filler", "vocab_size", "seq_len")
"""Columns that are equal in cells which differ in their number of pairs only."""


def load_names(summary: pd.DataFrame) -> pd.Series:
    """Name each line's set of cells that differ in the number of pairs only: ``T=64``."""
    groups = summary.loc[~summary.duplicated(list(LOAD_GROUP))]
    names = [f"T={t}" for t in groups.seq_len]
    parts = [
        [f" filler {name}" for name in groups.filler],
        [f" {name}" for name in groups.layout],
        [f" {name}" for name in groups.distance_law],
        [f" V={size}" for size in groups.vocab_size],
        [f" {name}" for name in groups.task],
        [f" v{version}" for version in groups.task_version],
    ]
    names = _refine(names, [()] * len(names), parts)
    by_group = dict(zip(_tuples(groups, LOAD_GROUP), names, strict=True))
    return pd.Series([by_group[key] for key in _tuples(summary, LOAD_GROUP)], index=summary.index)


def _tuples(frame: pd.DataFrame, columns: Iterable[str]) -> list[tuple[object, ...]]:
    # Missing numbers compare equal as text, not as pandas' NA.
    return list(zip(*(map(str, frame[name].tolist()) for name in columns), strict=True))


def _refine(
    names: list[str], places: Sequence[tuple[object, ...]], parts: Iterable[list[str]]
) -> list[str]:
    """Lengthen names part by part until no two lines of one place share a name."""
    for part in parts:
        counts = Counter(zip(places, names, strict=True))
        clashing = {name for (_, name), count in counts.items() if count > 1}
        if not clashing:
            break
        variants = defaultdict(set)
        for name, text in zip(names, part, strict=True):
            variants[name].add(text)
        names = [
            name + text if name in clashing and len(variants[name]) > 1 else name
            for name, text in zip(names, part, strict=True)
        ]
    return names
