"""Written weights recall exactly, noise takes it away, and what cannot hold them is refused."""

import pytest
import torch

from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.models import LanguageModelConfig
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import Fixed
from zoology_bench.training import seeding

LAG = 14
SMALL = {"seq_len": 32, "n_kv_pairs": 4, "vocab_size": 64, "n_filler_tokens": 8}
TASKS = {
    "attention": {
        "prefix": MQAR(**SMALL),
        "disjoint": MQAR(**SMALL, filler="disjoint"),
        "stream": MQAR(**{**SMALL, "seq_len": 33}, layout="stream", n_queries=2),
        "triples": MQAR(
            **{**SMALL, "seq_len": 33, "n_kv_pairs": 11}, layout="triples", n_queries=4
        ),
    },
    "base_conv": {"prefix": MQAR(**SMALL, distance=Fixed(values=[LAG]))},
}
MIXERS = {
    "attention": AttentionConfig(n_heads=1),
    "base_conv": BaseConvConfig(filters=["explicit"]),
}
CASES = [(mixer, task) for mixer in MIXERS for task in TASKS[mixer]]


def config(name: str, seq_len: int = 32, **fields) -> LanguageModelConfig:
    distance = {"init_distance": LAG} if name == "base_conv" else {}
    defaults = {"vocab_size": 64, "seq_len": seq_len, "d_model": 161, "mixer": MIXERS[name]}
    return LanguageModelConfig(**{**defaults, "init": "analytic", **distance, **fields})


def accuracy(mixer: str, task: MQAR, **fields) -> float:
    model = config(mixer, task.seq_len, **fields).build(seeding.generator(0, "init"))
    rows = task.rows("report", 0, 0, 400)
    return float((model.predict(rows.inputs, rows.query_pos) == rows.answers).double().mean())


@pytest.mark.parametrize(("mixer", "task"), CASES)
def test_written_weights_answer_every_query(mixer, task):
    assert accuracy(mixer, TASKS[mixer][task]) == 1.0


@pytest.mark.parametrize("mixer", MIXERS)
def test_noise_takes_the_recall_away_by_degrees(mixer):
    found = [accuracy(mixer, TASKS[mixer]["prefix"], init_noise=n) for n in (0.1, 0.5, 4.0)]
    assert found[0] > 0.97 and found[0] > found[1] + 0.1 > found[2] + 0.2
    assert found[2] < 0.1


def test_base_conv_answers_its_own_distance_alone():
    other = MQAR(**SMALL, distance=Fixed(values=[LAG + 1]))
    assert accuracy("base_conv", other) < 0.05


def test_attention_needs_its_previous_token_layer(monkeypatch):
    from zoology_bench.models import analytic_init

    identity = analytic_init._identity

    def without_the_shift(weight, rows, columns, size=1.0):
        # Position i asks for itself: layer 2 then matches the query's own token.
        identity(weight, rows, rows if len(rows) == 31 == len(columns) else columns, size)

    monkeypatch.setattr(analytic_init, "_identity", without_the_shift)
    assert accuracy("attention", TASKS["attention"]["prefix"]) < 0.3


def test_every_parameter_is_written_and_trains():
    for mixer, task in CASES[::4]:
        model = config(mixer).build(seeding.generator(0, "init"))
        rows = TASKS[mixer][task].rows("train", 0, 0, 8)
        logits = model(rows.inputs, rows.query_pos)
        assert torch.isfinite(logits).all()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows.answers.flatten()).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("mixer", "fields", "message"),
    [
        ("attention", {"d_model": 159}, r"model\.d_model=159 is too narrow .* at least 160"),
        ("attention", {"n_layers": 1}, r"needs model\.n_layers=2"),
        ("attention", {"mixer": AttentionConfig(n_heads=7)}, r"needs model\.mixer\.n_heads=1"),
        ("base_conv", {"d_model": 127}, r"at least 128"),
        ("base_conv", {"init_distance": 32}, r"model\.init_distance=32 must lie in 2\.\.31"),
        ("base_conv", {"mixer": BaseConvConfig()}, r"needs model\.mixer\.filters=\[explicit\]"),
        ("base_conv", {"init": "random"}, r"model\.init_distance=14 need model\.init=analytic"),
        ("attention", {"init_noise": -1.0}, r"model\.init_noise=-1\.0 must not be negative"),
        ("attention", {"init_noise": 1.0, "init": "recipe"}, r"need model\.init=analytic"),
    ],
)
def test_what_cannot_hold_the_construction_is_refused(mixer, fields, message):
    with pytest.raises(ValueError, match=message):
        config(mixer, **fields)
