"""BaseConv with input-dependent filters: every position picks the lags that it convolves with.

The layer of Definition 4.1 of arXiv:2312.04927 with a filter read off the input, as its section 5
trains it. The paper picks lags from the whole sequence, later tokens included; here position t
counts tokens up to t alone, so that the layer stays causal (whole-sequence selection lives in
``analytic/``). Its filter then differs from position to position, and the convolution is a
weighted sum over T x T position pairs.

Letters: B batch, T time, D d_model, J n_distances.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoology_bench.mixers.base import Mixer, State, init_linear_, linear

SELECTED_FILTERS = ("autocorrelation", "programmatic")
LAG_WEIGHTS = ("softmax", "straight_through")


class SelectedConv(Mixer):
    """``y = (u W + b1) * (sum over selected lags s of w[s] u[t - s] + b2)``."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gate = linear(d_model, d_model, bias=True)
        self.conv_bias = nn.Parameter(torch.empty(d_model))

    def init_(self, scheme: str, generator: torch.Generator) -> None:
        """Fill every parameter; ``recipe`` opens the gate, so that what is found passes."""
        init_linear_(self.gate, scheme, generator)
        nn.init.zeros_(self.conv_bias)
        if scheme == "recipe":
            nn.init.zeros_(self.gate.weight)
            nn.init.ones_(self.gate.bias)

    def _gated(self, x: Tensor, conv: Tensor) -> Tensor:
        return self.gate(x) * (conv + self.conv_bias)


class AutocorrelationConv(SelectedConv):
    """Lags by autocorrelation of learned projections, weights by the match at each lag.

    Every position splits one vote among the earlier positions by the softmax of
    ``<q, k> * scale`` with unit q and k; a vote for position j at position i counts for lag i - j.
    Position t keeps the J lags with most votes so far (eq. 19 of arXiv:2312.04927, prefix-causal;
    a raw sum of products would let the many equal filler tokens choose the lags) and weights them
    by the softmax of its own matches. No gradient flows through the choice.

    Args:
        d_model: width D.
        n_distances: lags that a position keeps, J.
        straight_through: weight the best match alone going forward, with the softmax's gradient.
    """

    def __init__(self, d_model: int, n_distances: int, *, straight_through: bool = False) -> None:
        super().__init__(d_model)
        self.n_distances = n_distances
        self.straight_through = straight_through
        self.w_q = linear(d_model, d_model)
        self.w_k = linear(d_model, d_model)
        self.scale = nn.Parameter(torch.empty(()))

    def init_(self, scheme: str, generator: torch.Generator) -> None:
        """Fill every parameter; ``recipe`` starts with w_k = w_q, so that equal tokens match."""
        super().init_(scheme, generator)
        for projection in (self.w_q, self.w_k):
            init_linear_(projection, scheme, generator)
        nn.init.constant_(self.scale, self.gate.out_features**0.5)
        if scheme == "recipe":
            with torch.no_grad():
                self.w_k.weight.copy_(self.w_q.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        scores = self.scale * self._unit(self.w_q, x) @ self._unit(self.w_k, x).mT
        length = x.shape[1]
        at = torch.arange(length, device=x.device)
        earlier = at < at[:, None]
        lag = (at[:, None] - at).clamp(min=0).expand_as(scores)
        votes = torch.zeros_like(scores).scatter_add_(2, lag, _shares(scores, earlier)).cumsum(1)
        kept = self._most_voted(votes).gather(2, lag) & earlier
        return self._gated(x, self._weights(scores, kept) @ x)

    def init_state(self, batch_size: int) -> State:
        weight = self.gate.weight
        past = weight.new_empty(batch_size, 0, weight.shape[0])
        return {"u": past, "k": past.clone(), "votes": weight.new_empty(batch_size, 0)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        scores = self.scale * torch.einsum("bd,btd->bt", self._unit(self.w_q, x), state["k"])
        every = torch.ones_like(scores, dtype=torch.bool)
        # Lag 0 is this position itself: it gets no vote, and the nearest position has lag 1.
        votes = F.pad(state["votes"], (0, 1)) + F.pad(_shares(scores, every).flip(1), (1, 0))
        kept = self._most_voted(votes)[:, 1:].flip(1)
        conv = torch.einsum("bt,btd->bd", self._weights(scores, kept), state["u"])
        key = self._unit(self.w_k, x)
        past = {
            name: torch.cat([state[name], new[:, None]], 1) for name, new in (("u", x), ("k", key))
        }
        return self._gated(x, conv), {**past, "votes": votes}

    def state_bytes(self, seq_len: int) -> int:
        """Input and key of every token and a count for every lag: T (2 D + 1) numbers."""
        weight = self.gate.weight
        return seq_len * (2 * weight.shape[0] + 1) * weight.element_size()

    def _unit(self, projection: nn.Module, x: Tensor) -> Tensor:
        return F.normalize(projection(x), dim=-1)

    def _most_voted(self, votes: Tensor) -> Tensor:
        """(..., T) bool: the J lags with most votes, among those that have any."""
        best = votes.detach().topk(min(self.n_distances, votes.shape[-1]), dim=-1).indices
        return torch.zeros_like(votes, dtype=torch.bool).scatter_(-1, best, True) & (votes > 0)

    def _weights(self, scores: Tensor, kept: Tensor) -> Tensor:
        soft = _shares(scores, kept)
        if not self.straight_through:
            return soft
        best = soft.argmax(-1, keepdim=True) if soft.shape[-1] else soft.long()
        hard = torch.zeros_like(soft).scatter_(-1, best, 1.0) * kept
        return hard + soft - soft.detach()


class ProgrammaticConv(SelectedConv):
    """The value after the last earlier occurrence of the same token: no learned selection.

    Its filter at position t is a single one at lag s - 1, where s is the distance to the last
    position with a bit-equal input. Inputs are bit-equal where tokens are only in the first layer
    of a model without positions, so it belongs there. What remains to learn is the read-out: an
    upper bound for what better selection could bring.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        previous = _previous_equal(x.detach())
        found = x.gather(1, (previous + 1)[..., None].expand_as(x))
        return self._gated(x, torch.where((previous >= 0)[..., None], found, 0.0))

    def init_state(self, batch_size: int) -> State:
        weight = self.gate.weight
        return {"u": weight.new_empty(batch_size, 0, weight.shape[0])}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past = torch.cat([state["u"], x[:, None]], dim=1)
        return self.forward(past)[:, -1], {"u": past}

    def state_bytes(self, seq_len: int) -> int:
        """The input of every token: T D numbers."""
        weight = self.gate.weight
        return seq_len * weight.shape[0] * weight.element_size()


def _shares(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed entries of the last dimension; zeros where none is allowed."""
    masked = scores.masked_fill(~allowed, float("-inf"))
    any_allowed = allowed.any(-1, keepdim=True)
    return torch.where(any_allowed, masked.softmax(-1).nan_to_num(), 0.0)


def _previous_equal(x: Tensor) -> Tensor:
    """(B, T) int64: the last earlier position with an equal row of x (B, T, D); -1 for none."""
    n_rows, length, _ = x.shape
    names = torch.unique(x.flatten(0, 1), dim=0, return_inverse=True)[1].view(n_rows, length)
    # Stable: equal rows follow each other by position.
    ordered, order = names.sort(dim=1, stable=True)
    before = torch.where(ordered[:, 1:] == ordered[:, :-1], order[:, :-1], -1)
    return torch.full_like(order, -1).scatter_(1, order[:, 1:], before)
