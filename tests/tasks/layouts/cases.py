"""Building layouts from numbers, and placements as plain Python."""

from dataclasses import dataclass

import torch

from zoology_bench.data.random import row_keys
from zoology_bench.tasks.distance import DistanceLaw
from zoology_bench.tasks.layouts import LAYOUTS
from zoology_bench.tasks.layouts.base import Layout, LayoutSpec


def layout(
    name: str,
    seq_len: int,
    n_pairs: int,
    n_queries: int,
    distance: DistanceLaw | None = None,
    *,
    binding: DistanceLaw | None = None,
    n_rebound: int = 0,
) -> Layout:
    spec = LayoutSpec(
        seq_len=seq_len,
        n_kv_pairs=n_pairs,
        n_queries=n_queries,
        n_rebound=n_rebound,
        distance=distance,
        binding=binding,
        power_a=0.01,
    )
    return LAYOUTS[name](spec)


def is_accepted(*args, **kwargs) -> bool:
    try:
        layout(*args, **kwargs)
    except ValueError:
        return False
    return True


def keys(n_rows: int, tag: str = "test") -> torch.Tensor:
    return row_keys(tag, "train", 0, torch.arange(n_rows))


@dataclass(frozen=True)
class Row:
    """One placed row."""

    pairs: list[int]
    queries: list[int]
    asked: list[int]
    key_id: list[int]


def placed(bound: Layout, n_rows: int, tag: str = "test") -> list[Row]:
    placement = bound.place(keys(n_rows, tag))
    key_id = placement.key_id
    if key_id is None:
        key_id = torch.arange(bound.spec.n_kv_pairs).expand(n_rows, -1)
    columns = (placement.pair_pos, placement.query_pos, placement.asked, key_id)
    return [Row(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def distances(bound: Layout, n_rows: int, tag: str = "test") -> torch.Tensor:
    """(n_rows, Q) realised interaction distances."""
    placement = bound.place(keys(n_rows, tag))
    return placement.query_pos - placement.pair_pos.gather(1, placement.asked)
