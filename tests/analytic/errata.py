"""The stacked construction as printed in arXiv:2312.04927, appendix H, each slip by itself.

``python -m tests.analytic.errata`` prints what each printed form answers of the rows below.
Letters: N rows of a row of triples, c one-hot channels, t distances, R stacked rows.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.analytic.tasks import mqar
from zoology_bench.analytic import AnalyticBaseConv
from zoology_bench.data.batch import Batch
from zoology_bench.tasks.distance import Fixed

N_TRIPLES, CHANNELS, N_EXAMPLES = 8, 32, 150
GAPS = (1, 3, 2)
"""Triples between key and query; t distances use the first t, s = 3 g + 2."""
NOBODY = CHANNELS // 2 - 1
"""A key that is never written: what a query asks that has no earlier triple to ask about."""


@lru_cache(maxsize=8)
def triples(n_distances: int, *, repeated: bool = False, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of k v q and their answers, -1 where a query has none.

    Args:
        n_distances: how many of ``GAPS`` occur.
        repeated: draw keys with replacement from four, so that several writes match a query.
        seed: of the generator.

    Returns:
        (examples, N) tokens: keys below c / 2, values from there on; (examples, N / 3) answers.
    """
    generator = torch.Generator().manual_seed(seed)
    half = CHANNELS // 2
    tokens = torch.zeros(N_EXAMPLES, N_TRIPLES, 3, dtype=torch.int64)
    answers = torch.full((N_EXAMPLES, N_TRIPLES), -1)
    for row, answer in zip(tokens, answers, strict=True):
        keys = torch.randperm(half - 1, generator=generator)[:N_TRIPLES]
        if repeated:
            keys = torch.randint(4, (N_TRIPLES,), generator=generator)
        row[:, 0] = keys
        row[:, 1] = half + torch.randperm(half, generator=generator)[:N_TRIPLES]
        row[:, 2] = NOBODY
        for i in range(N_TRIPLES):
            possible = [g for g in GAPS[:n_distances] if g <= i]
            if possible:
                g = possible[int(torch.randint(len(possible), (), generator=generator))]
                row[i, 2], answer[i] = row[i - g, 0], row[i - g, 1]
    return tokens.flatten(1), answers


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How the t blocks are stacked; the defaults are the corrected form, for N = 24."""

    block: int = 2 * 3 * N_TRIPLES
    """Rows of a block."""
    offset: int = 2 * 3 * N_TRIPLES
    """What each further block adds to its shift."""
    keys_in_last_block: bool = False
    swapped_kernel: bool = False
    """h^v made of h^k."""
    swapped_match: bool = False
    """y' = Q' * (h^V conv V)."""
    descending: bool = False
    """Blocks in the order of falling lags."""


N = 3 * N_TRIPLES
CORRECTED = Form()
PRINTED = {
    "block offset (l-1) N/3": Form(block=N, offset=N // 3),
    "block offset (l-1) N/3, lags descending": Form(block=N, offset=N // 3, descending=True),
    "blocks of N at offset N, lags descending": Form(block=N, offset=N, descending=True),
    "K and V in the last block": Form(keys_in_last_block=True),
    "h^v = sum of h^k": Form(swapped_kernel=True),
    "y' = Q' * (h^V conv V)": Form(swapped_match=True),
}
ASCENDING_REPAIR = Form(block=N, offset=N)


def outputs(tokens: Tensor, n_distances: int, form: Form) -> Tensor:
    """z_out (examples, N, c): what the stacked layers leave, summed over the blocks."""
    role = torch.arange(tokens.shape[1]) % 3
    u = F.one_hot(tokens, CHANNELS)
    k, v, q = (u * (role == r).long()[:, None] for r in range(3))
    lags = sorted((3 * g + 2 for g in GAPS[:n_distances]), reverse=form.descending)
    shifts = [lag + form.offset * block for block, lag in enumerate(lags)]
    values_at = shifts if form.swapped_kernel else [shift - 1 for shift in shifts]
    spare = form.block - tokens.shape[1]
    queries = torch.cat([F.pad(q, (0, 0, 0, spare))] * n_distances, dim=1)
    above = form.block * (n_distances - 1) if form.keys_in_last_block else 0
    below = queries.shape[1] - above - tokens.shape[1]
    keys, values = (F.pad(x, (0, 0, above, below)) for x in (k, v))
    matched = values if form.swapped_match else keys
    y = queries * _shifted(matched, values_at if form.swapped_match else shifts)
    smeared = y.sum(-1, keepdim=True).clamp(max=1)
    z = smeared * _shifted(values, values_at)
    return z.unflatten(1, (n_distances, form.block))[:, :, : tokens.shape[1]].sum(1)


def shift_form(tokens: Tensor, n_distances: int) -> Tensor:
    """z_out as t separate shifts: what the stack is meant to compute."""
    role = torch.arange(tokens.shape[1]) % 3
    u = F.one_hot(tokens, CHANNELS)
    k, v, q = (u * (role == r).long()[:, None] for r in range(3))
    blocks = [
        (q * _shifted(k, [3 * g + 2])).sum(-1, keepdim=True) * _shifted(v, [3 * g + 1])
        for g in GAPS[:n_distances]
    ]
    return torch.stack(blocks).sum(0)


def accuracy(tokens: Tensor, answers: Tensor, z: Tensor) -> float:
    """Share of the answered queries where z holds the answer and nothing else beside it."""
    out = z[:, 2::3]
    asked = answers >= 0
    return (out == F.one_hot(answers.clamp(min=0), CHANNELS)).all(-1)[asked].double().mean().item()


def printed_autocorrelation(n_distances: int) -> tuple[float, float]:
    """Share answered with lags from the rows' own autocorrelation and from query-key counts."""
    laws = {1: [20], 2: [20, 35], 4: [20, 35, 50, 65]}
    task = mqar("prefix", 128, 8, distance=Fixed(values=laws[n_distances]))
    batch = task.rows("report", 0, 0, 200)
    return (
        _share(AnalyticBaseConv.for_task(task, n_distances, "raw"), batch),
        _share(AnalyticBaseConv.for_task(task, n_distances, "cross"), batch),
    )


