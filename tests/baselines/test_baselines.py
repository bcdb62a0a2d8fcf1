import numpy as np
import pytest
import torch

from tests.baselines import oracles
from zoology_bench.baselines import BASELINES, BaselinesConfig, build_baselines
from zoology_bench.baselines.fitted import cross_fitted_hits
from zoology_bench.baselines.in_context import InContext
from zoology_bench.baselines.posterior import posterior_of
from zoology_bench.baselines.ranks import order_probabilities, rank_law
from zoology_bench.data.batch import IGNORE, Batch
from zoology_bench.data.layout import Vocabulary
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import Fixed, LogUniform, Uniform

TASKS = {
    "official": MQAR(seq_len=32, n_kv_pairs=4, layout="official", vocab_size=64),
    "official-any": MQAR(seq_len=64, n_kv_pairs=4, layout="official", filler="any", vocab_size=64),
    "prefix": MQAR(seq_len=48, n_kv_pairs=4, filler="disjoint", vocab_size=256),
    "prefix-any": MQAR(seq_len=48, n_kv_pairs=4, filler="any", vocab_size=256),
    "rebind": MQAR(seq_len=48, n_kv_pairs=8, rebind_rate=0.4, absent_rate=0.3, vocab_size=256),
    "stream": MQAR(seq_len=48, n_kv_pairs=5, n_queries=3, layout="stream", vocab_size=256),
    "triples": MQAR(seq_len=36, n_kv_pairs=12, n_queries=4, layout="triples", vocab_size=256),
    "probe": MQAR(seq_len=48, n_kv_pairs=5, n_queries=1, layout="probe", vocab_size=256),
}


@pytest.fixture(params=TASKS)
def task(request) -> MQAR:
    return TASKS[request.param]


def means(task: MQAR, n_rows: int = 4000) -> dict[str, float]:
    batch = task.rows("report", 0, 0, n_rows)
    return {
        name: float(baseline.hit_probability(batch).mean())
        for name, baseline in build_baselines(task).items()
    }


def test_hit_probabilities_are_probabilities_for_each_query(task):
    batch = task.rows("report", 0, 0, 200)
    for baseline in build_baselines(task).values():
        chance = baseline.hit_probability(batch)
        assert chance.shape == batch.query_pos.shape
        assert chance.dtype == torch.float64
        assert bool(((chance >= 0) & (chance <= 1)).all())


def test_hit_probability_of_a_row_does_not_depend_on_the_batch(task):
    batch = task.rows("report", 0, 0, 64)
    for baseline in build_baselines(task).values():
        whole = baseline.hit_probability(batch)
        assert torch.equal(whole[10:20], baseline.hit_probability(batch[10:20]))


def test_in_context_scores_what_guessing_among_the_values_seen_scores(task):
    """Against the guesser itself, played from the tokens alone."""
    batch = task.rows("report", 0, 0, 600)
    rng = np.random.default_rng(0)
    hits = []
    for tokens, queries, answers in zip(
        batch.inputs.tolist(), batch.query_pos.tolist(), batch.answers.tolist(), strict=True
    ):
        for position, answer in zip(queries, answers, strict=True):
            seen = sorted({t for t in tokens[:position] if t in task.vocabulary.values})
            hits.append(rng.choice(seen) == answer)
    expected = build_baselines(task)["in_context"].hit_probability(batch).mean()
    assert np.mean(hits) == pytest.approx(float(expected), abs=4 * np.std(hits) / len(hits) ** 0.5)


def test_a_value_that_filler_repeats_counts_once():
    words = Vocabulary.official(16)  # keys 1..7, values 8..15
    batch = Batch(
        inputs=torch.tensor([[3, 9, 9, 12, 9, 3, 15]]),
        targets=torch.tensor([[IGNORE] * 5 + [9, IGNORE]]),
        query_pos=torch.tensor([[5]]),
        key_pos=torch.tensor([[0]]),
        binding_distance=torch.tensor([[0]]),
    )
    assert float(InContext(words).hit_probability(batch)) == 1 / 2


def test_recency_scores_what_answering_the_last_written_value_scores(task):
    batch = task.rows("report", 0, 0, 500)
    chance = build_baselines(task)["recency"].hit_probability(batch)
    for row in range(len(batch)):
        writes = written(task, batch.inputs[row].tolist())
        for query in range(batch.query_pos.shape[1]):
            position = int(batch.query_pos[row, query])
            last = max(w for w in writes if w < position)
            hit = int(batch.inputs[row, last + 1]) == int(batch.answers[row, query])
            assert float(chance[row, query]) == float(hit)


def written(task: MQAR, tokens: list[int]) -> list[int]:
    """Positions of written keys, from the published format."""
    if task.layout in ("official", "prefix"):
        return list(range(0, 2 * task.n_kv_pairs, 2))
    keys, values = task.vocabulary.keys, task.vocabulary.values
    return [t for t in range(len(tokens) - 1) if tokens[t] in keys and tokens[t + 1] in values]


def test_uniform_vocab_is_one_over_v_even_for_absent_keys(task):
    batch = task.rows("report", 0, 0, 50)
    chance = build_baselines(task)["uniform_vocab"].hit_probability(batch)
    assert bool((chance == 1 / task.vocab_size).all())


def test_in_context_is_one_over_p_where_all_pairs_come_first():
    assert means(MQAR(n_kv_pairs=8))["in_context"] == pytest.approx(1 / 8)


def test_recency_is_one_over_p_where_all_pairs_come_first():
    assert means(MQAR(n_kv_pairs=8))["recency"] == pytest.approx(1 / 8)


