"""What a model got right and how it went wrong, as counts with row-clustered standard errors.

Letters: B rows of a batch, T tokens, Q queries of a row.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.training.errors import ERROR_KINDS, classify_errors

NO_ANSWER = -1
"""Prediction of a model that gives none: counted as wrong, kind ``other``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """One metric of one slice of the queries."""

    slice_key: str
    """Empty for all queries; distance, binding_distance or absent."""
    slice_value: str
    """``lo-hi``, a single integer, yes or no; empty for all queries."""
    metric: str
    """accuracy, loss (nats), or the share of one kind of error among all queries."""
    value: float
    """hits / n."""
    hits: float
    """Queries that count (a sum of probabilities or nats where the metric is one)."""
    n: int
    """Queries of the slice."""
    n_rows: int
    """Rows with a query in the slice: the clusters behind ``se``."""
    se: float
    """Standard error of ``value`` with rows as clusters; nan for fewer than two rows."""


def half_octave_edges(largest: int) -> list[int]:
    """First integers 0, 1, 2, 3, 4, 6, 8, 12, 16, 23 ... of the bins up to ``largest``."""
    edges = [0, 1]
    exponent = 2
    while (edge := math.isqrt((1 << exponent) - 1) + 1) <= largest:  # ceil of 2^(exponent / 2)
        edges.append(edge)
        exponent += 1
    return edges


_EDGES = half_octave_edges(1 << 40)
_EDGE_TENSOR = torch.tensor(_EDGES)


def bin_label(index: int) -> str:
    """``lo-hi`` of a half-octave bin, or the integer itself where it holds only one."""
    low, high = _EDGES[index], _EDGES[index + 1] - 1
    return str(low) if low == high else f"{low}-{high}"


def bin_of(distance: int) -> str:
    """Label of the half-octave bin that holds a distance: 5 -> ``4-5``."""
    return bin_label(bisect_right(_EDGES, distance) - 1)


@dataclass(slots=True)
class _Moments:
    """Sums over rows of h (hits of the row) and n (its queries): enough for the clustered error."""

    h: float = 0.0
    n: int = 0
    hh: float = 0.0
    hn: float = 0.0
    nn: int = 0
    n_rows: int = 0

    def standard_error(self) -> float:
        """Linearised variance of the ratio sum(h) / sum(n), independent rows of unequal size.

        Cochran, Sampling Techniques, eq. 6.13, without the finite-population term.
        """
        if self.n_rows < 2:
            return math.nan
        ratio = self.h / self.n
        squares = max(0.0, self.hh - 2 * ratio * self.hn + ratio * ratio * self.nn)
        return math.sqrt(squares * self.n_rows / (self.n_rows - 1)) / self.n


_Key = tuple[str, int, str]


