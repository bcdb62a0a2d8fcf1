"""Attention with written-down weights recalls what was written once, and ties on what was not."""

import math
from collections.abc import Callable

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from tests.analytic.tasks import TASKS, mqar
from zoology_bench.analytic import AnalyticAttention, AnalyticAttentionConfig
from zoology_bench.analytic.attention_layers import (
    TriplesAttention,
    TwoLayerAttention,
    needed_gap,
)
from zoology_bench.data.layout import PublicLayout, Vocabulary

VOCABULARY = Vocabulary(
    size=12, keys=range(2, 6), values=range(6, 12), filler=range(0, 1), absent=1
)
BARE = Vocabulary(size=12, keys=range(2, 6), values=range(6, 12), filler=range(0, 1))
FORMS = [("two_layer", "linear"), ("two_layer", "softmax")]
TRIPLES = [("triples", "linear"), ("triples", "softmax")]


def layout(seq_len: int, *, name: str = "odd", vocabulary: Vocabulary = VOCABULARY) -> PublicLayout:
    return PublicLayout(
        name=name,
        vocabulary=vocabulary,
        seq_len=seq_len,
        min_distance=2,
        max_distance=seq_len - 1,
    )


def hits_and_cover(name: str, form: str, read_out: str) -> tuple[Tensor, Tensor, Tensor]:
    task = TASKS[name]
    batch = task.rows("report", 0, 0, 40)
    model = AnalyticAttention.for_task(task, form=form, read_out=read_out)
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    earlier = batch.inputs[:, None] == batch.query_tokens[..., None]
    written = task.public_layout().written(batch.inputs)[:, None]
    earlier &= written & (torch.arange(task.seq_len) < batch.query_pos[..., None])
    return hits, model.covered(batch), earlier.sum(-1)


@pytest.mark.parametrize(("form", "read_out"), FORMS, ids=" ".join)
@pytest.mark.parametrize("name", TASKS)
def test_hits_equal_the_prediction(name: str, form: str, read_out: str) -> None:
    hits, covered, n_writes = hits_and_cover(name, form, read_out)
    assert torch.equal(hits, covered)
    # Re-bound keys tie; everything else, absent keys included, is answered.
    assert torch.equal(hits, n_writes <= 1)
    assert bool((n_writes > 1).any()) == ("rebound" in name or name == "stream-all")


@pytest.mark.parametrize(("form", "read_out"), TRIPLES, ids=" ".join)
@pytest.mark.parametrize("name", [name for name in TASKS if name.startswith("triples")])
def test_hits_equal_the_prediction_on_whole_triples(name: str, form: str, read_out: str) -> None:
    hits, covered, n_writes = hits_and_cover(name, form, read_out)
    assert torch.equal(hits, covered)
    assert torch.equal(hits, n_writes <= 1)


