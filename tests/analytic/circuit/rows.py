"""Rows of triples and the answers that a reader of them would give."""

import torch
from torch import Tensor

VARIANTS = [(causal, route) for causal in (True, False) for route in ("swaps", "sort")]
IDS = [f"{'padded' if causal else 'cyclic'}-{route}" for causal, route in VARIANTS]


def last_write_wins(tokens: Tensor) -> Tensor:
    """(B, n): the value of the last earlier triple whose key is the query; -1 for none."""
    answers = []
    for row in tokens.tolist():
        written: dict[int, int] = {}
        for key, value, query in zip(row[0::3], row[1::3], row[2::3], strict=True):
            answers.append(written.get(query, -1))
            written[key] = value
    return torch.tensor(answers).reshape(len(tokens), -1)


def all_rows(n_triples: int, vocab_size: int) -> Tensor:
    """Every row of 3n tokens."""
    return torch.cartesian_prod(*[torch.arange(vocab_size)] * (3 * n_triples))


def random_rows(n_rows: int, n_triples: int, vocab_size: int, *, n_keys: int, seed: int) -> Tensor:
    """Values from the whole vocabulary, keys and queries from its first ``n_keys`` tokens."""
    generator = torch.Generator().manual_seed(seed)
    high = torch.tensor([n_keys, vocab_size, n_keys]).repeat(n_triples)
    draws = torch.rand(n_rows, 3 * n_triples, generator=generator)
    return (draws * high).long()


def distinct_rows(n_rows: int, n_triples: int, vocab_size: int, *, seed: int) -> Tensor:
    """Keys are distinct within a row; every query asks an earlier key, the first one its own."""
    generator = torch.Generator().manual_seed(seed)
    rows = random_rows(n_rows, n_triples, vocab_size, n_keys=vocab_size, seed=seed + 1)
    for row in rows:
        row[0::3] = torch.randperm(vocab_size, generator=generator)[:n_triples]
        for i in range(n_triples):
            asked = int(torch.randint(0, max(i, 1), (), generator=generator))
            row[3 * i + 2] = row[3 * asked]
    return rows


def one_key_many_queries(n_triples: int, vocab_size: int) -> Tensor:
    """Only the first key is ever asked, by every later query: the longest way for a copy."""
    row = torch.zeros(3 * n_triples, dtype=torch.int64)
    row[0::3] = torch.arange(n_triples) % (vocab_size - 1) + 1
    row[1::3] = torch.arange(n_triples) * 5 % vocab_size
    row[2::3] = row[0]
    # A later key that wraps round to the first token would be a second write.
    row[3::3][row[3::3] == row[0]] = 0
    return row[None]
