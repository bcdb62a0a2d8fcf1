"""Evaluation: a model's answers on given rows, counted."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoology_bench.data.batch import Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.training.metrics import Tallies

_LOGIT_BYTES = 256 << 20
"""Most logits held at once; they dwarf every other tensor of an evaluation."""


class Predictor(Protocol):
    """What evaluation needs of a model; learned, analytic and baseline models all have it."""

    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(B, Q) answers to the queries at ``positions`` (B, Q) of ``tokens`` (B, T)."""
        ...


@contextmanager
def evaluation_mode(model: object) -> Iterator[None]:
    """Gradients off and modules in eval mode, both given back as found.

    ``no_grad`` rather than ``inference_mode``: a module that grows a cache of positions while
    it is evaluated could not be trained with an inference tensor afterwards.
    """
    was_training = isinstance(model, nn.Module) and model.training
    if isinstance(model, nn.Module):
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if isinstance(model, nn.Module):
            model.train(was_training)


def evaluate(
    model: Predictor,
    batches: Iterable[Batch],
    vocabulary: Vocabulary,
    device: torch.device | str = "cpu",
) -> Tallies:
    """Count the answers of ``model`` on every batch.

    Args:
        model: on ``device``.
        batches: rows of the split to evaluate, in pieces that fit.
        vocabulary: which tokens are keys and values.
        device: where the model lives.
    """
    tallies = Tallies(vocabulary)
    with evaluation_mode(model):
        for batch in batches:
            tokens, positions = batch.inputs.to(device), batch.query_pos.to(device)
            tallies.add(batch, model.predict(tokens, positions))
    return tallies


def evaluate_with_loss(
    model: nn.Module,
    batches: Iterable[Batch],
    vocabulary: Vocabulary,
    device: torch.device | str = "cpu",
) -> Tallies:
    """``evaluate`` for models with logits, with their cross entropy as metric ``loss``."""
    tallies = Tallies(vocabulary)
    with evaluation_mode(model):
        for batch in batches:
            answered = [_answer(model, piece.to(device)) for piece in _pieces(batch, vocabulary)]
            predictions = torch.cat([prediction for prediction, _ in answered])
            tallies.add(batch, predictions, torch.cat([nll for _, nll in answered]))
    return tallies


def accuracy(
    model: Predictor, batches: Iterable[Batch], device: torch.device | str = "cpu"
) -> float:
    """Share of right answers and nothing else: the number that stops a run."""
    hits = n = 0
    with evaluation_mode(model):
        for batch in batches:
            tokens, positions = batch.inputs.to(device), batch.query_pos.to(device)
            right = model.predict(tokens, positions) == batch.answers.to(device)
            hits += int(right.sum())
            n += right.numel()
    return hits / n


def _answer(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    logits = model(batch.inputs, batch.query_pos).float()
    nll = F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten(), reduction="none")
    return logits.argmax(-1), nll.view_as(batch.answers)


def _pieces(batch: Batch, vocabulary: Vocabulary) -> Iterator[Batch]:
    row_bytes = batch.query_pos.shape[1] * vocabulary.size * 4
    n_rows = max(1, _LOGIT_BYTES // row_bytes)
    for start in range(0, len(batch), n_rows):
        yield batch[start : start + n_rows]
