"""Guessers fitted to rows, to catch what a faulty generator leaks: they know no law."""

import numpy as np


def cross_fitted_hits(fact: np.ndarray, answer: np.ndarray, n_facts: int) -> np.ndarray:
    """(n, Q) share of hits of "the answer most often seen with this fact", never fitted on own row.

    Each half of the rows is guessed by what the other half shows. Facts not seen there, and ties,
    score the even share of the answers that are most frequent overall.

    Args:
        fact: (n, Q) integers in 0..n_facts-1 that a guesser may look at.
        answer: (n, Q) integers.
        n_facts: number of facts.
    """
    n_answers = int(answer.max()) + 1
    hits = np.empty(fact.shape)
    for fold in (0, 1):
        seen, asked = slice(1 - fold, None, 2), slice(fold, None, 2)
        cell = fact[seen].astype(np.int64) * n_answers + answer[seen]
        counts = np.bincount(cell.ravel(), minlength=n_facts * n_answers)
        counts = counts.reshape(n_facts, n_answers).astype(np.float64)
        # A last vote by overall frequency decides facts without sightings, and ties.
        counts += counts.sum(axis=0) / (counts.sum() + 1)
        best = counts == counts.max(axis=1, keepdims=True)
        share = best / best.sum(axis=1, keepdims=True)
        hits[asked] = share[fact[asked], answer[asked]]
    return hits
