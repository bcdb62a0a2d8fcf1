"""Attention with written-down weights: Proposition 4.3 of arXiv:2312.04927, and its two-layer form.

Letters: B batch, N rows (triples or tokens), T tokens, V vocab_size = c, u unit roundoff.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from zoology_bench.data.layout import Vocabulary

HARD_GAP = 128.0
"""exp(-128) is 0 in fp32 and bf16: a softmax over this gap copies one row exactly."""
SINK = 0.5
"""Score of the sink, of a match's 1: it wins exactly where nothing matches."""


def needed_gap(n_rivals: int, dtype: torch.dtype) -> float:
    """The score of a match above which the softmax's argmax is exact.

    Rows that do not match score 0, the sink gap / 2, a match gap. The match must beat the sink and
    the sink must beat every value, of which one may stand in m rows: exp(gap / 2) > m in exact
    arithmetic. In floating point the mass of a match or of the sink may lose, and that of a rival
    gain, a factor (1 + u)/(1 - u) by each of four roundings (two for exp, the division, the output)
    and of at most m in its sum:

        gap > 2 (ln m + (m + 4) ln((1 + u) / (1 - u)))

    For m = 1 this is about 20 u: 1.2e-6 in fp32 and .08 in bf16. Between 2 ln m and this the
    outcome depends on how the sum is rounded; below 2 ln m it is wrong.

    Args:
        n_rivals: m, the most rows before a query that hold the same value.
        dtype: of the scores and masses.
    """
    u = torch.finfo(dtype).eps / 2
    return 2 * (math.log(n_rivals) + (n_rivals + 4) * math.log((1 + u) / (1 - u)))


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, gap: float | None) -> Tensor:
    """``(q k^T * mask) v``, or ``softmax(gap q k^T) v`` over the masked-in rows.

    Args:
        q: (B, N, c).
        k: (B, M, c).
        v: (B, M, V).
        mask: (N, M) bool.
        gap: the score of a match; None leaves the softmax out.
    """
    scores = q @ k.mT
    if gap is None:
        return (scores * mask) @ v
    return (scores * gap).masked_fill(~mask, -torch.inf).softmax(-1) @ v


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchLayer:
    """One attention layer that matches a query with keys.

    The sink is a row more, on which every query scores 1/2 of a match; it has no weights.
    """

    w_q: Tensor
    """(d, V)."""
    w_k: Tensor
    """(d, V)."""
    w_v: Tensor
    """(d, V)."""

    def __call__(self, x: Tensor, mask: Tensor, gap: float | None) -> tuple[Tensor, Tensor]:
        """Outputs (B, N, V) without the sink's part, and the sink's mass (B, N)."""
        q, k, v = x @ self.w_q, x @ self.w_k, x @ self.w_v
        if gap is None:
            return attend(q, k, v, mask, None), x.new_full(x.shape[:2], SINK)
        # The sink is one more key row, in front: a query scores SINK on it, whatever it asks.
        ones, no = torch.ones_like(q[..., :1]), torch.zeros_like(k[..., :1])
        first = F.pad(torch.full_like(ones[:, :1], SINK), (k.shape[-1], 0))
        keys = torch.cat([first, torch.cat([k, no], -1)], dim=1)
        is_sink = F.pad(torch.zeros_like(no), (0, 0, 1, 0), value=1.0)
        values = torch.cat([F.pad(v, (0, 0, 1, 0)), is_sink], -1)
        out = attend(torch.cat([q, ones], -1), keys, values, F.pad(mask, (1, 0), value=True), gap)
        return out[..., :-1], out[..., -1]

    def n_stored(self) -> int:
        """Numbers stored."""
        return sum(t.numel() for t in (self.w_q, self.w_k, self.w_v))


@dataclass(frozen=True, kw_only=True, slots=True)
class TriplesAttention:
    """Proposition 4.3: rows are whole triples, the mask is strictly lower triangular."""

    match: MatchLayer

    @classmethod
    def of(cls, vocabulary: Vocabulary, dtype: torch.dtype = torch.float32) -> "TriplesAttention":
        """W_K, W_V and W_Q in {0, 1}^(3c x c) select the first, second and third block."""
        blocks = torch.eye(3 * vocabulary.size, dtype=dtype).split(vocabulary.size, dim=1)
        w_k, w_v, w_q = (block.clone() for block in blocks)
        return cls(match=MatchLayer(w_q=w_q, w_k=w_k, w_v=w_v))

    def __call__(self, tokens: Tensor, gap: float | None) -> tuple[Tensor, Tensor]:
        """Masses (B, N, V) and the sink's (B, N) for tokens (B, 3 N)."""
        w = self.match.w_q
        u = rearrange(
            F.one_hot(tokens, w.shape[1]).to(w), "b (n three) v -> b n (three v)", three=3
        )
        earlier = torch.ones(u.shape[1], u.shape[1]).tril(-1).bool()
        return self.match(u, earlier, gap)

    def n_stored(self) -> int:
        """9 c^2."""
        return self.match.n_stored()


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoLayerAttention:
    """For rows of single tokens: the first layer fetches the previous token, the second matches.

    Layer 1 reads positions, one-hot: row i looks at row i - 1 (row 0 at itself). Layer 2 reads
    [token; previous token]: the query is a key token, the key is the key token before, the value a
    value token; so a key that no value follows, a question, holds nothing.
    """

    shift_q: Tensor
    """(T, T)."""
    shift_k: Tensor
    """(T, T)."""
    shift_v: Tensor
    """(V, V)."""
    match: MatchLayer

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, seq_len: int, dtype: torch.dtype = torch.float32
    ) -> "TwoLayerAttention":
        """Write down every weight for T = ``seq_len``."""
        token = torch.arange(vocabulary.size)
        is_key = torch.diag(vocabulary.is_key(token).to(dtype))
        is_value = torch.diag(vocabulary.is_value(token).to(dtype))
        nothing = torch.zeros_like(is_key)
        shift = torch.ones(seq_len - 1, dtype=dtype).diag(-1)
        shift[0, 0] = 1
        match = MatchLayer(
            w_q=torch.cat([is_key, nothing]),
            w_k=torch.cat([nothing, is_key]),
            w_v=torch.cat([is_value, nothing]),
        )
        eye = torch.eye(seq_len, dtype=dtype)
        identity = torch.eye(vocabulary.size, dtype=dtype)
        return cls(shift_q=shift, shift_k=eye, shift_v=identity, match=match)

    def __call__(self, tokens: Tensor, gap: float | None) -> tuple[Tensor, Tensor]:
        """Masses (B, T, V) and the sink's (B, T) for tokens (B, T)."""
        u = F.one_hot(tokens, self.shift_v.shape[0]).to(self.shift_v)
        upto = torch.ones(tokens.shape[1], tokens.shape[1]).tril().bool()
        hard = None if gap is None else HARD_GAP
        previous = attend(self.shift_q[None], self.shift_k[None], u @ self.shift_v, upto, hard)
        return self.match(torch.cat([u, previous], -1), upto, gap)

    def n_stored(self) -> int:
        """7 c^2 + 2 T^2."""
        shift = self.shift_q.numel() + self.shift_k.numel() + self.shift_v.numel()
        return shift + self.match.n_stored()
