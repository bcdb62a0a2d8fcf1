"""Which queries the analytic BaseConv will answer: an independent check, pair by pair of positions.

Nothing here is shared with the model but the names of the selections: lags are counted pair by
pair, row by row, in plain NumPy.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from zoology_bench.analytic.base import HasPublicLayout
from zoology_bench.analytic.selection import (
    CAUSAL_SELECTIONS,
    SELECTIONS,
    check_lags,
    check_n_distances,
    check_reach,
    min_lag,
)
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout
from zoology_bench.validation import check_name


def coverage(
    batch: Batch,
    n_distances: int,
    *,
    task: HasPublicLayout | None = None,
    selection: str = "cross",
    lags: Sequence[int] = (),
) -> Tensor:
    """(B, Q) bool: the query's distance is among the J lags that its row selects.

    An absent query is covered iff no write of its key precedes it. Equal to the model's hits query
    by query for zero and disjoint filler, at any re-binding rate.

    Args:
        batch: rows with their query and key positions.
        n_distances: J.
        task: gives roles to tokens. Without it, queries are the labelled ones and a write is any
            other occurrence of an asked key, which is right unless filler may look like a key.
        selection: cross, raw, prefix_causal or given.
        lags: the J lags of selection=given.

    Raises:
        ValueError: J < 1 or more lags than T offers, an unknown selection, lags that do not fit it,
            raw without a task (its smallest lag depends on the layout), or a task with another
            seq_len.
    """
    layout = None if task is None else task.public_layout()
    return covered_queries(batch, n_distances, layout, selection, lags)


def covered_queries(
    batch: Batch,
    n_distances: int,
    layout: PublicLayout | None,
    selection: str,
    lags: Sequence[int],
) -> Tensor:
    """``coverage`` for a layout in place of its task."""
    check_name("selection", selection, SELECTIONS)
    n_rows, length = batch.inputs.shape
    check_n_distances(n_distances, length)
    check_lags(lags, n_distances, selection, "lags")
    check_reach(lags, length, "lags")
    if layout is not None and layout.seq_len != length:
        raise ValueError(f"task.seq_len={layout.seq_len} but the batch has T={length}")
    if layout is None and selection == "raw":
        raise ValueError("selection=raw needs task: its smallest lag depends on the layout")
    if layout is None:
        asks = torch.zeros_like(batch.inputs, dtype=torch.bool).scatter_(1, batch.query_pos, True)
        writes, smallest = ~asks, 1
    else:
        asks, writes = layout.asked(batch.inputs), layout.written(batch.inputs)
        smallest = min_lag(layout)
    votes = asks
    if selection in CAUSAL_SELECTIONS:
        # They cannot see a value that follows the query, where any token may be filler.
        asks = asks.scatter(1, batch.query_pos, True)
    tokens = batch.inputs.cpu().numpy()
    covered = np.zeros(tuple(batch.query_pos.shape), dtype=bool)
    for i in range(n_rows):
        pairs = _matching_pairs(tokens[i], asks[i].cpu().numpy(), writes[i].cpu().numpy())
        if selection == "given":
            chosen = set(lags)
            selected = {query: chosen for query, _ in pairs}
        else:
            voting = [(q, s, bool(votes[i, q])) for q, s in pairs]
            selected = _selected(tokens[i], voting, n_distances, selection, smallest)
        lags_of: dict[int, list[int]] = {}
        for query, lag in pairs:
            lags_of.setdefault(query, []).append(lag)
        for j, (query, key) in enumerate(
            zip(batch.query_pos[i].tolist(), batch.key_pos[i].tolist(), strict=True)
        ):
            matching = lags_of.get(query, [])
            if key < 0:
                covered[i, j] = not matching
            else:
                hits = selected[query].intersection(matching) if query in selected else set()
                covered[i, j] = min(hits, default=None) == query - key
    return torch.from_numpy(covered).to(batch.inputs.device)


def _matching_pairs(
    tokens: np.ndarray, asks: np.ndarray, writes: np.ndarray
) -> list[tuple[int, int]]:
    """(query position, lag) of every query and earlier write of its key, by query position."""
    queries, keys = np.flatnonzero(asks), np.flatnonzero(writes)
    lag = queries[:, None] - keys[None, :]
    same = (tokens[queries][:, None] == tokens[keys][None, :]) & (lag > 0)
    which, _ = np.nonzero(same)
    return list(zip(queries[which].tolist(), lag[same].tolist(), strict=True))


def _selected(
    tokens: np.ndarray,
    pairs: list[tuple[int, int, bool]],
    n_distances: int,
    selection: str,
    smallest: int,
) -> dict[int, set[int]]:
    """The lags that each query with a matching pair may use; pairs as (query, lag, votes)."""
    queries = sorted({query for query, _, _ in pairs})
    if selection == "prefix_causal":
        return {
            query: _most_frequent(
                [s for q, s, votes in pairs if q == query or (q < query and votes)],
                n_distances,
                smallest,
            )
            for query in queries
        }
    if selection == "raw":
        later, earlier = np.nonzero(np.tril(tokens[:, None] == tokens[None, :], k=-1))
        lags = (later - earlier).tolist()
    else:
        lags = [lag for _, lag, _ in pairs]
    return dict.fromkeys(queries, _most_frequent(lags, n_distances, smallest))


def _most_frequent(lags: list[int], n_distances: int, smallest: int) -> set[int]:
    counts = Counter(lag for lag in lags if lag >= smallest)
    ranked = sorted(counts, key=lambda lag: (-counts[lag], lag))
    return set(ranked[:n_distances])
