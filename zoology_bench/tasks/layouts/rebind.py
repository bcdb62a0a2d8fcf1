"""Which pairs write the same key, once every pair and query stands."""

import torch
from torch import Tensor

from zoology_bench.data.random import bounded, draws, lanes32, sort_rows

_STREAM_ORDER = 32
_STREAM_KEYS = 33


def share_keys(
    keys: Tensor, pair_pos: Tensor, asked: Tensor, query_pos: Tensor, n_rebound: int
) -> Tensor:
    """(B, P) ``Placement.key_id``: R pairs share the keys of the other P - R, which are distinct.

    The R sharing pairs are a uniform subset of the pairs that nothing asks. Each takes, uniformly
    and on its own, one of the P - R distinct keys that it may take: any unasked one, and an asked
    one unless it stands between the asked pair and its query, where it would be the last write.
    So asked pairs stay the last write before their query; stale writes precede them, and where the
    layout has pairs after the query, later writes of the same key may follow it.

    Args:
        keys: (B,) row keys.
        pair_pos: (B, P) ascending.
        asked: (B, Q) distinct within a row.
        query_pos: (B, Q).
        n_rebound: R, 1 <= R <= P - Q. Every unasked pair must have a key that it may take: with
            Q < P - R that is so by itself, with Q = P - R the layout has to see to it.
    """
    n_rows, n_pairs = pair_pos.shape
    n_queries = asked.shape[1]
    unasked = _shuffled_unasked(keys, asked, n_pairs)
    sharing, alone = unasked[:, :n_rebound], unasked[:, n_rebound:]
    distinct = torch.cat([asked, alone], 1)
    key_id = torch.empty_like(pair_pos)
    ids = torch.arange(distinct.shape[1], device=keys.device)
    key_id.scatter_(1, distinct, ids.expand(n_rows, -1))
    bits = lanes32(keys, _STREAM_KEYS, n_rebound)
    for i in range(n_rebound):
        pair = sharing[:, i : i + 1]
        allowed = (pair < asked) | (pair_pos.gather(1, pair) > query_pos)
        rank = torch.cumsum(allowed, 1, dtype=torch.int32)
        n_alone = alone.shape[1]
        choice = bounded(bits[:, i], n_alone + rank[:, -1].long())[:, None]
        nth_allowed = torch.searchsorted(rank, (choice - n_alone + 1).int())
        # Ids 0..Q-1 are the asked keys, in query order; the unasked ones follow.
        taken = torch.where(choice < n_alone, n_queries + choice, nth_allowed)
        key_id.scatter_(1, pair, taken)
    return key_id


def _shuffled_unasked(keys: Tensor, asked: Tensor, n_pairs: int) -> Tensor:
    """(B, P - Q) indices of the unasked pairs in uniformly random order."""
    index_bits = max(1, (n_pairs - 1).bit_length())
    index = torch.arange(n_pairs, device=keys.device)
    priority = draws(keys, _STREAM_ORDER, n_pairs) & ((1 << 62) - (1 << index_bits))
    priority |= index
    priority.scatter_(1, asked, 1 << 62)
    ordered = sort_rows(priority)[:, : n_pairs - asked.shape[1]]
    return ordered & ((1 << index_bits) - 1)