@dataclass(slots=True)
class Tallies:
    """Accumulates over batches; a row must arrive within one batch, batches may differ in shape."""

    vocabulary: Vocabulary
    _moments: dict[_Key, _Moments] = field(default_factory=dict)

    def add(self, batch: Batch, predictions: Tensor, nll: Tensor | None = None) -> None:
        """Count one batch of answers.

        Args:
            batch: the rows that were asked.
            predictions: (B, Q) integer tokens, ``NO_ANSWER`` where the model gives none.
            nll: (B, Q) cross entropy of the true answers in nats, where the model has one.

        Raises:
            ValueError: a tensor is not (B, Q), or predictions are not integers.
        """
        batch = batch.to("cpu")
        predictions = _checked("predictions", predictions, batch)
        if predictions.is_floating_point() or predictions.dtype == torch.bool:
            raise ValueError(f"predictions are {predictions.dtype}, not integers")
        self._add_accuracy(batch, (predictions == batch.answers).double())
        kinds = classify_errors(predictions.to(torch.int64), batch, self.vocabulary)
        everywhere = torch.zeros_like(kinds)
        for code, kind in enumerate(ERROR_KINDS, start=1):
            self._accumulate("", everywhere, kind, (kinds == code).double(), n_bins=1)
        if nll is not None:
            nll = _checked("nll", nll, batch).double()
            self._accumulate("", everywhere, "loss", nll, n_bins=1)

    def add_hit_probability(self, batch: Batch, hit_probability: Tensor) -> None:
        """Count one batch of a guesser by its chance (B, Q) of being right: accuracy only."""
        batch = batch.to("cpu")
        self._add_accuracy(batch, _checked("hit_probability", hit_probability, batch).double())

    def rows(self) -> list[Tally]:
        """Every metric counted so far: all queries first, then the slices in ascending order."""
        return [_tally(key, self._moments[key]) for key in sorted(self._moments, key=_order)]

    def accuracy(self) -> float:
        """Accuracy over all queries; nan before the first batch."""
        overall = self._moments.get(("", 0, "accuracy"))
        return overall.h / overall.n if overall else math.nan

    def _add_accuracy(self, batch: Batch, hits: Tensor) -> None:
        n_bins = len(_EDGES)
        absent = batch.key_pos < 0
        self._accumulate("", torch.zeros_like(batch.key_pos), "accuracy", hits, n_bins=1)
        if self.vocabulary.absent is not None and bool(absent.any()):
            self._accumulate("absent", absent.long(), "accuracy", hits, n_bins=2)
        for name, distances in (
            ("distance", batch.distance),
            ("binding_distance", batch.binding_distance),
        ):
            bins = torch.bucketize(distances, _EDGE_TENSOR, right=True) - 1
            self._accumulate(name, bins.masked_fill(absent, n_bins), "accuracy", hits, n_bins)

    def _accumulate(
        self, slice_key: str, bins: Tensor, metric: str, hits: Tensor, n_bins: int
    ) -> None:
        """Add the per-row sums of ``hits`` (B, Q) by bin; bin ``n_bins`` itself is left out."""
        shape = (len(bins), n_bins + 1)
        h = torch.zeros(shape, dtype=torch.float64).scatter_add_(1, bins, hits)
        n = torch.zeros(shape, dtype=torch.float64).scatter_add_(1, bins, torch.ones_like(hits))
        sums = torch.stack((h, n, h * h, h * n, n * n, (n > 0).double())).sum(1)
        for index in torch.nonzero(sums[1, :n_bins]).flatten().tolist():
            total_h, total_n, hh, hn, nn, n_rows = sums[:, index].tolist()
            moments = self._moments.setdefault((slice_key, index, metric), _Moments())
            moments.h += total_h
            moments.n += int(total_n)
            moments.hh += hh
            moments.hn += hn
            moments.nn += int(nn)
            moments.n_rows += int(n_rows)


def tally(predictions: Tensor, batch: Batch, vocabulary: Vocabulary) -> list[Tally]:
    """Tallies of one batch.

    Args:
        predictions: (B, Q) integer tokens, or floating-point chances of being right.
        batch: the rows that were asked.
        vocabulary: which tokens are keys and values.
    """
    tallies = Tallies(vocabulary)
    if predictions.is_floating_point():
        tallies.add_hit_probability(batch, predictions)
    else:
        tallies.add(batch, predictions)
    return tallies.rows()


def _checked(name: str, tensor: Tensor, batch: Batch) -> Tensor:
    if tensor.shape != batch.query_pos.shape:
        raise ValueError(
            f"{name} have shape {tuple(tensor.shape)} but the rows ask"
            f" {tuple(batch.query_pos.shape)} (rows, queries)"
        )
    return tensor.detach().cpu()


_SLICES = ("", "absent", "distance", "binding_distance")
_METRICS = ("accuracy", "loss", *ERROR_KINDS)


def _order(key: _Key) -> tuple[int, int, int]:
    slice_key, index, metric = key
    return _SLICES.index(slice_key), index, _METRICS.index(metric)


def _tally(key: _Key, moments: _Moments) -> Tally:
    slice_key, index, metric = key
    if slice_key == "":
        value = ""
    else:
        value = ("no", "yes")[index] if slice_key == "absent" else bin_label(index)
    return Tally(
        slice_key=slice_key,
        slice_value=value,
        metric=metric,
        value=moments.h / moments.n,
        hits=moments.h,
        n=moments.n,
        n_rows=moments.n_rows,
        se=moments.standard_error(),
    )
