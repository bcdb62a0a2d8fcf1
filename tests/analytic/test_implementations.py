"""The proof's stack, the kernels and the integers give the same answers on every input."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.analytic.tasks import TASKS, mqar
from zoology_bench.analytic import AnalyticBaseConv
from zoology_bench.analytic.base_conv import literal, operator
from zoology_bench.analytic.base_conv.rows import block_weights
from zoology_bench.analytic.fft_counts import fft_counts
from zoology_bench.analytic.selection import SELECTIONS, cross_counts, raw_counts
from zoology_bench.data.layout import PublicLayout, Vocabulary

FORMS = {
    "literal": {"implementation": "literal"},
    "operator-shift": {"implementation": "operator", "kernel": "shift"},
    "operator-fft": {"implementation": "operator", "kernel": "fft"},
    "token-fft": {"implementation": "token", "autocorrelation": "fft"},
}


DENSE = ("literal", "operator-shift", "operator-fft")


def given(selection: str) -> tuple[int, ...]:
    return (5, 14, 17) if selection == "given" else ()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("name", TASKS)
def test_answers_are_the_same_on_every_layout(name: str, selection: str, form: str) -> None:
    task = replace(TASKS[name], vocab_size=96)
    n_rows = 1 if selection == "prefix_causal" else 3
    batch = task.rows("report", 0, 0, n_rows)
    token = AnalyticBaseConv.for_task(task, 3, selection, lags=given(selection))
    other = AnalyticBaseConv.for_task(task, 3, selection, lags=given(selection), **FORMS[form])
    expected = token.predict(batch.inputs, batch.query_pos)
    assert torch.equal(other.predict(batch.inputs, batch.query_pos), expected)


def noise(n_rows: int, length: int, seed: int) -> tuple[PublicLayout, Tensor]:
    """Any tokens anywhere: few keys and values, so that writes, questions and ties abound."""
    vocabulary = Vocabulary(
        size=11, keys=range(2, 5), values=range(5, 11), filler=range(0, 1), absent=1
    )
    layout = PublicLayout(
        name="noise",
        vocabulary=vocabulary,
        seq_len=length,
        min_distance=2,
        max_distance=length - 1,
    )
    generator = torch.Generator().manual_seed(seed)
    return layout, torch.randint(11, (n_rows, length), generator=generator)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("n_distances", [1, 3, 7])
def test_answers_are_the_same_on_any_tokens(n_distances: int, selection: str, form: str) -> None:
    n_rows = 3 if selection == "prefix_causal" else 12
    layout, tokens = noise(n_rows, 17, seed=n_distances)
    everywhere = torch.arange(17).expand(len(tokens), -1)
    lags = (2, 9, 4, 3, 16, 1, 6)[:n_distances] if selection == "given" else ()
    token = AnalyticBaseConv(layout, n_distances, selection, lags=lags)
    other = AnalyticBaseConv(layout, n_distances, selection, lags=lags, **FORMS[form])
    expected = token.predict(tokens, everywhere)
    assert (expected >= 5).any()
    assert torch.equal(other.predict(tokens, everywhere), expected)


def test_linear_sums_weights_let_the_last_write_win_over_many_stale_ones() -> None:
    vocabulary = Vocabulary(size=8, keys=range(2, 4), values=range(4, 8), filler=range(0, 1))
    layout = PublicLayout(
        name="odd", vocabulary=vocabulary, seq_len=40, min_distance=2, max_distance=39
    )
    row = torch.tensor([[2, 4] * 18 + [2, 5, 2, 0]])
    lags = tuple(range(2, 39, 2))
    for form in FORMS.values():
        model = AnalyticBaseConv(layout, len(lags), "given", lags=lags, **form)
        assert model.predict(row, torch.tensor([[38]])).tolist() == [[5]]


@pytest.mark.parametrize(
    ("dtype", "most"),
    [(torch.bfloat16, 9), (torch.float32, 25), (torch.float64, 54)],
    ids=["bf16", "fp32", "fp64"],
)
def test_the_margin_of_the_nearest_match_survives_rounding_up_to(
    dtype: torch.dtype, most: int
) -> None:
    def apart(n_distances: int) -> bool:
        first, *later = block_weights(n_distances).tolist()
        return bool(torch.tensor(first, dtype=dtype) > torch.tensor(math.fsum(later), dtype=dtype))

    assert [apart(n) for n in (most, most + 1)] == [True, False]


@pytest.mark.parametrize("selection", ["prefix_causal", "given"])
@pytest.mark.parametrize("form", [{}, *FORMS.values()], ids=["token", *FORMS])
def test_causal_selections_ignore_every_later_token(selection: str, form: dict) -> None:
    layout, tokens = noise(3, 13, seed=3)
    lags = (2, 5, 6) if selection == "given" else ()
    model = AnalyticBaseConv(layout, 3, selection, lags=lags, **form)
    for cut in (6, 9, 12):
        changed = tokens.clone()
        changed[:, cut:] = noise(3, 13, seed=4)[1][:, cut:]
        upto = torch.arange(cut).expand(len(tokens), -1)
        assert torch.equal(model.predict(tokens, upto), model.predict(changed, upto))


def test_logits_of_the_dense_forms_are_equal_and_their_argmax_is_the_answer() -> None:
    task = TASKS["stream-all"]
    batch = task.rows("report", 0, 0, 3)
    logits = []
    for name in DENSE:
        model = AnalyticBaseConv.for_task(task, 4, **FORMS[name])
        logits.append(model(batch.inputs, batch.query_pos))
        predicted = model.predict(batch.inputs, batch.query_pos)
        assert torch.equal(logits[-1].argmax(-1), predicted)
    assert torch.equal(logits[0], logits[1]) and torch.equal(logits[0], logits[2])
    assert logits[0].shape == (3, 6, task.vocab_size)


@pytest.mark.parametrize("seed", range(3))
def test_the_fft_counts_what_comparison_counts(seed: int) -> None:
    layout, tokens = noise(20, 31, seed)
    asked, written = layout.asked(tokens), layout.written(tokens)
    every = torch.ones_like(asked)
    by_fft = fft_counts(tokens, asked, written, layout.vocabulary.keys)
    assert torch.equal(by_fft, cross_counts(tokens, asked, written, 11))
    assert torch.equal(fft_counts(tokens, every, every, range(11)), raw_counts(tokens))


def test_the_fft_counts_in_pieces_of_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, tokens = noise(5, 31, 0)
    asked, written = layout.asked(tokens), layout.written(tokens)
    whole = fft_counts(tokens, asked, written, layout.vocabulary.keys)
    monkeypatch.setattr("zoology_bench.analytic.fft_counts._PIECE_BYTES", 1)
    assert torch.equal(fft_counts(tokens, asked, written, layout.vocabulary.keys), whole)


def test_the_operator_runs_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS["official"]
    batch = task.rows("report", 0, 0, 5)
    model = AnalyticBaseConv.for_task(task, 3, implementation="operator")
    whole = model.predict(batch.inputs, batch.query_pos)
    monkeypatch.setattr(operator, "MAX_CHUNK_BYTES", 1)
    assert torch.equal(model.predict(batch.inputs, batch.query_pos), whole)


def long_task() -> PublicLayout:
    return mqar("prefix", 256, 8).public_layout()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: AnalyticBaseConv(long_task(), 8, implementation="literal"),
            r"literal stacks 2 \* task.seq_len=256 \* model.n_distances=8 \* task.vocab_size=400 = "
            "1638400 entries per row, more than 1048576",
        ),
        (
            lambda: AnalyticBaseConv(long_task(), 60, implementation="operator"),
            "model.n_distances=60 exceeds the 52 blocks that model.implementation=operator",
        ),
        (
            lambda: AnalyticBaseConv(long_task(), 8, implementation="litral"),
            "model.implementation='litral' is unknown; did you mean 'literal'",
        ),
        (
            lambda: AnalyticBaseConv(long_task(), 8, kernel="ftt"),
            "model.kernel='ftt' is unknown; did you mean 'fft'",
        ),
        (
            lambda: AnalyticBaseConv(long_task(), 8, autocorrelation="ff"),
            "model.autocorrelation='ff' is unknown; did you mean 'fft'",
        ),
    ],
    ids=["literal-size", "operator-sum", "implementation", "kernel", "autocorrelation"],
)
def test_bad_arguments_get_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_operator_names_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "MAX_ROW_BYTES", 1000)
    with pytest.raises(ValueError, match=r"holds 6553600 bytes per row of task.seq_len=256"):
        AnalyticBaseConv(long_task(), 8, implementation="operator")


def test_the_stack_limit_lets_the_smallest_presets_through() -> None:
    task = mqar("official", 32, 4)
    literal.check_literal(task.public_layout(), 8)
