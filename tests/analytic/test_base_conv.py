"""The construction answers the queries it covers, exactly those, and says what it is."""

from collections.abc import Callable

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from tests.analytic.tasks import TASKS, mqar
from zoology_bench.analytic import AnalyticBaseConv, AnalyticBaseConvConfig, coverage
from zoology_bench.analytic.base_conv import model as base_conv
from zoology_bench.data.layout import PublicLayout, Vocabulary
from zoology_bench.tasks.distance import Fixed

COUNTED = ("cross", "raw", "prefix_causal")
KEYS, VALUES = range(10, 20), range(20, 30)


def layout(seq_len: int, *, name: str = "prefix", absent: int | None = 1) -> PublicLayout:
    """Keys 10..19, values 20..29, fillers 2..9, absent 1, blank 0."""
    vocabulary = Vocabulary(size=30, keys=KEYS, values=VALUES, filler=range(2, 10), absent=absent)
    return PublicLayout(
        name=name,
        vocabulary=vocabulary,
        seq_len=seq_len,
        min_distance=2,
        max_distance=seq_len - 1,
    )


def answers(
    row: list[int], at: list[int], n_distances: int, *, absent: int | None = 1
) -> list[int]:
    model = AnalyticBaseConv(layout(len(row), absent=absent), n_distances)
    return model.predict(torch.tensor([row]), torch.tensor([at]))[0].tolist()


# Distances 4, 4 and 9: position 4 asks 0, 6 asks 2, 16 asks 7.
THREE_QUERIES = [10, 20, 11, 21, 10, 0, 11, 12, 22, 0, 0, 0, 0, 0, 0, 0, 12, 0]


def test_the_most_frequent_distance_is_answered_first() -> None:
    assert answers(THREE_QUERIES, [4, 6, 16], 1) == [20, 21, 1]
    assert answers(THREE_QUERIES, [4, 6, 16], 2) == [20, 21, 22]


def test_ties_go_to_the_smaller_lag() -> None:
    row = [10, 20, 11, 21, 0, 11, 10, 0]
    assert answers(row, [5, 6], 1) == [21, 1]


def test_more_distances_than_the_row_has_change_nothing() -> None:
    assert answers(THREE_QUERIES, [4, 6, 16], 17) == [20, 21, 22]


def test_the_last_write_of_a_key_wins() -> None:
    row = [10, 20, 10, 21, 0, 0, 10, 0]
    assert answers(row, [6], 2) == [21]
    # With one lag the smaller, hence later write is the one that is looked at.
    assert answers(row, [6], 1) == [21]


def test_a_stale_value_is_read_where_only_the_earlier_write_is_selected() -> None:
    # Lag 6 occurs twice and lag 4 once: key 10 was re-bound to 21, but its first write is read.
    row = [10, 20, 10, 21, 11, 22, 10, 0, 0, 0, 11, 0]
    assert answers(row, [6, 10], 1) == [20, 22]
    assert answers(row, [6, 10], 2) == [21, 22]


@pytest.mark.parametrize(("absent", "expected"), [(1, 1), (None, -1)], ids=["absent", "none"])
def test_no_match_is_the_absent_token_or_nothing(absent: int | None, expected: int) -> None:
    row = [10, 20, 0, 0, 13, 0]
    assert answers(row, [4], 3, absent=absent) == [expected]
    model = AnalyticBaseConv(layout(6, absent=absent), 3)
    logits = model(torch.tensor([row]), torch.tensor([[4]]))[0, 0]
    assert logits.sum().item() == (0 if absent is None else 1)
    assert absent is None or logits[absent] == 1


def test_positions_only_select_outputs() -> None:
    everywhere = list(range(len(THREE_QUERIES)))
    got = answers(THREE_QUERIES, everywhere, 2)
    asked = {4: 20, 6: 21, 16: 22}
    assert got == [asked.get(i, 1) for i in everywhere]


def test_a_key_being_written_asks_nothing() -> None:
    # Lag 2 is selected, and position 2 holds the key that stands 2 before it.
    assert answers([10, 20, 10, 21, 10, 0], [2, 4], 2) == [1, 21]


def test_an_earlier_question_is_no_write() -> None:
    # Lags 4 and 8 are selected; 4 before position 8 the same key was asked, not written.
    assert answers([10, 20, 0, 0, 10, 0, 0, 0, 10, 0], [4, 8], 2) == [20, 20]


