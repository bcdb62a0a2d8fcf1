"""Recall by one kernel that holds every lag, compiled to the same layers: what the circuit beats.

The corollary of Theorem 4.5 of arXiv:2312.04927 without looking at the input: on key-value-query
triples a query stands s = 3g + 2 rows below its key, g = 1..n - 1, so that all J = n - 1 lags fit
into one filter over J stacked blocks. Five layers, width 3c, and parameters that grow like N^2 c.
Exact for distinct keys; where a key was written twice its values add up.
"""

import numpy as np

from zoology_bench.analytic.circuit.program import (
    Channel,
    Program,
    Rows,
    constant,
    keep,
    read,
    total,
)


def every_lag_program(n_triples: int, vocab_size: int) -> Program:
    """Layers for one-hot rows of n triples; answers are one-hot in the last block's query rows.

    Blocks have 2N rows, so that nothing shifted out of one reaches the rows of another that are
    read, whatever the order of the lags.

    Args:
        n_triples: n >= 2.
        vocab_size: c.
    """
    seq_len, n_lags = 3 * n_triples, n_triples - 1
    tokens = range(vocab_size)
    blocks = [2 * seq_len * block for block in range(n_lags)]
    lags = [3 * (block + 1) + 2 for block in range(n_lags)]
    program = Program(2 * seq_len * n_lags, [f"in{v}" for v in tokens], cyclic=False)
    # Role of every row of the first block, and the last block's query rows.
    key, value, query, answers = _masks(program.n_rows, seq_len)
    roles = (("key", key), ("value", value), ("query", query))
    program.emit("roles", [keep(f"{r}{v}", read(f"in{v}"), m) for r, m in roles for v in tokens])
    moves = {
        "key": [block + lag for block, lag in zip(blocks, lags, strict=True)],
        "value": [block + lag - 1 for block, lag in zip(blocks, lags, strict=True)],
        "query": blocks,
    }
    program.emit(
        "shift",
        [
            Channel(f"{role}{v}", constant(1.0), read(f"{role}{v}").down(*shifts))
            for role, shifts in moves.items()
            for v in tokens
        ],
    )
    program.emit(
        "compare",
        [
            *(Channel(f"match{v}", read(f"query{v}"), read(f"key{v}")) for v in tokens),
            *(keep(f"value{v}", read(f"value{v}")) for v in tokens),
        ],
    )
    matched = total(read(f"match{v}") for v in tokens)
    program.emit("copy", [Channel(f"value{v}", matched, read(f"value{v}")) for v in tokens])
    summed = [read(f"value{v}").down(*blocks) for v in tokens]
    program.emit("sum", [Channel(f"value{v}", constant(answers), summed[v]) for v in tokens])
    return program


def _masks(n_rows: int, seq_len: int) -> tuple[Rows, ...]:
    """Rows of keys, values and queries in the first block, and of queries in the last."""
    masks = np.zeros((4, n_rows), dtype=np.float32)
    for role in range(3):
        masks[role, role:seq_len:3] = 1
    last = n_rows - 2 * seq_len
    masks[3, last + 2 : last + seq_len : 3] = 1
    return tuple(masks)