def _share(model: AnalyticBaseConv, batch: Batch) -> float:
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    return hits.double().mean().item()


def _shifted(x: Tensor, shifts: list[int]) -> Tensor:
    """x convolved with deltas at ``shifts``: rows that fall out below are lost."""
    rows = x.shape[1]
    return sum(
        (F.pad(x, (0, 0, s, 0))[:, :rows] for s in shifts if s < rows),
        start=torch.zeros_like(x),
    )


def table() -> str:
    """A Markdown table of every printed form."""
    lines = ["| form | t = 2 | t = 3 |", "|---|---|---|"]
    forms = {**PRINTED, "blocks of N at offset N, lags ascending": ASCENDING_REPAIR}
    for name, form in {**forms, "corrected": CORRECTED}.items():
        cells = []
        for t in (2, 3):
            tokens, answers = triples(t)
            cells.append(f"{accuracy(tokens, answers, outputs(tokens, t, form)):.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    corrected = replace(CORRECTED, descending=True)
    cells = [f"{accuracy(*triples(t), outputs(triples(t)[0], t, corrected)):.3f}" for t in (2, 3)]
    lines += [f"| corrected, lags descending | {' | '.join(cells)} |", ""]
    lines += ["| lags from | t = 1 | t = 2 | t = 4 |", "|---|---|---|---|"]
    shares = [printed_autocorrelation(t) for t in (1, 2, 4)]
    for i, name in enumerate(("the rows themselves (eq. 19)", "queries against keys")):
        lines.append(f"| {name} | {' | '.join(f'{share[i]:.3f}' for share in shares)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
