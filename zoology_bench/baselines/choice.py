"""What a guesser does with its beliefs: name the likeliest answer, chosen evenly among equals."""

import numpy as np

_TIE = 1e-9
"""Relative difference below which two answers count as equally likely."""


def with_absent(pair_probability: np.ndarray, absent_share: float) -> np.ndarray:
    """(..., P + 1): beliefs over the P pairs and, last, over "the key was never written".

    Args:
        pair_probability: (..., P) were the key present.
        absent_share: share of the queries whose key is absent; positions do not tell which.
    """
    absent = np.full((*pair_probability.shape[:-1], 1), absent_share)
    return np.concatenate([pair_probability * (1 - absent_share), absent], axis=-1)


def named(beliefs: np.ndarray) -> np.ndarray:
    """(..., P + 1) chance that each answer is the one named: 1/k for each of the k best."""
    best = beliefs >= beliefs.max(axis=-1, keepdims=True) * (1 - _TIE)
    return best / best.sum(axis=-1, keepdims=True)
