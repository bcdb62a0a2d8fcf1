"""What every construction offers: answers without training, its size, and a prediction of its hits.

Letters: B batch, T seq_len, Q queries, V vocab_size.
"""

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import PublicLayout
from zoology_bench.param_count import ParamCount

MAX_LOGIT_BYTES = 256 << 20
"""Bound on one piece of ``logits_in_pieces``."""

NOTHING = -1
"""The prediction where nothing matches and the vocabulary has no absent token."""


class HasPublicLayout(Protocol):
    """What ``for_task`` needs of a task."""

    def public_layout(self) -> PublicLayout:
        """The task's public description."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """What a statement about a construction bounds."""

    depth: int
    """Layers on the longest path: selectors, gated layers, attention layers, linear maps."""
    width: int
    """Channels of its widest layer."""
    n_params: int
    """Stored numbers; identities and zeros that a layer does without are not stored."""


@dataclass(kw_only=True, slots=True)
class AnalyticConfig(abc.ABC):
    """Base of every construction's configuration; nothing of it is trained."""

    name: ClassVar[str]
    """The key in configs/model."""
    needs_training: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """What tables and figures show."""
        return self.name

    @property
    def mixer_label(self) -> str:
        """What tells apart two configurations of one construction; it has no trained mixer."""
        return ""

    @property
    def causal(self) -> bool:
        """Whether every answer depends on tokens up to its query alone."""
        return True

    @abc.abstractmethod
    def build(self, layout: PublicLayout) -> "AnalyticModel":
        """Bind the construction to a task's public layout."""


class AnalyticModel(abc.ABC):
    """A construction bound to a layout.

    Args:
        layout: the task's public description; never answers or key positions.

    Raises:
        ValueError: a layout without key and value tokens.
    """

    def __init__(self, layout: PublicLayout) -> None:
        vocabulary = layout.vocabulary
        if not (len(vocabulary.keys) and len(vocabulary.values)):
            raise ValueError(
                f"task.layout={layout.name} has no key and value roles: keys={vocabulary.keys}, "
                f"values={vocabulary.values}"
            )
        self.layout = layout

    @property
    def causal(self) -> bool:
        """Whether every answer depends on tokens up to its query alone."""
        return True

    @abc.abstractmethod
    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(B, Q) int64 answers at ``positions`` (B, Q) of ``tokens`` (B, T); -1 for none.

        Roles come from the tokens and the layout; ``positions`` only select outputs.

        Raises:
            ValueError: tokens outside the vocabulary.
        """

    @abc.abstractmethod
    def covered(self, batch: Batch) -> Tensor:
        """(B, Q) bool: the queries it will answer, from the row's positions and not from it."""

    @abc.abstractmethod
    def size(self) -> Size:
        """Depth, width and stored numbers, by formula."""

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits (B, Q, V), float32: 1 for the prediction, 0 elsewhere."""
        shape = (*positions.shape, self.layout.vocabulary.size)
        logits = torch.zeros(shape, device=tokens.device)
        _scatter_answers_(logits, self.predict(tokens, positions))
        return logits

    def logits_in_pieces(self, tokens: Tensor, positions: Tensor) -> Iterator[Tensor]:
        """The rows of ``self(tokens, positions)`` in order, in pieces of at most 256 MB.

        The memory of a piece is used again by the next one: keep a copy of what you need.
        """
        size = self.layout.vocabulary.size
        n_rows = max(1, MAX_LOGIT_BYTES // (4 * size * max(1, positions.shape[1])))
        buffer = torch.zeros(
            (min(n_rows, len(tokens)), positions.shape[1], size), device=tokens.device
        )
        for t, p in zip(tokens.split(n_rows), positions.split(n_rows), strict=True):
            predicted = self.predict(t, p)
            piece = buffer[: len(t)]
            _scatter_answers_(piece, predicted)
            yield piece
            # One entry per query is cleared, not the whole buffer.
            piece.scatter_(-1, predicted.clamp(min=0)[..., None], 0.0)

    @property
    def n_layers(self) -> int:
        """``size().depth``."""
        return self.size().depth

    def n_params(self) -> ParamCount:
        """``size().n_params``; one-hot rows need no embedding."""
        total = self.size().n_params
        return ParamCount(total=total, non_embedding=total, mixer=total)

    def state_bytes(self, seq_len: int) -> int | None:
        """Bytes that survive between decode steps; None without a decode step."""
        return None

    def check_tokens(self, tokens: Tensor) -> None:
        """Raise ``ValueError`` for tokens outside the task's vocabulary."""
        size = self.layout.vocabulary.size
        low, high = tokens.aminmax()
        if low < 0 or high >= size:
            raise ValueError(f"tokens span {int(low)}..{int(high)}, outside task.vocab_size={size}")

    @property
    def nothing(self) -> int:
        """The answer where nothing matches: the absent token, or -1, which no target equals."""
        absent = self.layout.vocabulary.absent
        return NOTHING if absent is None else absent


def _scatter_answers_(logits: Tensor, predicted: Tensor) -> None:
    answered = (predicted >= 0).to(logits.dtype)
    logits.scatter_(-1, predicted.clamp(min=0)[..., None], answered[..., None])
