"""Linear attention and the delta rule as untrained memories of key and value codes.

Letters: B batch, T seq_len, Q queries, W pairs of a row, d = d_key, V vocab_size.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from zoology_bench.analytic.base import (
    NOTHING,
    AnalyticConfig,
    AnalyticModel,
    HasPublicLayout,
    Size,
)
from zoology_bench.analytic.memory_state import WRITES, key_table
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout
from zoology_bench.data.random import sort_rows
from zoology_bench.validation import check_int, check_name

KEYS = ("orthonormal", "random")
THRESHOLD = 0.5
"""An answer must exceed it, where the vocabulary has an absent token."""
TIE = 1e-5
"""Closer than this, two float32 read-outs are equal."""
MAX_CHUNK_BYTES = 128 << 20


@dataclass(kw_only=True, slots=True)
class _MemoryConfig(AnalyticConfig):
    d_key: int = 64
    """Dimension of the key codes, d_k."""
    keys: str = "orthonormal"
    """orthonormal (a random basis after each d_key keys), or random unit vectors."""
    key_seed: int = 0
    """Draws the key codes; no training seed changes them."""

    def __post_init__(self) -> None:
        check_int("model.d_key", self.d_key, 1)
        check_name("model.keys", self.keys, KEYS)
        check_int("model.key_seed", self.key_seed, 0, (1 << 63) - 1)

    @property
    def mixer_label(self) -> str:
        return f"{self.keys} keys d_k={self.d_key}"

    def build(self, layout: PublicLayout) -> "AnalyticMemory":
        generator = torch.Generator().manual_seed(self.key_seed)
        rule = self.name.removeprefix("analytic_")
        return AnalyticMemory(layout, rule, generator, d_key=self.d_key, keys=self.keys)


@dataclass(kw_only=True, slots=True)
class AnalyticLinearAttentionConfig(_MemoryConfig):
    """``S <- S + v k^T``; it learns nothing."""

    name: ClassVar[str] = "analytic_linear_attention"


@dataclass(kw_only=True, slots=True)
class AnalyticDeltaRuleConfig(_MemoryConfig):
    """``S <- S + (v - S k) k^T``; it learns nothing."""

    name: ClassVar[str] = "analytic_delta_rule"


class AnalyticMemory(AnalyticModel):
    """Writes pairs of key code and one-hot value into a matrix and reads it with the query's code.

    With orthonormal codes for all keys that a row uses (at most d_k of them) every read-out is
    exact: linear attention returns the sum of a key's values, so that a re-bound key is a tie and
    has no answer, the delta rule its last one. With more keys the reconstruction ``S k = v`` is no
    longer exact for all of them. Recall by argmax holds on: linear attention with unit codes and
    one-hot values recalls every key that was written once, at any load, since
    <k, k> = 1 > <k', k>; it is the state that grows, with d_k times the number of values.

    Where the vocabulary has an absent token, an answer must exceed 1/2.

    Args:
        layout: the task's public description; never answers or key positions.
        rule: one of ``WRITES``.
        generator: draws the key codes.
        d_key: d_k.
        keys: one of ``KEYS``.

    Raises:
        ValueError: an unknown rule or kind of keys, d_k < 1, or a layout without roles.
    """

    def __init__(
        self,
        layout: PublicLayout,
        rule: str,
        generator: torch.Generator,
        *,
        d_key: int = 64,
        keys: str = "orthonormal",
    ) -> None:
        super().__init__(layout)
        check_name("rule", rule, WRITES)
        check_int("model.d_key", d_key, 1)
        check_name("model.keys", keys, KEYS)
        self.rule = rule
        self.d_key = d_key
        self.table = key_table(len(layout.vocabulary.keys), d_key, keys, generator)

    @classmethod
    def for_task(
        cls,
        task: HasPublicLayout,
        rule: str,
        generator: torch.Generator,
        *,
        d_key: int = 64,
        keys: str = "orthonormal",
    ) -> "AnalyticMemory":
        """Bind the construction to a task, of which it sees the public layout alone."""
        return cls(task.public_layout(), rule, generator, d_key=d_key, keys=keys)

    def codes(self, tokens: Tensor) -> Tensor:
        """Key codes (..., d) of tokens (...); zero where a token is no key."""
        vocabulary = self.layout.vocabulary
        index = (tokens - vocabulary.keys.start).clamp(0, len(vocabulary.keys) - 1)
        table = self.table.to(tokens.device)
        return table[index] * vocabulary.is_key(tokens)[..., None]

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits (B, Q, V), float32: ``S q`` on the values, 1/2 on the absent token."""
        self.check_tokens(tokens)
        vocabulary = self.layout.vocabulary
        at = torch.arange(tokens.shape[1], device=tokens.device)
        written = self.layout.written(tokens)
        n_pairs = max(1, int(written.sum(1).max()))
        order = sort_rows(torch.where(written, at, tokens.shape[1]))[:, :n_pairs]
        exists = order < tokens.shape[1]
        order = order.clamp(max=tokens.shape[1] - 1)
        codes = self.codes(tokens.gather(1, order)) * exists[..., None]
        asked = self.codes(tokens.gather(1, positions))
        # A pair is written when its value has been read, one position after its key.
        seen = exists[:, None] & (order[:, None] < positions[..., None])
        scores = torch.einsum("bqd,bwd->bqw", asked, codes) * seen
        if self.rule == "delta_rule":
            scores = _through_later_writes(codes, scores)
        values = tokens.gather(1, (order + 1).clamp(max=tokens.shape[1] - 1))
        logits = scores.new_zeros(*positions.shape, vocabulary.size)
        logits.scatter_add_(2, values[:, None].expand_as(scores).contiguous(), scores * seen)
        if vocabulary.absent is not None:
            logits[..., vocabulary.absent] = THRESHOLD
        return logits

    @torch.no_grad()
    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(B, Q) int64 answers at ``positions`` (B, Q) of ``tokens`` (B, T); -1 for none or a tie.

        Raises:
            ValueError: tokens outside the vocabulary.
        """
        width = self.layout.vocabulary.size + 4 * tokens.shape[1]
        n_rows = max(1, MAX_CHUNK_BYTES // (4 * max(1, positions.shape[1]) * width))
        return torch.cat(
            [
                _clear_answers(self(t, p))
                for t, p in zip(tokens.split(n_rows), positions.split(n_rows), strict=True)
            ]
        )

    def covered(self, batch: Batch) -> Tensor:
        """(B, Q) bool, backwards through the writes in float64: exact for these codes.

        ``S q`` after writes 1..n is ``sum v_t w_t`` with ``w_t = <k_t, r>``; r is q for linear
        attention, and for the delta rule loses its part along k_t at each write passed.
        """
        written = self.layout.written(batch.inputs)
        table = self.table.double().numpy()
        table = table / np.linalg.norm(table, axis=1, keepdims=True)
        first = self.layout.vocabulary.keys.start
        rows = []
        for tokens, mask, queries, keys in zip(
            batch.inputs.tolist(),
            written,
            batch.query_pos.tolist(),
            batch.key_pos.tolist(),
            strict=True,
        ):
            places = torch.nonzero(mask)[:, 0].tolist()
            codes = {i: table[tokens[i] - first] for i in places}
            rows.append(
                [
                    self._wins(codes, table[tokens[query] - first], query, key)
                    for query, key in zip(queries, keys, strict=True)
                ]
            )
        return torch.tensor(rows, device=batch.inputs.device)

    def _wins(self, codes: dict[int, np.ndarray], query: np.ndarray, at: int, key: int) -> bool:
        weights = {}
        for place in sorted((i for i in codes if i < at), reverse=True):
            weights[place] = float(codes[place] @ query)
            if self.rule == "delta_rule":
                query = query - weights[place] * codes[place]
        own = THRESHOLD if key < 0 else weights.pop(key)
        rivals = list(weights.values())
        if key >= 0:
            rivals.append(0.0 if self.layout.vocabulary.absent is None else THRESHOLD)
        return own > max(rivals, default=-1.0) + TIE

    def init_state(self, batch_size: int) -> dict[str, Tensor]:
        """An empty memory and no previous token."""
        values = len(self.layout.vocabulary.values)
        return {
            "memory": torch.zeros(batch_size, values, self.d_key),
            "previous": torch.full((batch_size,), -1),
        }

    def step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits (B, V) after reading one token (B,) each, and the next state."""
        vocabulary = self.layout.vocabulary
        n_values = len(vocabulary.values)
        keys = self.codes(state["previous"])
        index = (tokens - vocabulary.values.start).clamp(0, n_values - 1)
        is_value = vocabulary.is_value(tokens)[:, None]
        keys = keys * is_value
        values = torch.nn.functional.one_hot(index, n_values) * is_value
        is_pair = keys.any(1, keepdim=True)
        memory = WRITES[self.rule](state["memory"], keys, (values * is_pair).float())
        read = torch.einsum("bvk,bk->bv", memory, self.codes(tokens))
        logits = read.new_zeros(len(tokens), vocabulary.size)
        logits[:, vocabulary.values.start : vocabulary.values.stop] = read
        if vocabulary.absent is not None:
            logits[:, vocabulary.absent] = THRESHOLD
        return logits, {"memory": memory, "previous": tokens.clone()}

    def size(self) -> Size:
        """The key codes; values are one-hot. A shift to the previous token, then the memory."""
        n_keys, n_values = len(self.layout.vocabulary.keys), len(self.layout.vocabulary.values)
        return Size(depth=2, width=max(self.d_key, n_values), n_params=n_keys * self.d_key)

    def state_bytes(self, seq_len: int) -> int:
        """The memory in float32 and the previous token, at any length."""
        return 4 * len(self.layout.vocabulary.values) * self.d_key + 8


def _through_later_writes(codes: Tensor, scores: Tensor) -> Tensor:
    """Weights of the delta rule's pairs from the products of their codes with the queries'.

    The rows of S are sums of corrected values u: ``S q = sum_j u_j <k_j, q>``, and the writes read
    ``u_j + sum over i < j of <k_j, k_i> u_i = v_j``: U = M^-1 V with M unit lower triangular. The
    weight of v_i is column i of ``<k, q> M^-1``; pairs that a query has not seen have score 0.

    Args:
        codes: (B, W, d) in the order of writing.
        scores: (B, Q, W).
    """
    gram = torch.einsum("bwd,bxd->bwx", codes, codes).tril(-1)
    lower = gram + torch.eye(gram.shape[1], device=gram.device)
    return torch.linalg.solve_triangular(lower, scores, upper=False, left=False, unitriangular=True)


def _clear_answers(logits: Tensor) -> Tensor:
    best = logits.topk(2, dim=-1)
    clear = best.values[..., 0] > best.values[..., 1] + TIE
    return torch.where(clear, best.indices[..., 0], NOTHING)
