"""What every implementation of the construction is handed: tokens, their roles, and the lags.

Letters: B batch, T seq_len, Q queries, J n_distances, V vocab_size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

MAX_SUMMED = 52
"""Most blocks that the weights 2^-l of Linear_sum keep apart in float64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Rows with one set of lags each."""

    tokens: Tensor
    """(B, T)."""
    asked: Tensor
    """(B, T) bool: what may ask."""
    written: Tensor
    """(B, T) bool: what may be found."""
    positions: Tensor
    """(B, Q) where answers are wanted."""
    lags: Tensor
    """(B, J) ascending; T where a row has fewer."""

    def __getitem__(self, index: slice) -> "Rows":
        return Rows(
            tokens=self.tokens[index],
            asked=self.asked[index],
            written=self.written[index],
            positions=self.positions[index],
            lags=self.lags[index],
        )


def block_weights(n_distances: int) -> Tensor:
    """(J,) float64 weights of Linear_sum: 1, 1/2, 1/4, ...

    Each exceeds all later ones together, so the block of the smallest lag decides the argmax
    whatever the others hold: the last write wins. Rounded to a dtype of p bits, sums of them stay
    apart up to J = p + 1: 9 lags in bf16, 25 in fp32, 54 in fp64.
    """
    return torch.pow(2.0, -torch.arange(n_distances, dtype=torch.float64))


def nothing_bias(vocab_size: int, absent: int | None, n_distances: int) -> Tensor:
    """(V,) float64 bias of Linear_sum: on the absent token, below any block's weight."""
    bias = torch.zeros(vocab_size, dtype=torch.float64)
    if absent is not None:
        bias[absent] = 2.0**-n_distances
    return bias


def check_summable(n_distances: int, implementation: str) -> None:
    """Raise ``ValueError`` where the weights of so many blocks run out of float64."""
    if n_distances > MAX_SUMMED:
        raise ValueError(
            f"model.n_distances={n_distances} exceeds the {MAX_SUMMED} blocks that "
            f"model.implementation={implementation} can sum in float64: use token"
        )


def answers_of(logits: Tensor) -> Tensor:
    """The most likely token, or -1 where every logit is zero."""
    best, token = logits.max(-1)
    return torch.where(best > 0.25 * 2.0**-MAX_SUMMED, token, -1)