def noise(length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(12, (40, length), generator=generator)


@pytest.mark.parametrize(("form", "read_out"), FORMS + TRIPLES, ids=" ".join)
@pytest.mark.parametrize("vocabulary", [VOCABULARY, BARE], ids=["absent", "none"])
def test_the_dense_layers_equal_the_counts_on_any_tokens(
    form: str, read_out: str, vocabulary: Vocabulary
) -> None:
    tokens = noise(18)
    at = torch.arange(2, 18, 3).expand(len(tokens), -1)
    models = [
        AnalyticAttention(
            layout(18, name="triples", vocabulary=vocabulary),
            form=form,
            read_out=read_out,
            implementation=implementation,
        )
        for implementation in ("token", "literal")
    ]
    counted, dense = (model(tokens, at) for model in models)
    if read_out == "linear":
        assert torch.equal(counted, dense)
    else:
        # The dense masses are divided by the softmax's sum.
        dense = dense / dense.sum(-1, keepdim=True).clamp(min=1e-300)
        counted = counted / counted.sum(-1, keepdim=True).clamp(min=1e-300)
        torch.testing.assert_close(counted, dense, rtol=1e-9, atol=1e-12)
    predicted = models[0].predict(tokens, at)
    assert (predicted >= 6).any() and (predicted == models[0].nothing).any()


def test_a_key_written_twice_is_a_tie_and_the_value_written_most_often_wins() -> None:
    twice = torch.tensor([[2, 6, 2, 7, 2, 0, 0, 0]])
    mostly = torch.tensor([[2, 6, 2, 7, 2, 7, 2, 0]])
    for form, read_out in FORMS:
        model = AnalyticAttention(layout(8), form=form, read_out=read_out)
        logits = model(twice, torch.tensor([[4]]))[0, 0]
        assert logits[6] == logits[7] == logits.max()
        assert model.predict(twice, torch.tensor([[4]])).tolist() == [[-1]]
        assert model.predict(mostly, torch.tensor([[6]])).tolist() == [[7]]


@pytest.mark.parametrize(("form", "read_out"), FORMS, ids=" ".join)
@pytest.mark.parametrize("implementation", ["token", "literal"])
def test_no_answer_depends_on_later_tokens(form: str, read_out: str, implementation: str) -> None:
    model = AnalyticAttention(
        layout(18), form=form, read_out=read_out, implementation=implementation
    )
    tokens, other = noise(18), noise(18, seed=1)
    for cut in (5, 11, 17):
        changed = torch.cat([tokens[:, :cut], other[:, cut:]], 1)
        upto = torch.arange(cut).expand(len(tokens), -1)
        assert torch.equal(model.predict(tokens, upto), model.predict(changed, upto))


def rivals(m: int) -> tuple[Tensor, PublicLayout]:
    """A pair to recall, m rows that hold one other value, then a written and an unwritten key."""
    vocabulary = Vocabulary(
        size=8, keys=range(2, 5), values=range(5, 8), filler=range(0, 1), absent=1
    )
    row = [2, 5, *[3, 6] * m, 2, 4]
    return torch.tensor([row]), layout(len(row), vocabulary=vocabulary)


def answers(m: int, dtype: torch.dtype, gap: float) -> list[int]:
    tokens, where = rivals(m)
    layers = TwoLayerAttention.of(where.vocabulary, where.seq_len, dtype)
    mass, sink = layers(tokens, gap)
    assert mass.dtype == dtype
    mass[..., where.vocabulary.absent] += sink
    best = mass[0, -2:].topk(2, dim=-1)
    clear = best.values[:, 0] > best.values[:, 1]
    return torch.where(clear, best.indices[:, 0], -1).tolist()


@pytest.mark.parametrize("m", [1, 2, 7, 40, 150])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_needed_gap_is_enough_and_less_than_its_exact_part_is_not(
    m: int, dtype: torch.dtype
) -> None:
    assert answers(m, dtype, needed_gap(m, dtype)) == [5, 1]
    if m > 1:
        assert answers(m, dtype, 2 * math.log(m) * 0.9) != [5, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_below_a_rounding_error_even_one_rival_ties(dtype: torch.dtype) -> None:
    assert answers(1, dtype, torch.finfo(dtype).eps / 8) != [5, 1]
    assert needed_gap(1, dtype) < 11 * torch.finfo(dtype).eps


def test_bfloat16_needs_more_than_float32() -> None:
    # This gap is exact in fp32 and is rounded away in bf16.
    gap = 2 * needed_gap(1, torch.float32)
    assert answers(1, torch.float32, gap) == [5, 1]
    assert answers(1, torch.bfloat16, gap) != [5, 1]


def test_a_gap_that_is_too_small_is_predicted_to_miss() -> None:
    task = mqar("prefix", 64, 8, absent_rate=0.4)
    batch = task.rows("report", 0, 0, 40)
    # The sink beats one value at any gap; a tie needs a gap of zero in float64.
    small = AnalyticAttention.for_task(task, read_out="softmax", score_gap=1e-18)
    hits = small.predict(batch.inputs, batch.query_pos) == batch.answers
    assert torch.equal(hits, small.covered(batch))
    assert not hits.any()


def test_sizes_are_what_is_stored() -> None:
    for length in (9, 12):
        where = layout(length, name="triples")
        two = AnalyticAttention(where)
        assert two.size().n_params == TwoLayerAttention.of(VOCABULARY, length).n_stored()
        one = AnalyticAttention(where, form="triples")
        assert one.size().n_params == TriplesAttention.of(VOCABULARY).n_stored() == 9 * 144
        assert (one.size().depth, one.size().width) == (1, 36)
        assert (two.size().depth, two.size().width) == (2, 24)
        assert two.n_params().total == two.size().n_params and two.n_layers == 2


def test_the_configuration_survives_omegaconf_and_builds_what_it_says() -> None:
    config = AnalyticAttentionConfig(read_out="softmax", score_gap=9.0, implementation="literal")
    assert OmegaConf.to_object(OmegaConf.structured(config)) == config
    model = config.build(layout(8))
    assert (model.gap, model.implementation, model.form, model.causal) == (
        9.0,
        "literal",
        "two_layer",
        True,
    )
    assert config.mixer_label == "two_layer softmax"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AnalyticAttentionConfig(form="tripels"), "model.form='tripels' is unknown; did"),
        (lambda: AnalyticAttentionConfig(read_out="sofmax"), "model.read_out='sofmax' is unknown"),
        (lambda: AnalyticAttentionConfig(implementation="x"), "model.implementation='x' is unkn"),
        (
            lambda: AnalyticAttentionConfig(score_gap=3.0),
            "model.score_gap=3.0 needs model.read_out=softmax",
        ),
        (
            lambda: AnalyticAttentionConfig(read_out="softmax", score_gap=-1.0),
            "model.score_gap=-1.0 must be positive and finite",
        ),
        (
            lambda: AnalyticAttention(layout(9), form="triples"),
            "model.form=triples needs task.layout=triples, not odd: use two_layer",
        ),
        (
            lambda: AnalyticAttention.for_task(mqar("prefix", 3000, 8), implementation="literal"),
            "literal holds 19120000 weights for task.vocab_size=400 and task.seq_len=3000",
        ),
        (
            lambda: AnalyticAttention(layout(9)).predict(torch.tensor([[12]]), torch.tensor([[0]])),
            "tokens span 12..12, outside task.vocab_size=12",
        ),
        (
            lambda: AnalyticAttention(
                layout(
                    9,
                    vocabulary=Vocabulary(
                        size=12, keys=range(0), values=range(2, 3), filler=range(1)
                    ),
                )
            ),
            "task.layout=odd has no key and value roles",
        ),
    ],
    ids=[
        "form",
        "read-out",
        "implementation",
        "no-softmax",
        "gap",
        "layout",
        "size",
        "token",
        "roles",
    ],
)
def test_bad_arguments_get_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
