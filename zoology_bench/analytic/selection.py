"""Which lags the construction of Theorem 4.5 looks at: counts by lag, then the most frequent ones.

Counts are integers and ties go to the smaller lag, so a selection is the same everywhere.
Letters: B batch, T seq_len, V vocab_size, J number of distances.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoology_bench.data.layout import PublicLayout
from zoology_bench.data.random import sort_rows
from zoology_bench.validation import check_int

SELECTIONS = ("cross", "raw", "prefix_causal", "given")
"""cross: queries against written keys, over the whole row; raw: the paper's eq. 19 as printed, the
row against itself; prefix_causal: as cross, on the tokens up to each query; given: lags that the
user names, the same for every row."""

CAUSAL_SELECTIONS = ("prefix_causal", "given")
"""Those that read no token after the query."""

AUTOCORRELATIONS = ("compare", "fft")
"""How counts by lag are made; the counts are the same."""


def check_n_distances(n_distances: int, seq_len: int) -> None:
    """Raise ``ValueError`` unless 1 <= n_distances <= T - 1, the number of lags there are."""
    check_int("model.n_distances", n_distances, 1)
    if n_distances > seq_len - 1:
        raise ValueError(
            f"model.n_distances={n_distances} exceeds the {seq_len - 1} lags of "
            f"task.seq_len={seq_len}"
        )


def check_lags(lags: Sequence[int], n_distances: int, selection: str, field: str) -> None:
    """Raise ``ValueError`` unless J distinct positive lags are given exactly where they are used.

    Args:
        lags: what the user named.
        n_distances: J.
        selection: one of ``SELECTIONS``.
        field: what to call the lags in an error.
    """
    if selection != "given":
        if lags:
            raise ValueError(f"{field}={list(lags)} needs selection=given, not {selection}")
        return
    for lag in lags:
        check_int(field, lag, 1)
    if len(set(lags)) != len(lags):
        raise ValueError(f"{field}={list(lags)} must be distinct")
    if len(lags) != n_distances:
        raise ValueError(
            f"{field}={list(lags)} names {len(lags)} lags: selection=given needs "
            f"n_distances={n_distances} of them"
        )


def check_reach(lags: Sequence[int], seq_len: int, field: str) -> None:
    """Raise ``ValueError`` for a given lag that reaches no position of a row."""
    if lags and max(lags) > seq_len - 1:
        raise ValueError(
            f"{field}={list(lags)} reaches beyond the {seq_len - 1} lags of task.seq_len={seq_len}"
        )


def min_lag(layout: PublicLayout) -> int:
    """Smallest lag that may be selected: on triples a query never asks its own triple's key."""
    return 5 if layout.name == "triples" else 1


def cross_counts(tokens: Tensor, asked: Tensor, written: Tensor, vocab_size: int) -> Tensor:
    """How often each lag separates a query from an earlier write of its key.

    Args:
        tokens: (B, T).
        asked: (B, T) bool, query roles.
        written: (B, T) bool, key roles.
        vocab_size: V.

    Returns:
        (B, T) int64, indexed by lag; O(T log T) per row.
    """
    n_rows, length = tokens.shape
    row, at = written.nonzero(as_tuple=True)
    # One sort groups the writes by row and key, positions ascending within a group.
    writes = sort_rows((row * vocab_size + tokens[written]) * length + at)
    row, at = asked.nonzero(as_tuple=True)
    group = (row * vocab_size + tokens[asked]) * length
    first = torch.searchsorted(writes, group)
    n_earlier = torch.searchsorted(writes, group + at) - first
    counts = tokens.new_zeros(n_rows * length)
    for k in range(int(n_earlier.max()) if len(n_earlier) else 0):
        has = n_earlier > k
        lag = at[has] - writes[first[has] + k] % length
        counts += torch.bincount(row[has] * length + lag, minlength=n_rows * length)
    return counts.view(n_rows, length)


def raw_counts(tokens: Tensor) -> Tensor:
    """(B, T) int64 autocorrelation of the one-hot rows: equal tokens at each lag >= 1.

    As eq. 19 is printed, so that what it misses can be shown: equal values, repeated queries and
    filler vote too. O(T^2) per row.
    """
    counts = torch.zeros_like(tokens)
    for lag in range(1, tokens.shape[1]):
        counts[:, lag] = (tokens[:, lag:] == tokens[:, :-lag]).sum(1)
    return counts


def top_lags(counts: Tensor, n_distances: int, smallest: int) -> Tensor:
    """The most frequent lags of each row, ascending.

    Args:
        counts: (B, T) by lag.
        n_distances: how many to keep, J.
        smallest: lags below never count.

    Returns:
        (B, J) int64; T, which reaches no token, fills up where fewer lags occur.
    """
    length = counts.shape[1]
    lag = torch.arange(length, device=counts.device)
    # Distinct ranks: by count, then by the smaller lag.
    rank = torch.where(lag >= smallest, counts, 0) * length + (length - 1 - lag)
    best = rank.topk(n_distances, dim=1, sorted=False).values
    lags = torch.where(best >= length, length - 1 - best % length, length)
    return sort_rows(lags)
