import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.training.toy import SELECT_ROWS, VOCABULARY, ToyModel, toy_rows
from zoology_bench.data.batch import concat
from zoology_bench.training import evaluate as module
from zoology_bench.training.evaluate import accuracy, evaluate, evaluate_with_loss

MODEL = ToyModel(dropout=0.5)


class CachingModel(ToyModel):
    """Keeps a table of positions from its first call, as many public modules do."""

    table = None

    def forward(self, tokens, positions):
        if self.table is None or len(self.table) < tokens.shape[1]:
            self.table = torch.linspace(0.5, 1.5, tokens.shape[1])
        x = self.embedding(tokens) * self.table[: tokens.shape[1], None]
        return self.out(x.gather(1, positions[..., None].expand(-1, -1, 16)))


def test_accuracy_equals_the_full_tallies_and_a_count_by_hand():
    rows = concat(SELECT_ROWS)
    MODEL.eval()
    by_hand = (MODEL(rows.inputs, rows.query_pos).argmax(-1) == rows.answers).double().mean()
    assert accuracy(MODEL, SELECT_ROWS) == float(by_hand)
    assert evaluate(MODEL, SELECT_ROWS, VOCABULARY).accuracy() == float(by_hand)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_dropout_is_off_inside_and_the_mode_is_given_back(training):
    MODEL.train(training)
    results = {accuracy(MODEL, SELECT_ROWS) for _ in range(5)}
    assert len(results) == 1
    assert MODEL.training is training


def test_mode_is_given_back_after_an_error():
    MODEL.train()
    with pytest.raises(IndexError), module.evaluation_mode(MODEL):
        raise IndexError
    assert MODEL.training
    assert torch.is_grad_enabled()


def test_model_that_caches_while_evaluated_can_be_trained_afterwards():
    model = CachingModel()
    accuracy(model, SELECT_ROWS)
    rows = toy_rows(0)
    F.cross_entropy(
        model(rows.inputs, rows.query_pos).flatten(0, 1), rows.answers.flatten()
    ).backward()


def test_predictor_need_not_be_a_module():
    class Oracle:
        def predict(self, tokens, positions):
            return tokens.gather(1, positions) + 8

    assert evaluate(Oracle(), SELECT_ROWS, VOCABULARY).accuracy() == 1.0
    assert accuracy(Oracle(), SELECT_ROWS) == 1.0


def test_loss_is_that_of_the_logits_whatever_the_chunks(monkeypatch):
    rows = concat(SELECT_ROWS)
    MODEL.eval()
    logits = MODEL(rows.inputs, rows.query_pos).detach()
    expected = float(F.cross_entropy(logits.flatten(0, 1), rows.answers.flatten()))
    found = {}
    for limit in (1, 256 << 20):  # one row at a time, then all at once
        monkeypatch.setattr(module, "_LOGIT_BYTES", limit)
        tallies = evaluate_with_loss(MODEL, SELECT_ROWS, VOCABULARY)
        found[limit] = {t.metric: t.value for t in tallies.rows() if t.slice_key == ""}
        assert found[limit]["loss"] == pytest.approx(expected, rel=1e-6)
        assert tallies.accuracy() == accuracy(MODEL, SELECT_ROWS)


def test_chunks_bound_the_logits_held_at_once(monkeypatch):
    rows_seen = []

    class Recorder(nn.Module):
        def forward(self, tokens, positions):
            rows_seen.append(len(tokens))
            return MODEL(tokens, positions)

    row_bytes = 4 * VOCABULARY.size * 4
    monkeypatch.setattr(module, "_LOGIT_BYTES", 7 * row_bytes)
    evaluate_with_loss(Recorder(), [toy_rows(0, 20)], VOCABULARY)
    assert rows_seen == [7, 7, 6]