def test_logits_are_one_at_the_prediction() -> None:
    task = TASKS["official"]
    batch = task.rows("report", 0, 0, 20)
    model = AnalyticBaseConv.for_task(task, 4)
    logits = model(batch.inputs, batch.query_pos)
    predicted = model.predict(batch.inputs, batch.query_pos)
    assert logits.shape == (20, 8, task.vocab_size) and logits.dtype == torch.float32
    assert torch.equal(logits.sum(-1), (predicted >= 0).float())
    found = predicted >= 0
    assert torch.equal(logits.argmax(-1)[found], predicted[found])


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("n_distances", [1, 3, 8])
@pytest.mark.parametrize("selection", COUNTED)
def test_hits_equal_coverage(name: str, n_distances: int, selection: str) -> None:
    task = TASKS[name]
    batch = task.rows("report", 0, 0, 60)
    model = AnalyticBaseConv.for_task(task, n_distances, selection)
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    assert torch.equal(hits, coverage(batch, n_distances, task=task, selection=selection))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("lags", [(14,), (17, 20, 8), tuple(range(5, 40))], ids=len)
def test_hits_equal_coverage_for_given_lags(name: str, lags: tuple[int, ...]) -> None:
    task = TASKS[name]
    batch = task.rows("report", 0, 0, 60)
    model = AnalyticBaseConv.for_task(task, len(lags), "given", lags=lags)
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    covered = coverage(batch, len(lags), task=task, selection="given", lags=lags)
    assert torch.equal(hits, covered)
    assert torch.equal(model.covered(batch), covered)
    assert torch.equal(covered, coverage(batch, len(lags), selection="given", lags=lags))


def test_given_lags_answer_their_distances_and_no_other() -> None:
    task = mqar("stream", 64, 8, distance=Fixed(values=[5, 12, 20]))
    batch = task.rows("report", 0, 0, 100)
    model = AnalyticBaseConv.for_task(task, 2, "given", lags=(20, 5))
    hits = model.predict(batch.inputs, batch.query_pos) == batch.answers
    assert torch.equal(hits, batch.distance != 12)
    assert model.causal


@pytest.mark.parametrize("name", ["official", "prefix", "stream", "triples", "probe"])
def test_every_distance_selected_answers_everything(name: str) -> None:
    task = TASKS[name]
    batch = task.rows("report", 0, 0, 60)
    model = AnalyticBaseConv.for_task(task, task.seq_len - 1)
    assert torch.equal(model.predict(batch.inputs, batch.query_pos), batch.answers)


def test_one_distance_too_many_misses_exactly_its_queries() -> None:
    task = mqar("stream", 64, 8, distance=Fixed(values=[5, 12, 20]))
    batch = task.rows("report", 0, 0, 200)
    right = AnalyticBaseConv.for_task(task, 3).predict(batch.inputs, batch.query_pos)
    assert torch.equal(right, batch.answers)
    hits = AnalyticBaseConv.for_task(task, 2).predict(batch.inputs, batch.query_pos)
    hits = hits == batch.answers
    for row in range(len(batch)):
        distances = batch.distance[row].tolist()
        by_frequency = sorted(set(distances), key=lambda s: (-distances.count(s), s))
        assert hits[row].tolist() == [s in by_frequency[:2] for s in distances]
    assert 0.5 < hits.double().mean() < 0.95


def test_prefix_causal_ignores_later_tokens_and_cross_does_not() -> None:
    task = mqar("stream", 96, 16)
    batch = task.rows("report", 0, 0, 50)
    other = task.rows("report", 0, 50, 100).inputs
    cut = 60
    changed = torch.cat([batch.inputs[:, : cut + 1], other[:, cut + 1 :]], dim=1)
    everywhere = torch.arange(cut).expand(len(batch), -1)

    def same(selection: str) -> bool:
        model = AnalyticBaseConv.for_task(task, 2, selection)
        before, after = (model.predict(x, everywhere) for x in (batch.inputs, changed))
        return torch.equal(before, after)

    assert same("prefix_causal")
    assert not same("cross")
    for selection in COUNTED:
        config = AnalyticBaseConvConfig(selection=selection)
        causal = selection == "prefix_causal"
        assert config.causal == causal
        assert config.build(task.public_layout()).causal == causal


def test_the_printed_autocorrelation_misses_what_the_cross_correlation_answers() -> None:
    # Erratum to eq. 19: with zero filler, equal fillers outvote every query.
    task = TASKS["prefix"]
    batch = task.rows("report", 0, 0, 200)

    def share(selection: str) -> float:
        model = AnalyticBaseConv.for_task(task, 8, selection)
        return (
            (model.predict(batch.inputs, batch.query_pos) == batch.answers).double().mean().item()
        )

    assert share("cross") == 1.0
    assert share("raw") < 0.8


