"""The analytic BaseConv of Theorem 4.5 (arXiv:2312.04927): its lags, and who answers with them.

Letters: B batch, T seq_len, Q queries, V vocab_size, J n_distances.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoology_bench.analytic.base import AnalyticModel, HasPublicLayout, Size
from zoology_bench.analytic.base_conv import literal, operator, token
from zoology_bench.analytic.base_conv.rows import Rows, answers_of
from zoology_bench.analytic.coverage import covered_queries
from zoology_bench.analytic.fft_counts import fft_counts
from zoology_bench.analytic.selection import (
    AUTOCORRELATIONS,
    CAUSAL_SELECTIONS,
    SELECTIONS,
    check_lags,
    check_n_distances,
    check_reach,
    cross_counts,
    min_lag,
    raw_counts,
    top_lags,
)
from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout
from zoology_bench.data.random import sort_rows
from zoology_bench.validation import check_name

CHUNK_BYTES = 8 << 20
"""Size of one (rows, T) int64 temporary, of which about ten live at once: small, for the cache."""

IMPLEMENTATIONS = ("literal", "operator", "token")
"""literal: the proof's stack, dense and small; operator: the suite's convolution kernels; token:
integers. They give the same answers."""


class AnalyticBaseConv(AnalyticModel):
    """Answers exactly the queries whose interaction distance is among its J lags.

    The lags are read off the whole row, later tokens included (cross, raw), so the selection is not
    causal although each shift is: ``causal`` is False. ``prefix_causal`` counts a query only from
    its own position on, and ``given`` counts nothing; a causal selection cannot see whether a value
    follows the last token it reads, so there every key token asks.

    Where several selected lags match (a re-bound key) the smallest wins, which is the last write.
    Where none does, the answer is the absent token; a vocabulary without one gets zero logits and
    the prediction -1, which no target equals.

    Args:
        layout: the task's public description; never answers or key positions.
        n_distances: J.
        selection: one of ``SELECTIONS``.
        lags: the J lags of selection=given.
        implementation: one of ``IMPLEMENTATIONS``.
        autocorrelation: one of ``AUTOCORRELATIONS``.
        kernel: one of ``operator.KERNELS``, used by implementation=operator.

    Raises:
        ValueError: J < 1 or more lags than T offers, lags that do not fit the selection, an unknown
            name, a size beyond the implementation, or a layout without key and value tokens.
    """

    def __init__(
        self,
        layout: PublicLayout,
        n_distances: int = 8,
        selection: str = "cross",
        *,
        lags: Sequence[int] = (),
        implementation: str = "token",
        autocorrelation: str = "compare",
        kernel: str = "shift",
    ) -> None:
        super().__init__(layout)
        check_names(selection, implementation, autocorrelation, kernel)
        check_n_distances(n_distances, layout.seq_len)
        check_lags(lags, n_distances, selection, "model.lags")
        check_reach(lags, layout.seq_len, "model.lags")
        if implementation == "literal":
            literal.check_literal(layout, n_distances)
        if implementation == "operator":
            operator.check_operator(layout, n_distances)
        self.n_distances = n_distances
        self.selection = selection
        self.lags = sorted(lags)
        self.implementation = implementation
        self.autocorrelation = autocorrelation
        self.kernel = kernel

    @classmethod
    def for_task(
        cls,
        task: HasPublicLayout,
        n_distances: int = 8,
        selection: str = "cross",
        *,
        lags: Sequence[int] = (),
        implementation: str = "token",
        autocorrelation: str = "compare",
        kernel: str = "shift",
    ) -> "AnalyticBaseConv":
        """Bind the construction to a task, of which it sees the public layout alone."""
        return cls(
            task.public_layout(),
            n_distances,
            selection,
            lags=lags,
            implementation=implementation,
            autocorrelation=autocorrelation,
            kernel=kernel,
        )

    @property
    def causal(self) -> bool:
        return self.selection in CAUSAL_SELECTIONS

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits (B, Q, V): 1 for the prediction and 0 elsewhere (token), or Linear_sum's outputs.

        These (literal, operator; float64) weigh the block of the l-th smallest lag by 2^-l and the
        absent token by 2^-J, so that their argmax is the prediction.
        """
        if self.implementation == "token":
            return super().__call__(tokens, positions)
        self.check_tokens(tokens)
        check_n_distances(self.n_distances, tokens.shape[1])
        outputs = self._logits(self._rows(tokens, positions))
        return outputs.view(*positions.shape, -1)

    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(B, Q) int64 answers at ``positions`` (B, Q) of ``tokens`` (B, T); -1 for none.

        Roles come from the tokens and the layout; ``positions`` only select outputs. By tokens,
        O(J) per query after an O(T log T) selection (cross), in chunks of rows under 256 MB.

        Raises:
            ValueError: tokens outside the vocabulary, or a T that offers fewer than J lags.
        """
        self.check_tokens(tokens)
        check_n_distances(self.n_distances, tokens.shape[1])
        by_token = self.implementation == "token" and self.autocorrelation == "compare"
        in_order = by_token and self.selection == "prefix_causal"
        answer = self._left_to_right if in_order else self._answers
        n_rows = max(1, CHUNK_BYTES // (8 * max(tokens.shape[1], positions.shape[1])))
        return torch.cat(
            [
                answer(t, p)
                for t, p in zip(tokens.split(n_rows), positions.split(n_rows), strict=True)
            ]
        )

    def covered(self, batch: Batch) -> Tensor:
        """(B, Q) bool: ``coverage`` for this model's lags."""
        return covered_queries(batch, self.n_distances, self.layout, self.selection, self.lags)

    def size(self) -> Size:
        """Size of the theorem's layers for this T, V and J.

        Selectors Q, K and V hold a (T, V) mask each; the two gated layers hold a kernel over J
        blocks of 2T rows each (the corrected stacking); Linear_E is of rank one; Linear_sum has a
        weight per block and a bias: ``(4 J + 3) T V + 3 V + J``, the theorem's O(J T V).
        """
        t, v, j = self.layout.seq_len, self.layout.vocabulary.size, self.n_distances
        return Size(depth=5, width=v, n_params=(4 * j + 3) * t * v + 3 * v + j)

    def _rows(self, tokens: Tensor, positions: Tensor) -> Rows:
        """The batch with its lags; for prefix_causal each query is a row of its own, cut there."""
        layout = self.layout
        written = layout.written(tokens)
        asked = layout.vocabulary.is_key(tokens) if self.causal else layout.asked(tokens)
        if self.selection == "given":
            lags = tokens.new_tensor(self.lags).expand(len(tokens), -1)
            return Rows(tokens=tokens, asked=asked, written=written, positions=positions, lags=lags)
        if self.selection == "prefix_causal":
            at = torch.arange(tokens.shape[1], device=tokens.device)
            query = positions.reshape(-1, 1)
            n = positions.shape[1]
            tokens = tokens.repeat_interleave(n, 0)
            voted = layout.asked(tokens) & (at < query)
            asked = voted | (asked.repeat_interleave(n, 0) & (at == query))
            written = written.repeat_interleave(n, 0) & (at < query)
            positions = query
        counts = self._counts(tokens, asked, written)
        lags = top_lags(counts, self.n_distances, min_lag(layout))
        return Rows(tokens=tokens, asked=asked, written=written, positions=positions, lags=lags)

    def _counts(self, tokens: Tensor, asked: Tensor, written: Tensor) -> Tensor:
        vocabulary = self.layout.vocabulary
        raw = self.selection == "raw"
        if self.autocorrelation == "fft":
            every = torch.ones_like(asked)
            return (
                fft_counts(tokens, every, every, range(vocabulary.size))
                if raw
                else fft_counts(tokens, asked, written, vocabulary.keys)
            )
        return raw_counts(tokens) if raw else cross_counts(tokens, asked, written, vocabulary.size)

    def _answers(self, tokens: Tensor, positions: Tensor) -> Tensor:
        rows = self._rows(tokens, positions)
        if self.implementation == "token":
            answers = token.answers(rows, self.nothing)
        else:
            answers = answers_of(self._logits(rows))
        return answers.view(positions.shape)

    def _logits(self, rows: Rows) -> Tensor:
        size, absent = self.layout.vocabulary.size, self.layout.vocabulary.absent
        if self.implementation == "literal":
            return literal.logits(rows, size, absent)
        step = max(1, operator.MAX_CHUNK_BYTES // operator.row_bytes(self.layout))
        return torch.cat(
            [
                operator.logits(rows[i : i + step], size, absent, self.kernel)
                for i in range(0, len(rows.tokens), step)
            ]
        )

    def _left_to_right(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Queries from left to right; each one's own lags have voted before it reads."""
        asked, written = self.layout.asked(tokens), self.layout.written(tokens)
        length = tokens.shape[1]
        at = torch.arange(length, device=tokens.device)
        wanted = torch.zeros_like(asked).scatter_(1, positions, True)
        visited = asked | (wanted & self.layout.vocabulary.is_key(tokens))
        order = sort_rows(torch.where(visited, at, length))
        counts = torch.zeros_like(tokens)
        answers = torch.full_like(tokens, self.nothing)
        for rank in range(int(visited.sum(1).max())):
            query = order[:, rank : rank + 1]
            live = query < length
            query = query.clamp(max=length - 1)
            match = written & live & (at < query) & (tokens == tokens.gather(1, query))
            own = torch.zeros_like(tokens).scatter_add_(1, (query - at).clamp(min=0), match.long())
            lags = top_lags(counts + own, self.n_distances, min_lag(self.layout))
            # What is being written votes for itself alone: to later tokens it is no query.
            counts += own * asked.gather(1, query)
            answer = token.answers(
                Rows(tokens=tokens, asked=visited, written=written, positions=query, lags=lags),
                self.nothing,
            )
            answers.scatter_(1, query, torch.where(live, answer, answers.gather(1, query)))
        return answers.gather(1, positions)


def check_names(selection: str, implementation: str, autocorrelation: str, kernel: str) -> None:
    """Raise ``ValueError`` with near names for the first unknown one."""
    check_name("model.selection", selection, SELECTIONS)
    check_name("model.implementation", implementation, IMPLEMENTATIONS)
    check_name("model.autocorrelation", autocorrelation, AUTOCORRELATIONS)
    check_name("model.kernel", kernel, operator.KERNELS)
