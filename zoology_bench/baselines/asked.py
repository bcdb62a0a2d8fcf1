"""Which pair, in row order, does the i-th asked key belong to? Exact, re-bound keys included."""

from math import comb

import numpy as np


def asked_law(n_pairs: int, n_rebound: int, n_queries: int) -> np.ndarray:
    """Probability that the i-th asked pair, asked pairs taken in row order, is pair k.

    The asked pairs are a uniform subset of the last writes, one for each distinct key. A uniform
    subset of the pairs 1..P-1 re-binds; each takes over a key uniformly among those written so far.

    Args:
        n_pairs: P.
        n_rebound: R < P pairs that re-bind a key.
        n_queries: Q <= P - R.

    Returns:
        (Q, P) float64; rows sum to one. The column sums over Q are the chance that a query asks
        the pair, which is below 1/P for early pairs once keys re-bind.
    """
    n_keys = n_pairs - n_rebound
    chosen = np.array(
        [
            [comb(m, i) * comb(n_keys - 1 - m, n_queries - 1 - i) for m in range(n_keys)]
            for i in range(n_queries)
        ],
        dtype=object,
    ) / comb(n_keys, n_queries)
    return chosen.astype(np.float64) @ _last_write_law(n_pairs, n_rebound)


def _last_write_law(n_pairs: int, n_rebound: int) -> np.ndarray:
    """(P - R, P) probability that the m-th last write in row order is pair k.

    Keep the distinct keys listed by their last write. A new key joins the list at its end; a
    re-binding moves a uniformly chosen key to the end. Pair k joins at the end, too; from then on
    it leaves when its own key is chosen and moves up when one before it is.
    """
    # alive[r, k, m]: r pairs have re-bound so far, pair k is a last write, m are listed before it.
    alive = np.zeros((n_rebound + 1, n_pairs, n_pairs))
    n_done = np.zeros(n_rebound + 1)
    n_done[0] = 1.0
    for pair in range(n_pairs):
        highest = min(pair, n_rebound)
        for r in range(highest, -1, -1):
            # Downwards in r: what re-binds at r has left before r - 1 moves in.
            rebinds = min(1.0, (n_rebound - r) / (n_pairs - pair)) if pair else 0.0
            _rebind(alive, r, pair, rebinds)
            alive[r, :pair, :pair] *= 1 - rebinds
            if r < n_rebound:
                n_done[r + 1] += n_done[r] * rebinds
            n_done[r] *= 1 - rebinds
        for r in range(min(pair, n_rebound) + 1):
            alive[r, pair, pair - r] = n_done[r]
    return alive[n_rebound, :, : n_pairs - n_rebound].T


def _rebind(alive: np.ndarray, r: int, pair: int, probability: float) -> None:
    """Move the share of state r in which this pair takes over one of its pair - r keys to r + 1."""
    n_keys = pair - r
    if r + 1 == len(alive) or n_keys < 1:
        return
    place = np.arange(n_keys)
    listed = alive[r, :pair, :n_keys] * probability
    alive[r + 1, :pair, :n_keys] += listed * ((n_keys - 1 - place) / n_keys)
    alive[r + 1, :pair, : n_keys - 1] += (listed * (place / n_keys))[:, 1:]