@pytest.mark.parametrize("selection", COUNTED)
def test_chunks_do_not_change_answers(selection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS["stream-all"]
    batch = task.rows("report", 0, 0, 20)
    model = AnalyticBaseConv.for_task(task, 3, selection)
    expected = model.predict(batch.inputs, batch.query_pos)
    for limit in (1, 8 * task.seq_len * 3):
        monkeypatch.setattr(base_conv, "CHUNK_BYTES", limit)
        assert torch.equal(model.predict(batch.inputs, batch.query_pos), expected)


def test_the_size_follows_the_theorem() -> None:
    counts = [AnalyticBaseConv(layout(100), j).n_params() for j in (1, 2, 3)]
    assert counts[0].total == counts[0].mixer == 7 * 100 * 30 + 3 * 30 + 1
    # O(J T V): each further distance adds the same.
    assert counts[2].total - counts[1].total == counts[1].total - counts[0].total
    assert AnalyticBaseConv(layout(100), 1).state_bytes(100) is None


def test_the_configuration_survives_omegaconf_and_names_itself() -> None:
    config = AnalyticBaseConvConfig(n_distances=3, selection="raw")
    assert OmegaConf.to_object(OmegaConf.structured(config)) == config
    assert (config.label, config.mixer_label) == ("analytic_base_conv", "raw J=3")
    assert not config.needs_training
    given = AnalyticBaseConvConfig(n_distances=2, selection="given", lags=[3, 8])
    model = given.build(layout(10))
    assert (model.lags, model.causal, given.causal) == ([3, 8], True, True)
    dense = AnalyticBaseConvConfig(implementation="operator", kernel="fft", autocorrelation="fft")
    model = dense.build(layout(10))
    assert (model.implementation, model.kernel, model.autocorrelation) == ("operator", "fft", "fft")


def roleless() -> PublicLayout:
    empty = Vocabulary(size=30, keys=range(0), values=VALUES, filler=range(1))
    return PublicLayout(name="odd", vocabulary=empty, seq_len=8, min_distance=2, max_distance=7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AnalyticBaseConvConfig(n_distances=0), "model.n_distances=0 must be at least 1"),
        (lambda: AnalyticBaseConv(layout(8), 0), "model.n_distances=0 must be at least 1"),
        (lambda: AnalyticBaseConv(layout(8), 8), "n_distances=8 exceeds the 7 lags of task.seq"),
        (
            lambda: AnalyticBaseConvConfig(selection="cros"),
            "model.selection='cros' is unknown; did you mean 'cross'",
        ),
        (lambda: AnalyticBaseConv(layout(8), 1, "x"), "model.selection='x' is unknown"),
        (lambda: AnalyticBaseConv(roleless(), 1), "task.layout=odd has no key and value roles"),
        (
            lambda: AnalyticBaseConvConfig(n_distances=2, selection="given", lags=[4]),
            "names 1 lags: selection=given needs n_distances=2 of them",
        ),
        (
            lambda: AnalyticBaseConvConfig(n_distances=2, selection="given", lags=[4, 4]),
            r"model.lags=\[4, 4\] must be distinct",
        ),
        (
            lambda: AnalyticBaseConvConfig(n_distances=1, selection="given", lags=[0]),
            "model.lags=0 must be at least 1",
        ),
        (
            lambda: AnalyticBaseConvConfig(n_distances=1, lags=[4]),
            r"model.lags=\[4\] needs selection=given, not cross",
        ),
        (
            lambda: AnalyticBaseConv(layout(8), 1, "given", lags=[8]),
            r"model.lags=\[8\] reaches beyond the 7 lags of task.seq_len=8",
        ),
        (lambda: predict(torch.tensor([[0, 30]])), "tokens span 0..30, outside task.vocab_size=30"),
        (lambda: predict(torch.tensor([[0, -1]])), "tokens span -1..0, outside task.vocab_size"),
        (lambda: predict(torch.zeros(1, 3).long()), "n_distances=7 exceeds the 2 lags"),
    ],
    ids=[
        "config-none",
        "none",
        "too-many",
        "config-typo",
        "selection",
        "no-roles",
        "lags-few",
        "lags-twice",
        "lags-zero",
        "lags-not-given",
        "lags-far",
        "token-above",
        "token-below",
        "short-row",
    ],
)
def test_bad_arguments_get_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def predict(tokens: Tensor) -> Tensor:
    return AnalyticBaseConv(layout(8), 7).predict(tokens, torch.zeros(1, 1).long())
