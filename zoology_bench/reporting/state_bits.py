"""How many bits a model recalled, beside the bits its state can hold.

Where every pair is written before the first query, what is recalled later has to pass through the
state: a recurrent model needs Omega(N) bits for it (arXiv:2312.04927, appendix H.6; Theorem 3.1 of
arXiv:2402.18668). Fano's inequality turns an accuracy into bits: with n values equally likely and
error e, an answer carries at least ``log2 n - H(e) - e log2(n - 1)`` of them. More recalled bits
than state bits is impossible: an alarm for a leak in the task or a miscount of the state.

Only the layout official is judged: its values are exactly half the vocabulary, and its queries
follow all pairs.
"""

import math

import numpy as np
import pandas as pd

from zoology_bench.reporting import labels
from zoology_bench.reporting.tables import format_quantity, markdown_table

JUDGED_LAYOUT = "official"


def bits_per_answer(accuracy: float, n_values: int) -> float:
    """Least mutual information of an answer with its value, in bits, by Fano's inequality.

    Args:
        accuracy: share of right answers.
        n_values: equally likely values n; 2 or more.
    """
    if accuracy <= 1 / n_values:
        return 0.0
    error = 1 - accuracy
    entropy = sum(-p * math.log2(p) for p in (accuracy, error) if p > 0)
    return max(0.0, math.log2(n_values) - entropy - error * math.log2(n_values - 1))


def accuracy_bound(state_bits: float, n_queries: int, n_values: int) -> float:
    """Best accuracy that a state of so many bits allows: the inverse of Fano's bound.

    Args:
        state_bits: bits that survive between decode steps.
        n_queries: queries of a row, Q.
        n_values: equally likely values n.
    """
    budget = state_bits / n_queries
    if budget >= math.log2(n_values):
        return 1.0
    low, high = 1 / n_values, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if bits_per_answer(middle, n_values) <= budget else (low, middle)
    return low


def n_values(vocab_size: int, n_queries: int) -> int:
    """Values that the last answer of a row can still have, values being distinct in a row."""
    return vocab_size // 2 - n_queries + 1


def bound_curve(vocab_size: int, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """State sizes in bytes, and the best accuracy that each allows, up to a perfect one."""
    values = n_values(vocab_size, n_queries)
    size = np.geomspace(1 / 32, 1, 48) * n_queries * math.log2(values) / 8
    return size, np.array([accuracy_bound(8 * x, n_queries, values) for x in size])


def state_bits(summary: pd.DataFrame) -> pd.DataFrame:
    """Recalled and held bits of every line that has a state and can be judged.

    Args:
        summary: ``aggregate.summarise(frame)``.

    Returns:
        Those lines with recalled_bits (of a row's Q queries, at the lower end of the accuracy's
        interval), held_bits and alarm.
    """
    judged = summary.loc[
        (summary.layout == JUDGED_LAYOUT) & summary.state_bytes.notna() & summary.low.notna()
    ]
    recalled = [
        n_queries * bits_per_answer(low, n_values(vocab_size, n_queries))
        for low, n_queries, vocab_size in zip(
            judged.low, judged.n_queries, judged.vocab_size, strict=True
        )
    ]
    lines = judged.assign(
        recalled_bits=recalled, held_bits=8 * judged.state_bytes.astype("float64")
    )
    return lines.assign(alarm=lines.recalled_bits > lines.held_bits)


def state_markdown(summary: pd.DataFrame) -> str:
    """A section of table.md; empty where no line has a state that can be judged."""
    lines = state_bits(labels.named(summary))
    lines = lines.loc[lines.kind != "baseline"]
    if lines.empty:
        return ""
    shown = [
        [
            row["where"],
            format_quantity(row["recalled_bits"]),
            format_quantity(row["held_bits"]),
            "ALARM: a leak or a miscount" if row["alarm"] else "-",
        ]
        for row in lines.sort_values(["cell", "arm", "d_model"], kind="stable").to_dict("records")
    ]
    table = markdown_table(["model", "recalled bits, at least", "state bits", ""], shown)
    return (
        "## Recalled bits and state bits\n\nBits of a row's answers by Fano's inequality, from the "
        "lower end of each interval; no state can give back more than it holds. Layout "
        f"{JUDGED_LAYOUT} only.\n\n{table}"
    )
