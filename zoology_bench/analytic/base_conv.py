"""The analytic BaseConv of Theorem 4.5 (arXiv:2312.04927), in integers.

The theorem's layers on one-hot rows, ``y = Q * shift_down(K, s)``, ``E = Linear_E(y)``,
``z = E * shift_down(V, s - 1)``, only ever compare a query with the key s rows up and copy the
value that follows it; on tokens that is a compare, a shift and a gather.
Letters: B batch, T seq_len, Q queries, V vocab_size, J n_distances.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from zoology_bench.analytic.selection import (
    SELECTIONS,
    check_n_distances,
    cross_counts,
    min_lag,
    raw_counts,
    top_lags,
)
from zoology_bench.data.layout import PublicLayout
from zoology_bench.data.random import sort_rows
from zoology_bench.param_count import ParamCount
from zoology_bench.validation import check_int, check_name

CHUNK_BYTES = 8 << 20
"""Size of one (rows, T) int64 temporary, of which about ten live at once: small, for the cache."""


class HasPublicLayout(Protocol):
    """What ``for_task`` needs of a task."""

    def public_layout(self) -> PublicLayout:
        """The task's public description."""
        ...


@dataclass(kw_only=True, slots=True)
class AnalyticBaseConvConfig:
    """Configuration of the construction; it learns nothing."""

    name: ClassVar[str] = "analytic_base_conv"
    needs_training: ClassVar[bool] = False

    n_distances: int = 8
    """Lags it looks at, J (the paper's t)."""
    selection: str = "cross"
    """cross, raw or prefix_causal."""

    def __post_init__(self) -> None:
        check_int("model.n_distances", self.n_distances, 1)
        check_name("model.selection", self.selection, SELECTIONS)

    @property
    def label(self) -> str:
        """What tables and figures show."""
        return self.name

    @property
    def mixer_label(self) -> str:
        """It has no trained mixer."""
        return ""

    @property
    def causal(self) -> bool:
        """Whether every answer depends on tokens up to its query alone."""
        return self.selection == "prefix_causal"

    def build(self, layout: PublicLayout) -> "AnalyticBaseConv":
        """Bind the construction to a task's public layout."""
        return AnalyticBaseConv(layout, self.n_distances, self.selection)


