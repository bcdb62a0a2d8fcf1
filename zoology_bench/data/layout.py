"""What a model may know of a task in advance: which tokens play which role, and where.

Never an answer, never a position of a particular row.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """Half-open token ranges of the roles; ids outside every range are unused."""

    size: int
    keys: range
    values: range
    filler: range
    """Tokens used where nothing is written (may be one token, the blank)."""
    blank: int = 0
    absent: int | None = None
    """The answer to a key that was never written; None where the task has no such queries."""

    @classmethod
    def official(cls, vocab_size: int) -> "Vocabulary":
        """The published generator's split: 0 filler, keys 1..V/2-1, values V/2..V-1."""
        half = vocab_size // 2
        return cls(
            size=vocab_size,
            keys=range(1, half),
            values=range(half, vocab_size),
            filler=range(0, 1),
        )

    @classmethod
    def reserved(cls, vocab_size: int, n_filler_tokens: int) -> "Vocabulary":
        """0 blank, 1 absent, then the filler tokens; the rest halved into keys and values."""
        first = 2 + n_filler_tokens
        n_each = (vocab_size - first) // 2
        return cls(
            size=vocab_size,
            keys=range(first, first + n_each),
            values=range(first + n_each, first + 2 * n_each),
            filler=range(2, first),
            absent=1,
        )

    def is_key(self, tokens: Tensor) -> Tensor:
        """Boolean mask of the key tokens, same shape."""
        return (tokens >= self.keys.start) & (tokens < self.keys.stop)

    def is_value(self, tokens: Tensor) -> Tensor:
        """Boolean mask of the value tokens, same shape."""
        return (tokens >= self.values.start) & (tokens < self.values.stop)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicLayout:
    """A task's public description: everything an analytic model is given, and all it is given."""

    name: str
    """official, prefix, stream, triples or probe."""
    vocabulary: Vocabulary
    seq_len: int
    min_distance: int
    """Smallest interaction distance the layout can produce."""
    max_distance: int
    distance_step: int = 1
    """Distances lie on min_distance + distance_step * n."""

    def written(self, tokens: Tensor) -> Tensor:
        """(B, T) bool: keys of written pairs, i.e. a key token followed by a value token.

        In ``triples`` the position decides instead (i mod 3 == 0): there a query stands right
        before the next triple's key, never before a value, so both readings agree.
        """
        key, value = self.vocabulary.is_key(tokens), self.vocabulary.is_value(tokens)
        follows = torch.zeros_like(key)
        follows[:, :-1] = value[:, 1:]
        return key & follows

    def asked(self, tokens: Tensor) -> Tensor:
        """(B, T) bool: key tokens in the query role (every key token that starts no pair)."""
        return self.vocabulary.is_key(tokens) & ~self.written(tokens)
