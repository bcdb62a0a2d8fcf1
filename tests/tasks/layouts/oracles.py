"""What anybody would write first: stream and probe rows one at a time, from a shared generator.

The same laws as the layouts under test, by other means; also the yardstick of the benches.
"""

import numpy as np

IGNORE = -100


def stream_rows(task, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the stream layout's law, without re-binding and absent queries.

    Args:
        task: an MQAR task in layout stream with filler zero or disjoint.
        rng: shared by all rows.
        n: rows.

    Returns:
        inputs (n, T) and targets (n, T), int64.
    """
    law = task.placement.distances
    inputs, targets = _blank(task, rng, n)
    for row in range(n):
        distances = rng.choice(law.support, task.queries_per_row, p=law.probabilities)
        starts = None
        while starts is None:
            starts = _pack_stream(task, rng, distances.tolist())
        keys, values = _tokens(task, rng)
        at = np.array(starts)
        query_pos = at[: len(distances)] + distances
        inputs[row, at], inputs[row, at + 1] = keys, values
        inputs[row, query_pos] = keys[: len(distances)]
        targets[row, query_pos] = values[: len(distances)]
    return inputs, targets


def _pack_stream(task, rng: np.random.Generator, distances: list[int]) -> list[int] | None:
    """Starts of the asked pairs, then of the unasked ones; None where one finds no place."""
    free = [True] * task.seq_len
    starts = []
    for span in distances + [1] * (task.n_kv_pairs - len(distances)):
        for start in rng.integers(0, task.seq_len - span, 32).tolist():
            if free[start] and free[start + 1] and free[start + span]:
                break
        else:
            fits = [
                start
                for start in range(task.seq_len - span)
                if free[start] and free[start + 1] and free[start + span]
            ]
            if not fits:
                return None
            start = fits[rng.integers(len(fits))]
        free[start] = free[start + 1] = free[start + span] = False
        starts.append(start)
    return starts


def probe_rows(task, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the probe layout's law, without re-binding and absent queries.

    Arguments and returned arrays as in ``stream_rows``.
    """
    layout = task.placement
    distance_law, binding_law = layout.distances, layout.binding_distances
    n_pairs = task.n_kv_pairs
    first = distance_law.support[-1] + 2 * (n_pairs - 1 - binding_law.support[0])
    inputs, targets = _blank(task, rng, n)
    for row in range(n):
        distance = rng.choice(distance_law.support, p=distance_law.probabilities)
        inside = rng.choice(binding_law.support, p=binding_law.probabilities)
        query = rng.integers(first, task.seq_len)
        write, before = query - distance, n_pairs - 1 - inside
        left = _pairs_on(rng, before, write)
        right = write + 2 + _pairs_on(rng, inside, distance - 2)
        at = np.concatenate([left, [write], right])
        keys, values = _tokens(task, rng)
        inputs[row, at], inputs[row, at + 1] = keys, values
        inputs[row, query], targets[row, query] = keys[before], values[before]
    return inputs, targets


def _pairs_on(rng: np.random.Generator, n_pairs: int, n_cells: int) -> np.ndarray:
    """Starts of pairs on a stretch of cells, ascending, all ways equally likely."""
    items = rng.choice(n_cells - n_pairs, n_pairs, replace=False)
    items.sort()
    return items + np.arange(n_pairs)


def _blank(task, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    filler = task.vocabulary.filler
    if task.filler == "disjoint":
        inputs = rng.integers(filler.start, filler.stop, (n, task.seq_len))
    else:
        inputs = np.full((n, task.seq_len), task.vocabulary.blank, np.int64)
    return inputs, np.full((n, task.seq_len), IGNORE, np.int64)


def _tokens(task, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    keys, values = task.vocabulary.keys, task.vocabulary.values
    return (
        rng.choice(len(keys), task.n_kv_pairs, replace=False) + keys.start,
        rng.choice(len(values), task.n_kv_pairs, replace=False) + values.start,
    )
