"""Names for arms and cells: as short as tells them apart, never shorter."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import pandas as pd

from zoology_bench.reporting.columns import CELL


def arm_names(summary: pd.DataFrame) -> pd.Series:
    """Name each line's model without its width: ``attention (recipe)``.

    Always says the initialisation and whether an output may see later tokens. Says the mixer,
    depth, experiment, training data or model hash only where two arms would share a name.
    """
    init = [f" ({name})" if name else "" for name in summary.init]
    whole = ["" if causal else " [not causal]" for causal in summary.causal]
    names = [a + b + c for a, b, c in zip(summary.model, init, whole, strict=True)]
    parts = [
        [f" {name}" for name in summary.mixer],
        [f" L={depth}" for depth in summary.n_layers],
        [f" in {name}" for name in summary.experiment],
        [f" trained on {name[:8]}" for name in summary.train_id],
        [f" {name[:8]}" for name in summary.model_id],
    ]
    places = _tuples(summary, [*CELL, "slice_value", "d_model"])
    return pd.Series(_refine(names, places, parts), index=summary.index, dtype="str")


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