class AnalyticBaseConv:
    """Answers exactly the queries whose interaction distance is among its J lags.

    The lags are read off the whole row, later tokens included (cross, raw), so the selection is not
    causal although each shift is: ``causal`` is False. ``prefix_causal`` counts a query only from
    its own position on.

    Where several selected lags match (a re-bound key) the smallest wins, which is the last write.
    Where none does, the answer is the absent token; a vocabulary without one gets zero logits and
    the prediction -1, which no target equals.

    Args:
        layout: the task's public description; never answers or key positions.
        n_distances: J.
        selection: one of ``SELECTIONS``.

    Raises:
        ValueError: J < 1 or more lags than T offers, an unknown selection, or a layout without
            key and value tokens.
    """

    def __init__(
        self, layout: PublicLayout, n_distances: int = 8, selection: str = "cross"
    ) -> None:
        check_n_distances(n_distances, layout.seq_len)
        check_name("model.selection", selection, SELECTIONS)
        vocabulary = layout.vocabulary
        if not (len(vocabulary.keys) and len(vocabulary.values)):
            raise ValueError(
                f"task.layout={layout.name} has no key and value roles: keys={vocabulary.keys}, "
                f"values={vocabulary.values}"
            )
        self.layout = layout
        self.n_distances = n_distances
        self.selection = selection

    @classmethod
    def for_task(
        cls, task: HasPublicLayout, n_distances: int = 8, selection: str = "cross"
    ) -> "AnalyticBaseConv":
        """Bind the construction to a task, of which it sees the public layout alone."""
        return cls(task.public_layout(), n_distances, selection)

    @property
    def causal(self) -> bool:
        """Whether every answer depends on tokens up to its query alone."""
        return self.selection == "prefix_causal"

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits (B, Q, V), float32: 1 for the prediction, 0 elsewhere."""
        predicted = self.predict(tokens, positions)
        logits = torch.zeros((*predicted.shape, self.layout.vocabulary.size), device=tokens.device)
        answered = (predicted >= 0).to(logits.dtype)
        return logits.scatter_(-1, predicted.clamp(min=0)[..., None], answered[..., None])

    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(B, Q) int64 answers at ``positions`` (B, Q) of ``tokens`` (B, T); -1 for none.

        Roles come from the tokens and the layout; ``positions`` only select outputs. O(J) per
        query after an O(T log T) selection (cross), in chunks of rows under 256 MB.

        Raises:
            ValueError: tokens outside the vocabulary, or a T that offers fewer than J lags.
        """
        self._check(tokens)
        answer = self._causal_rows if self.selection == "prefix_causal" else self._rows
        n_rows = max(1, CHUNK_BYTES // (8 * max(tokens.shape[1], positions.shape[1])))
        return torch.cat(
            [
                answer(t, p)
                for t, p in zip(tokens.split(n_rows), positions.split(n_rows), strict=True)
            ]
        )

    def n_params(self) -> ParamCount:
        """Size of the theorem's layers for this T, V and J; none of it is trained.

        Selectors Q, K and V hold a (T, V) mask each; the two gated layers hold a kernel over J
        blocks of 2T rows each (the corrected stacking); Linear_E is of rank one, and Linear_sum
        has a weight per block: ``(4 J + 3) T V + 2 V + J``, the theorem's O(J T V).
        """
        t, v, j = self.layout.seq_len, self.layout.vocabulary.size, self.n_distances
        total = (4 * j + 3) * t * v + 2 * v + j
        return ParamCount(total=total, non_embedding=total, mixer=total)

    def state_bytes(self, seq_len: int) -> None:
        """None: the construction has no decode step."""
        return None

    def _check(self, tokens: Tensor) -> None:
        size = self.layout.vocabulary.size
        low, high = tokens.aminmax()
        if low < 0 or high >= size:
            raise ValueError(f"tokens span {int(low)}..{int(high)}, outside task.vocab_size={size}")
        check_n_distances(self.n_distances, tokens.shape[1])

    def _rows(self, tokens: Tensor, positions: Tensor) -> Tensor:
        asked, written = self.layout.asked(tokens), self.layout.written(tokens)
        if self.selection == "raw":
            counts = raw_counts(tokens)
        else:
            counts = cross_counts(tokens, asked, written, self.layout.vocabulary.size)
        lags = top_lags(counts, self.n_distances, min_lag(self.layout))
        return self._read_out(tokens, asked, written, positions, lags)

    def _causal_rows(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Queries from left to right; each one's own lags have voted before it reads."""
        asked, written = self.layout.asked(tokens), self.layout.written(tokens)
        length = tokens.shape[1]
        at = torch.arange(length, device=tokens.device)
        order = sort_rows(torch.where(asked, at, length))
        counts = torch.zeros_like(tokens)
        answers = torch.full_like(tokens, self._nothing)
        for rank in range(int(asked.sum(1).max())):
            query = order[:, rank : rank + 1]
            live = query < length
            query = query.clamp(max=length - 1)
            match = written & live & (at < query) & (tokens == tokens.gather(1, query))
            counts.scatter_add_(1, (query - at).clamp(min=0), match.long())
            lags = top_lags(counts, self.n_distances, min_lag(self.layout))
            answer = self._read_out(tokens, asked, written, query, lags)
            answers.scatter_(1, query, torch.where(live, answer, answers.gather(1, query)))
        return answers.gather(1, positions)

    def _read_out(
        self, tokens: Tensor, asked: Tensor, written: Tensor, positions: Tensor, lags: Tensor
    ) -> Tensor:
        """(B, Q): the value behind the nearest selected key that equals the query.

        Args:
            tokens: (B, T).
            asked: (B, T) bool.
            written: (B, T) bool.
            positions: (B, Q).
            lags: (B, J) ascending.
        """
        length = tokens.shape[1]
        # Anything that is no written key becomes -1 and anything that asks nothing -2, so that
        # one comparison checks roles and tokens together; T rows of -1 stand above the first.
        keys = F.pad(torch.where(written, tokens, -1), (length, 0), value=-1)
        query = torch.where(asked, tokens, -2).gather(1, positions)
        origin = positions + length
        found = torch.zeros_like(positions)
        for lag in lags.flip(1).unbind(1):
            # Longest lag first: the nearest match is written last and stays.
            source = origin - lag[:, None]
            found = torch.where(keys.gather(1, source) == query, source, found)
        value = tokens.gather(1, (found - length + 1).clamp(min=0))
        return torch.where(found > 0, value, self._nothing)

    @property
    def _nothing(self) -> int:
        absent = self.layout.vocabulary.absent
        return -1 if absent is None else absent
