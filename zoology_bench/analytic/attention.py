"""Analytic attention: Proposition 4.3 of arXiv:2312.04927 on triples, two layers on other rows.

Letters: B batch, T seq_len, Q queries, W pairs of a row, V vocab_size.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from zoology_bench.analytic.attention_layers import (
    SINK,
    TriplesAttention,
    TwoLayerAttention,
    needed_gap,
)
from zoology_bench.analytic.base import (
    NOTHING,
    AnalyticConfig,
    AnalyticModel,
    HasPublicLayout,
    Size,
)
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout
from zoology_bench.validation import check_name

FORMS = ("two_layer", "triples")
READ_OUTS = ("linear", "softmax")
IMPLEMENTATIONS = ("literal", "token")
MAX_CHUNK_BYTES = 128 << 20
MAX_ENTRIES = 1 << 24
"""Most weights of the literal form."""


@dataclass(kw_only=True, slots=True)
class AnalyticAttentionConfig(AnalyticConfig):
    """Configuration of the construction; it learns nothing."""

    name: ClassVar[str] = "analytic_attention"

    form: str = "two_layer"
    """two_layer (any layout), or triples: rows are whole triples (layout triples alone)."""
    read_out: str = "linear"
    """linear: without softmax, as the proposition; softmax: at a finite temperature."""
    score_gap: float | None = None
    """Score of a match over a mismatch under softmax; null: what fp32 needs at this length."""
    implementation: str = "token"
    """token, or literal: dense matrices, small vocabularies."""

    def __post_init__(self) -> None:
        check_name("model.form", self.form, FORMS)
        check_name("model.read_out", self.read_out, READ_OUTS)
        check_name("model.implementation", self.implementation, IMPLEMENTATIONS)
        _check_gap(self.score_gap, self.read_out)

    @property
    def mixer_label(self) -> str:
        return f"{self.form} {self.read_out}"

    def build(self, layout: PublicLayout) -> "AnalyticAttention":
        return AnalyticAttention(
            layout,
            form=self.form,
            read_out=self.read_out,
            score_gap=self.score_gap,
            implementation=self.implementation,
        )


class AnalyticAttention(AnalyticModel):
    """Answers every query whose key was written once, at any distance; causal.

    A key written several times gives every one of its values the same mass: the value written most
    often wins, and between equals there is no answer (-1), for nothing in the scores tells an
    earlier write from a later one. So a re-bound key, whose values differ, is missed.
    Where nothing matches the sink wins: the absent token, or no answer.

    Args:
        layout: the task's public description; never answers or key positions.
        form: one of ``FORMS``.
        read_out: one of ``READ_OUTS``.
        score_gap: see ``needed_gap``, whose value for fp32 and T equal values is the default.
        implementation: one of ``IMPLEMENTATIONS``.

    Raises:
        ValueError: an unknown name, form=triples on another layout, a gap that is not positive or
            that has no softmax, weights beyond ``MAX_ENTRIES``, or a layout without roles.
    """

    def __init__(
        self,
        layout: PublicLayout,
        *,
        form: str = "two_layer",
        read_out: str = "linear",
        score_gap: float | None = None,
        implementation: str = "token",
    ) -> None:
        super().__init__(layout)
        check_name("model.form", form, FORMS)
        check_name("model.read_out", read_out, READ_OUTS)
        check_name("model.implementation", implementation, IMPLEMENTATIONS)
        _check_gap(score_gap, read_out)
        if form == "triples" and layout.name != "triples":
            raise ValueError(
                f"model.form=triples needs task.layout=triples, not {layout.name}: use two_layer"
            )
        self.form = form
        self.implementation = implementation
        self.gap = None
        if read_out == "softmax":
            self.gap = score_gap or needed_gap(layout.seq_len, torch.float32)
        if implementation == "literal" and self.size().n_params > MAX_ENTRIES:
            raise ValueError(
                f"model.implementation=literal holds {self.size().n_params} weights for "
                f"task.vocab_size={layout.vocabulary.size} and task.seq_len={layout.seq_len}, "
                f"more than {MAX_ENTRIES}: use token"
            )

    @classmethod
    def for_task(
        cls,
        task: HasPublicLayout,
        *,
        form: str = "two_layer",
        read_out: str = "linear",
        score_gap: float | None = None,
        implementation: str = "token",
    ) -> "AnalyticAttention":
        """Bind the construction to a task, of which it sees the public layout alone."""
        return cls(
            task.public_layout(),
            form=form,
            read_out=read_out,
            score_gap=score_gap,
            implementation=implementation,
        )

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits (B, Q, V) in float64: masses of the values, and of the sink at the absent token.

        Without an absent token the sink's mass is a threshold, below which logits are zero.
        """
        self.check_tokens(tokens)
        mass, sink = (self._literal if self.implementation == "literal" else self._counted)(
            tokens, positions
        )
        absent = self.layout.vocabulary.absent
        if absent is None:
            return torch.where(mass > sink[..., None], mass, 0)
        mass[..., absent] += sink
        return mass

    @torch.no_grad()
    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(B, Q) int64 answers at ``positions`` (B, Q) of ``tokens`` (B, T); -1 for none or a tie.

        O(T + V) per query, in chunks of rows of bounded memory.

        Raises:
            ValueError: tokens outside the vocabulary.
        """
        width = max(self.layout.vocabulary.size, tokens.shape[1])
        n_rows = max(1, MAX_CHUNK_BYTES // (4 * 8 * max(1, positions.shape[1]) * width))
        parts = []
        for t, p in zip(tokens.split(n_rows), positions.split(n_rows), strict=True):
            best = self(t, p).topk(2, dim=-1)
            clear = best.values[..., 0] > best.values[..., 1]
            parts.append(torch.where(clear, best.indices[..., 0], NOTHING))
        return torch.cat(parts)

    def covered(self, batch: Batch) -> Tensor:
        """(B, Q) bool: the answer outweighs every other value and the sink, write by write."""
        rows = []
        for tokens, queries, answers in zip(
            batch.inputs.tolist(), batch.query_pos.tolist(), batch.answers.tolist(), strict=True
        ):
            is_key = [t in self.layout.vocabulary.keys for t in tokens]
            is_value = [t in self.layout.vocabulary.values for t in tokens]
            pairs = [
                (i, tokens[i], tokens[i + 1])
                for i in range(len(tokens) - 1)
                if is_key[i] and is_value[i + 1]
            ]
            rows.append(
                [self._wins(pairs, tokens[q], q, a) for q, a in zip(queries, answers, strict=True)]
            )
        return torch.tensor(rows, device=batch.inputs.device)

    def _wins(self, pairs: list[tuple[int, int, int]], key: int, at: int, answer: int) -> bool:
        # In units of a match's mass.
        other = 0.0 if self.gap is None else math.exp(-self.gap)
        mass: defaultdict[int, float] = defaultdict(float)
        for position, written, value in pairs:
            if position < at:
                mass[value] += 1.0 if written == key else other
        mass[self.nothing] += SINK if self.gap is None else math.exp(-self.gap / 2)
        own = mass.pop(answer, 0.0)
        return own > max(mass.values(), default=0.0)

    def size(self) -> Size:
        """O(c^2): 9 c^2 on triples; 7 c^2 + 2 T^2 in two layers, of which 2 T^2 are the shift."""
        c, t = self.layout.vocabulary.size, self.layout.seq_len
        if self.form == "triples":
            return Size(depth=1, width=3 * c, n_params=9 * c * c)
        return Size(depth=2, width=2 * c, n_params=7 * c * c + 2 * t * t)

    def _literal(self, tokens: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        vocabulary = self.layout.vocabulary
        if self.form == "triples":
            mass, sink = TriplesAttention.of(vocabulary, torch.float64)(tokens, self.gap)
            at = positions.div(3, rounding_mode="floor")
        else:
            layers = TwoLayerAttention.of(vocabulary, tokens.shape[1], torch.float64)
            mass, sink = layers(tokens, self.gap)
            at = positions
        index = at[..., None].expand(-1, -1, mass.shape[-1])
        return mass.gather(1, index), sink.gather(1, at)

    def _counted(self, tokens: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Masses (B, Q, V) by counting pairs, in units of a match's mass, and the sink's (B, Q)."""
        query = tokens.gather(1, positions)
        if self.form == "triples":
            keys, values = tokens[:, 0::3], tokens[:, 1::3]
            pair = torch.ones_like(keys, dtype=torch.bool)
            starts = torch.arange(0, tokens.shape[1], 3, device=tokens.device)
            seen = starts < positions[..., None].div(3, rounding_mode="floor") * 3
        else:
            vocabulary = self.layout.vocabulary
            values, pair = tokens, vocabulary.is_value(tokens)
            keys = torch.where(vocabulary.is_key(tokens), tokens, -1)
            keys = F.pad(keys[:, :-1], (1, 0), value=-1)
            query = torch.where(vocabulary.is_key(query), query, -2)
            seen = torch.arange(tokens.shape[1], device=tokens.device) <= positions[..., None]
        seen = seen & pair[:, None]
        match = seen & (keys[:, None] == query[..., None])
        other = 0.0 if self.gap is None else math.exp(-self.gap)
        weight = match.double() + (seen & ~match).double() * other
        mass = torch.zeros(
            (*positions.shape, self.layout.vocabulary.size),
            dtype=torch.float64,
            device=tokens.device,
        )
        mass.scatter_add_(2, values[:, None].expand_as(weight), weight)
        sink = SINK if self.gap is None else math.exp(-self.gap / 2)
        return mass, torch.full_like(mass[..., 0], sink)


def _check_gap(score_gap: float | None, read_out: str) -> None:
    if score_gap is None:
        return
    if read_out == "linear":
        raise ValueError(f"model.score_gap={score_gap} needs model.read_out=softmax")
    if not score_gap > 0 or math.isinf(score_gap):
        raise ValueError(f"model.score_gap={score_gap} must be positive and finite")