def test_stale_values_count_as_values_in_context():
    task = MQAR(n_kv_pairs=8, rebind_rate=0.5)
    assert means(task)["in_context"] == pytest.approx(1 / 8)


@pytest.mark.parametrize("name", ["in_context", "recency"])
def test_guessers_of_values_miss_absent_keys(name):
    task = MQAR(n_kv_pairs=4, absent_rate=0.5)
    batch = task.rows("report", 0, 0, 500)
    chance = build_baselines(task)[name].hit_probability(batch)
    assert bool((chance[batch.key_pos < 0] == 0).all())
    assert float(chance.mean()) == pytest.approx(1 / 8, abs=0.02)


@pytest.mark.parametrize("name", ["best_slot", "rank"])
def test_guessers_by_law_name_the_absent_token_where_it_is_likelier(name):
    task = MQAR(n_kv_pairs=4, absent_rate=0.75)
    batch = task.rows("report", 0, 0, 500)
    chance = build_baselines(task)[name].hit_probability(batch)
    assert torch.equal(chance, (batch.key_pos < 0).double())


def test_best_slot_and_rank_score_their_enumerated_values_in_official():
    outcomes = list(oracles.official_outcomes(32, 4, 0.01))
    expected = {
        "best_slot": oracles.optimum(iter(outcomes), "position"),
        "rank": oracles.optimum(iter(outcomes), "rank"),
    }
    task = TASKS["official"]
    batch = task.rows("report", 0, 0, 10_000)
    for name, value in expected.items():
        per_row = build_baselines(task)[name].hit_probability(batch).mean(dim=1)
        se = float(per_row.std()) / len(batch) ** 0.5
        assert float(per_row.mean()) == pytest.approx(value, abs=4 * se)


def test_best_slot_knows_fixed_distances():
    task = MQAR(n_kv_pairs=4, distance=Fixed(values=[8, 15]))
    assert means(task, 200)["best_slot"] == 1.0


def test_best_slot_in_stream_prefers_the_recent_pair_under_a_steep_law():
    task = MQAR(seq_len=96, n_kv_pairs=6, layout="stream", distance=LogUniform(lo=2, hi=48))
    scores = means(task, 1000)
    assert scores["best_slot"] == pytest.approx(scores["recency"], abs=0.02)


@pytest.mark.parametrize("binding", [None, Uniform(lo=1, hi=3)])
def test_probe_posterior_is_bayes_rule_on_every_layout_of_a_small_case(binding):
    task = MQAR(
        seq_len=20, n_kv_pairs=4, n_queries=1, layout="probe", distance=Uniform(lo=8, hi=10),
        binding=binding,
    )  # fmt: skip
    bindings = [1, 2, 3] if binding else list(range(4))
    mass: dict[tuple, np.ndarray] = {}
    for (pairs, queries, asked), p in oracles.probe_outcomes(4, [8, 9, 10], bindings, 20):
        mass.setdefault((pairs, queries), np.zeros(4))[asked[0]] += p
    pair_pos, query_pos = (np.array(part) for part in zip(*mass, strict=True))
    expected = np.array([row / row.sum() for row in mass.values()])
    found = posterior_of(task.placement)(pair_pos, query_pos)[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_rank_law_of_official_agrees_with_sampling():
    task = MQAR(seq_len=24, n_kv_pairs=3, n_queries=2, layout="official")
    exact = rank_law(task.placement, 10)
    assert exact.exact
    batch = task.rows("train", 0, 0, 20_000)
    rank = batch.query_pos.argsort(1).argsort(1)
    counts = np.zeros((2, 3))
    np.add.at(counts, (rank.numpy(), (batch.key_pos // 2).numpy()), 1)
    np.testing.assert_allclose(counts / counts.sum(), exact.joint, atol=0.012)


def test_order_probabilities_sum_to_one():
    _, placed = order_probabilities(np.array([1.0, 0.5, 0.25, 0.1]), 3)
    np.testing.assert_allclose(placed.sum(axis=(0, 1)), 1.0)
    np.testing.assert_allclose(placed.sum(axis=(0, 2)), 1.0)


def test_cross_fitted_guesser_learns_what_a_fact_tells_and_nothing_from_noise():
    rng = np.random.default_rng(0)
    answer = rng.integers(0, 4, (4000, 2))
    assert cross_fitted_hits(answer, answer, 4).mean() == 1.0
    noise = rng.integers(0, 50, (4000, 2))
    assert cross_fitted_hits(noise, answer, 50).mean() == pytest.approx(0.25, abs=0.02)


def test_registry_builds_every_baseline():
    assert list(build_baselines(MQAR())) == list(BASELINES)
    assert BaselinesConfig().label == "baselines"


def test_task_without_a_placement_law_keeps_the_baselines_that_need_none():
    class Foreign(MQAR):
        placement = None

    assert list(build_baselines(Foreign())) == ["uniform_vocab", "in_context", "recency"]


def test_baselines_score_queries_in_any_column_order():
    task = TASKS["prefix"]
    batch = task.rows("report", 0, 0, 100)
    flipped = Batch(
        inputs=batch.inputs,
        targets=batch.targets,
        query_pos=batch.query_pos.flip(1),
        key_pos=batch.key_pos.flip(1),
        binding_distance=batch.binding_distance.flip(1),
    )
    for baseline in build_baselines(task).values():
        expected = baseline.hit_probability(batch).flip(1)
        assert torch.equal(baseline.hit_probability(flipped), expected)
