"""The construction as the proof draws it: dense one-hot rows, stacked blocks, real convolutions.

The oracle of the other implementations, for small sizes. The proof's offsets are corrected
(docs/theory.md): block l of J has 2T rows, its kernels shift by ``l 2T + s_l``, K and V stand in
the first block, Q in the first T rows of every block, and rows 0..T-1 of each block are read. No
shifted row can then reach another block, whatever the order of the lags.
Letters: B batch, T seq_len, V vocab_size = channels, J n_distances, R = 2 T J stacked rows.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor

from zoology_bench.analytic.base import Size
from zoology_bench.analytic.base_conv.rows import (
    Rows,
    block_weights,
    check_summable,
    nothing_bias,
)
from zoology_bench.data.layout import PublicLayout

MAX_ENTRIES = 1 << 20
"""Entries of one row's stack: above, a direct convolution takes seconds per row."""


def check_literal(layout: PublicLayout, n_distances: int) -> None:
    """Raise ``ValueError`` where the stack of one row would exceed ``MAX_ENTRIES``."""
    check_summable(n_distances, "literal")
    length, width = layout.seq_len, layout.vocabulary.size
    entries = 2 * length * n_distances * width
    if entries > MAX_ENTRIES:
        raise ValueError(
            f"model.implementation=literal stacks 2 * task.seq_len={length} * "
            f"model.n_distances={n_distances} * task.vocab_size={width} = {entries} entries per "
            f"row, more than {MAX_ENTRIES}: use operator or token"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """``(u W + b1) * (h conv x + b2)`` of Definition 4.1; None is an identity W or a zero part."""

    weight: tuple[Tensor, Tensor] | None = None
    """A rank-one W = a b^T, as (V, 1) and (1, V)."""
    kernel: Tensor | None = None
    """h: (B, R, V), one filter per example, row and channel."""
    mask: Tensor | None = None
    """b2: (B, R, V)."""

    def __call__(self, u: Tensor, x: Tensor | None = None) -> Tensor:
        """Gate the convolution of ``x`` (B, R, V) by ``u`` (B, R, V); no kernel leaves b2."""
        gate = u if self.weight is None else u @ self.weight[0] @ self.weight[1]
        if self.kernel is not None and x is not None:
            gate = gate * _conv(x, self.kernel)
        return gate if self.mask is None else gate * self.mask

    def n_stored(self) -> int:
        """Numbers stored for one example."""
        weight = sum(w.numel() for w in self.weight or ())
        return weight + sum(t[0].numel() for t in (self.kernel, self.mask) if t is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Circuit:
    """The layers of one batch, stage by stage; layers of one stage run side by side."""

    select: dict[str, Layer]
    """Selectors of the query, key and value rows."""
    match: Layer
    smear: Layer
    read: Layer
    sum_weights: Tensor
    """(J,)."""
    sum_bias: Tensor
    """(V,)."""

    @classmethod
    def of(cls, rows: Rows, vocab_size: int, absent: int | None) -> "Circuit":
        """Build every layer for the roles and lags of a batch."""
        n_distances, length = rows.lags.shape[1], rows.tokens.shape[1]
        follows = F.pad(rows.written, (1, -1))
        roles = {"query": rows.asked, "key": rows.written, "value": follows}
        ones = torch.ones(vocab_size, 1, device=rows.tokens.device)
        starts = 2 * length * torch.arange(n_distances, device=rows.tokens.device)
        return cls(
            select={
                role: Layer(mask=repeat(mask.float(), "b t -> b t v", v=vocab_size))
                for role, mask in roles.items()
            },
            match=Layer(kernel=_deltas(starts + rows.lags, 2 * length, vocab_size)),
            smear=Layer(weight=(ones, ones.mT)),
            read=Layer(kernel=_deltas(starts + rows.lags - 1, 2 * length, vocab_size)),
            sum_weights=block_weights(n_distances).to(rows.tokens.device),
            sum_bias=nothing_bias(vocab_size, absent, n_distances).to(rows.tokens.device),
        )

    def stages(self) -> list[list[Layer | Tensor]]:
        """What is stored, in order of the path from input to output."""
        return [
            list(self.select.values()),
            [self.match],
            [self.smear],
            [self.read],
            [self.sum_weights, self.sum_bias],
        ]

    def size(self) -> Size:
        """Depth, width and stored numbers, counted."""
        stored = [part for stage in self.stages() for part in stage]
        return Size(
            depth=len(self.stages()),
            width=self.sum_bias.numel(),
            n_params=sum(p.numel() if isinstance(p, Tensor) else p.n_stored() for p in stored),
        )

    def blocks(self, u: Tensor) -> Tensor:
        """z of every block: (B, J, T, V) from one-hot rows (B, T, V)."""
        n_distances = len(self.sum_weights)
        q, k, v = (self.select[role](u) for role in ("query", "key", "value"))
        queries = repeat(F.pad(q, (0, 0, 0, q.shape[1])), "b t v -> b (j t) v", j=n_distances)
        below = (0, 0, 0, queries.shape[1] - k.shape[1])
        y = self.match(queries, F.pad(k, below))
        z = self.read(self.smear(y), F.pad(v, below))
        return rearrange(z, "b (j t) v -> b j t v", j=n_distances)[:, :, : u.shape[1]]

    def sum(self, blocks: Tensor) -> Tensor:
        """Linear_sum: (B, T, V) float64 from (B, J, T, V)."""
        return torch.einsum("j,bjtv->btv", self.sum_weights, blocks.double()) + self.sum_bias


def logits(rows: Rows, vocab_size: int, absent: int | None) -> Tensor:
    """(B, Q, V) float64 outputs at ``rows.positions``, one example after the other."""
    outputs = []
    for i in range(len(rows.tokens)):
        row = rows[i : i + 1]
        circuit = Circuit.of(row, vocab_size, absent)
        z = circuit.sum(circuit.blocks(F.one_hot(row.tokens, vocab_size).float()))
        outputs.append(z[:, row.positions[0]])
    return torch.cat(outputs)


def _deltas(at: Tensor, block: int, width: int) -> Tensor:
    """(B, R, V) kernels with a one at each of ``at`` (B, J), equal in all channels."""
    h = torch.zeros(at.shape[0], block * at.shape[1], device=at.device)
    return repeat(h.scatter(1, at, 1.0), "b r -> b r v", v=width).contiguous()


def _conv(x: Tensor, h: Tensor) -> Tensor:
    """Direct causal convolution along the rows; sums of zeros and ones, hence exact in float32."""
    n_examples, n_rows, _ = x.shape
    signal = F.pad(rearrange(x, "b r v -> 1 (b v) r"), (n_rows - 1, 0))
    taps = rearrange(h, "b r v -> (b v) 1 r").flip(-1)
    return rearrange(
        F.conv1d(signal, taps, groups=taps.shape[0]), "1 (b v) r -> b r v", b=n_examples
    )
