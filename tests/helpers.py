"""Slow, independent oracles that several rooms' tests and the benches share."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import chi2

from zoology_bench.tasks.distance import LawTable

IGNORE = -100
N_DRAWS = 200_000
"""Draws of a test of a law."""
MIN_P = 1e-3
"""A law counts as missed below this p-value."""
MIN_EXPECTED = 20
"""Smallest expected count of a chi-square bin."""


def official_rows(
    rng: np.random.Generator,
    n: int,
    *,
    vocab_size: int,
    seq_len: int,
    n_kv_pairs: int,
    power_a: float = 0.01,
    random_filler: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the published generator's law, one at a time: what anybody would write first.

    Returns:
        inputs (n, T) and targets (n, T), int64.
    """
    half = vocab_size // 2
    n_slots = (seq_len - 2 * n_kv_pairs) // 2
    weight = np.arange(1, n_slots + 1) ** (power_a - 1.0)
    weight /= weight.sum()
    inputs = np.zeros((n, seq_len), np.int64)
    targets = np.full((n, seq_len), IGNORE, np.int64)
    for row in range(n):
        keys = rng.choice(half - 1, n_kv_pairs, replace=False) + 1
        values = rng.choice(vocab_size - half, n_kv_pairs, replace=False) + half
        slots = rng.choice(n_slots, n_kv_pairs, replace=False, p=weight)
        if random_filler:
            inputs[row] = rng.integers(0, vocab_size, seq_len)
        query_pos = 2 * n_kv_pairs + 2 * slots
        inputs[row, 0 : 2 * n_kv_pairs : 2] = keys
        inputs[row, 1 : 2 * n_kv_pairs : 2] = values
        inputs[row, query_pos] = keys
        targets[row, query_pos] = values
    return inputs, targets


@dataclass(frozen=True)
class Write:
    """One written pair of a row."""

    position: int
    key: int
    value: int


def writes_of(tokens: list[int], layout: str, vocabulary, n_kv_pairs: int) -> list[Write]:
    """The pairs a row writes, in order of position, from the published formats alone.

    official and prefix: the first 2P tokens are key, value, key, value ...; triples: every third
    token from 0 is a written key; stream and probe: a key token right before a value token.
    """
    if layout in ("official", "prefix"):
        starts = range(0, 2 * n_kv_pairs, 2)
    elif layout == "triples":
        starts = range(0, len(tokens), 3)
    else:
        starts = [
            t
            for t in range(len(tokens) - 1)
            if tokens[t] in vocabulary.keys and tokens[t + 1] in vocabulary.values
        ]
    return [Write(t, tokens[t], tokens[t + 1]) for t in starts]


def answer(tokens: list[int], position: int, writes: list[Write], absent: int | None) -> int | None:
    """The value that the token at ``position`` was last given before it; ``absent`` if never."""
    for write in reversed(writes):
        if write.position < position and write.key == tokens[position]:
            return write.value
    return absent


def expected_targets(tokens: list[int], query_pos: list[int], task) -> list[int | None]:
    """One row's targets, derived from its tokens and from where it asks."""
    writes = writes_of(tokens, task.layout, task.vocabulary, task.n_kv_pairs)
    targets: list[int | None] = [IGNORE] * len(tokens)
    for position in query_pos:
        targets[position] = answer(tokens, position, writes, task.vocabulary.absent)
    return targets


def expected_locations(
    tokens: list[int], query_pos: list[int], task
) -> tuple[list[int], list[int]]:
    """One row's key_pos and binding_distance, derived from its tokens; -1 where absent."""
    writes = writes_of(tokens, task.layout, task.vocabulary, task.n_kv_pairs)
    key_pos, binding = [], []
    for position in query_pos:
        before = [write for write in writes if write.position < position]
        same = [i for i, write in enumerate(before) if write.key == tokens[position]]
        key_pos.append(before[same[-1]].position if same else -1)
        binding.append(len(before) - 1 - same[-1] if same else -1)
    return key_pos, binding


def chi_square_p(observed: np.ndarray, expected: np.ndarray) -> float:
    """p-value of counts against expected counts; neighbouring bins merge until 20 are expected."""
    merged_observed, merged_expected = [0.0], [0.0]
    for count, mean in zip(observed, expected, strict=True):
        if merged_expected[-1] >= MIN_EXPECTED:
            merged_observed.append(0.0)
            merged_expected.append(0.0)
        merged_observed[-1] += count
        merged_expected[-1] += mean
    if len(merged_expected) > 1 and merged_expected[-1] < MIN_EXPECTED:
        merged_observed[-2] += merged_observed.pop()
        merged_expected[-2] += merged_expected.pop()
    deviation = np.subtract(merged_observed, merged_expected) ** 2 / merged_expected
    return float(chi2.sf(deviation.sum(), len(merged_expected) - 1))


def law_p_value(drawn: np.ndarray, law: LawTable) -> float:
    """p-value of integers drawn from a law; all must lie on its support."""
    observed = np.bincount(drawn.ravel(), minlength=law.support[-1] + 1)[law.support]
    assert observed.sum() == drawn.size, "a distance off the support"
    return chi_square_p(observed, law.probabilities * drawn.size)


def joint_p_value(columns: list[np.ndarray], laws: list[LawTable]) -> float:
    """p-value of independent columns, each with its law, by the counts of all combinations."""
    combos = list(product(*(law.support.tolist() for law in laws)))
    chances = [dict(zip(law.support.tolist(), law.probabilities, strict=True)) for law in laws]
    expected = [np.prod([p[v] for p, v in zip(chances, values, strict=True)]) for values in combos]
    rows = np.stack(columns, 1)
    return chi_square_p(count_tuples(rows, combos), np.array(expected) * len(rows))


def count_tuples(rows: np.ndarray, tuples: list[tuple[int, ...]]) -> np.ndarray:
    """How often each tuple occurs among the rows (n, k) of small integers; all must be listed."""
    base = int(rows.max()) + 1 + max(max(t) for t in tuples)
    power = base ** np.arange(rows.shape[1])
    counts = np.bincount(rows.astype(np.int64) @ power)
    codes = np.array(tuples) @ power
    listed = np.array([counts[code] if code < len(counts) else 0 for code in codes])
    assert listed.sum() == len(rows), "a row is none of the tuples"
    return listed


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Holm's adjustment: compare each result with one level, however many tests there are."""
    adjusted, running = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        running = max(running, min(1.0, p_values[name] * (len(p_values) - rank)))
        adjusted[name] = running
    return adjusted
