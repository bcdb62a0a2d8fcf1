import math

import pytest

from tests.baselines import oracles
from zoology_bench.baselines import absent_share, build_baselines, content_blind_ceiling
from zoology_bench.tasks import MQAR
from zoology_bench.tasks.distance import Fixed, Uniform

PUBLISHED = {
    (64, 4): (0.288, 0.289),
    (128, 8): (0.1545, 0.1555),
    (256, 16): (0.0820, 0.0830),
    (512, 64): (0.0240, 0.0250),
    (1024, 256): (0.0096, 0.0098),
}


@pytest.mark.parametrize("cell", PUBLISHED, ids=lambda cell: f"T{cell[0]}-P{cell[1]}")
def test_official_ceiling_is_the_published_one_and_exact(cell):
    seq_len, n_pairs = cell
    ceiling = content_blind_ceiling(MQAR(seq_len=seq_len, n_kv_pairs=n_pairs, layout="official"))
    low, high = PUBLISHED[cell]
    assert low <= ceiling.value <= high
    assert (ceiling.method, ceiling.se) == ("exact", 0.0)


@pytest.mark.parametrize("vocab_size", [64, 1024])
def test_official_ceiling_does_not_depend_on_the_vocabulary(vocab_size):
    small = MQAR(seq_len=32, n_kv_pairs=4, layout="official", vocab_size=vocab_size)
    large = MQAR(seq_len=32, n_kv_pairs=4, layout="official")
    assert content_blind_ceiling(small) == content_blind_ceiling(large)


@pytest.mark.parametrize("n_pairs", [2, 8])
def test_official_ceiling_with_uniform_slots_is_one_over_p(n_pairs):
    task = MQAR(seq_len=8 * n_pairs, n_kv_pairs=n_pairs, layout="official", power_a=1.0)
    ceiling = content_blind_ceiling(task)
    assert ceiling.value == pytest.approx(1 / n_pairs, abs=4 * ceiling.se + 1e-9)
    assert n_pairs > 2 or ceiling.method == "exact"


@pytest.mark.parametrize("fields", [{"layout": "official"}, {"n_queries": 1}])
def test_one_pair_leaves_nothing_to_guess(fields):
    # Unclamped, the official law at T = 4 sums to 1 + 6e-14, which is no probability.
    for seq_len in (4, 8, 48):
        task = MQAR(seq_len=seq_len, n_kv_pairs=1, **fields)
        assert 1 - 1e-9 < content_blind_ceiling(task).value <= 1


@pytest.mark.parametrize("power_a", [-32, -16, -8, 8, 16, 32])
def test_official_ceiling_stays_a_probability_at_the_steepest_laws(power_a):
    task = MQAR(seq_len=64, n_kv_pairs=4, layout="official", power_a=power_a)
    assert 0.25 <= content_blind_ceiling(task).value <= 1


@pytest.mark.parametrize(
    ("seq_len", "n_pairs", "power_a"),
    [(16, 3, 0.01), (26, 3, 0.01), (12, 3, 0.01), (20, 2, 0.5), (20, 3, 1.7), (24, 4, 0.01)],
)
def test_official_ceiling_equals_the_enumerated_optimum_of_one_fact(seq_len, n_pairs, power_a):
    task = MQAR(seq_len=seq_len, n_kv_pairs=n_pairs, layout="official", power_a=power_a)
    outcomes = list(oracles.official_outcomes(seq_len, n_pairs, power_a))
    best = max(oracles.optimum(iter(outcomes), fact) for fact in ("position", "rank"))
    assert content_blind_ceiling(task).value == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(("seq_len", "n_pairs"), [(16, 3), (26, 3), (24, 4)])
def test_joint_optimum_over_all_positions_lies_at_most_a_hundredth_above(seq_len, n_pairs):
    task = MQAR(seq_len=seq_len, n_kv_pairs=n_pairs, layout="official")
    joint = oracles.optimum(oracles.official_outcomes(seq_len, n_pairs, 0.01), "all")
    assert 0 <= joint - content_blind_ceiling(task).value < 0.01


@pytest.mark.parametrize("seq_len", [10, 16])
def test_prefix_ceiling_agrees_with_enumeration_for_two_pairs(seq_len):
    task = MQAR(seq_len=seq_len, n_kv_pairs=2, layout="prefix")
    distances = list(range(4, seq_len - 2))
    outcomes = list(oracles.two_pair_prefix_outcomes(distances))
    rank, position, joint = (
        oracles.optimum(iter(outcomes), fact) for fact in ("rank", "position", "all")
    )
    ceiling = content_blind_ceiling(task)
    assert rank > position  # so a ceiling by position alone would be beaten by the rank baseline
    assert (ceiling.fact, ceiling.method) == ("rank", "simulated")
    assert ceiling.value == pytest.approx(rank, abs=4 * ceiling.se)
    assert ceiling.value <= joint + 4 * ceiling.se


@pytest.mark.parametrize("n_pairs", [2, 5])
def test_prefix_ceiling_of_one_query_is_summed_exactly(n_pairs):
    task = MQAR(seq_len=32, n_kv_pairs=n_pairs, n_queries=1, layout="prefix")
    lo, hi = 2 * n_pairs, 32 - 2 * n_pairs + 1
    n_cells_reached = hi + 2 * (n_pairs - 1) - lo + 1
    # Uniform: any pair that can reach the cell is as good as any other.
    expected = n_cells_reached / (n_pairs * (hi - lo + 1))
    ceiling = content_blind_ceiling(task)
    assert ceiling.value == pytest.approx(expected, abs=1e-12)
    assert (ceiling.method, ceiling.fact) == ("exact", "position")


def test_fixed_distances_in_prefix_give_every_answer_away():
    task = MQAR(n_kv_pairs=4, layout="prefix", distance=Fixed(values=[8, 15]))
    assert content_blind_ceiling(task).value == 1.0


def test_fixed_binding_in_probe_gives_every_answer_away():
    task = MQAR(
        n_kv_pairs=4, n_queries=1, layout="probe", distance=Uniform(lo=20, hi=40),
        binding=Fixed(values=[2]),
    )  # fmt: skip
    assert content_blind_ceiling(task).value == pytest.approx(1.0)


def test_probe_ceiling_agrees_with_enumeration():
    task = MQAR(
        seq_len=15, n_kv_pairs=3, n_queries=1, layout="probe", distance=Uniform(lo=6, hi=8),
        binding=Uniform(lo=0, hi=2),
    )  # fmt: skip
    outcomes = oracles.probe_outcomes(3, [6, 7, 8], [0, 1, 2], 15)
    ceiling = content_blind_ceiling(task)
    assert ceiling.method == "simulated"
    assert ceiling.value == pytest.approx(oracles.optimum(outcomes, "all"), abs=4 * ceiling.se)


def test_stream_ceiling_agrees_with_the_enumerated_optimum():
    law = Uniform(lo=2, hi=8)
    task = MQAR(seq_len=16, n_kv_pairs=2, n_queries=1, layout="stream", distance=law)
    best = oracles.optimum(oracles.stream_outcomes(2, list(range(2, 9)), 16), "all")
    ceiling = content_blind_ceiling(task)
    # The posterior leaves out that shapes exclude each other: a little may be lost, never gained.
    assert best - 0.01 < ceiling.value < best + 4 * ceiling.se


def test_triples_ceiling_of_one_query_is_exact():
    task = MQAR(
        seq_len=18, n_kv_pairs=6, n_queries=1, layout="triples", distance=Fixed(values=[5, 11])
    )
    # Lag 1 asks from triples 1..5, lag 3 from 3..5; at 3..5 the lag of 3 is likelier.
    expected = 0.5 * 2 / 5 + 0.5
    ceiling = content_blind_ceiling(task)
    assert ceiling.value == pytest.approx(expected)
    assert ceiling.method == "exact"


def test_the_absent_share_counts_what_the_rows_hold():
    task = MQAR(seq_len=400, n_kv_pairs=100, absent_rate=0.29)
    assert absent_share(task) == 0.29


@pytest.mark.parametrize("absent_rate", [0.5, 1.0])
def test_naming_the_absent_token_is_a_guess_too(absent_rate):
    task = MQAR(n_kv_pairs=4, layout="prefix", absent_rate=absent_rate)
    assert content_blind_ceiling(task).value == pytest.approx(absent_rate, abs=1e-9)


SMALL = {
    "official": MQAR(seq_len=32, n_kv_pairs=4, layout="official"),
    "official-subset": MQAR(seq_len=32, n_kv_pairs=4, n_queries=2, layout="official"),
    "prefix": MQAR(seq_len=32, n_kv_pairs=4, layout="prefix"),
    "prefix-rebind": MQAR(seq_len=32, n_kv_pairs=4, layout="prefix", rebind_rate=0.25),
    "prefix-absent": MQAR(seq_len=32, n_kv_pairs=4, layout="prefix", absent_rate=0.25),
    "stream": MQAR(seq_len=32, n_kv_pairs=4, layout="stream"),
    "stream-subset": MQAR(seq_len=40, n_kv_pairs=4, n_queries=2, layout="stream"),
    "triples": MQAR(seq_len=30, n_kv_pairs=10, n_queries=3, layout="triples"),
    "probe": MQAR(seq_len=32, n_kv_pairs=4, n_queries=1, layout="probe"),
}


@pytest.mark.parametrize("name", SMALL)
def test_no_shipped_baseline_beats_the_ceiling(name):
    task = SMALL[name]
    ceiling = content_blind_ceiling(task)
    batch = task.rows("report", 0, 0, 6000)
    for baseline_name, baseline in build_baselines(task).items():
        per_row = baseline.hit_probability(batch).mean(dim=1)
        se = math.hypot(float(per_row.std()) / math.sqrt(len(batch)), ceiling.se)
        assert float(per_row.mean()) <= ceiling.value + 3.3 * se + 1e-9, baseline_name


@pytest.mark.parametrize("name", SMALL)
def test_ceiling_is_within_its_error_of_the_better_of_best_slot_and_rank(name):
    task = SMALL[name]
    ceiling = content_blind_ceiling(task)
    batch = task.rows("train", 7, 0, 6000)
    baseline = build_baselines(task)["rank" if ceiling.fact == "rank" else "best_slot"]
    per_row = baseline.hit_probability(batch).mean(dim=1)
    se = math.hypot(float(per_row.std()) / math.sqrt(len(batch)), ceiling.se)
    assert float(per_row.mean()) == pytest.approx(ceiling.value, abs=4 * se + 1e-9)


def test_a_task_without_a_placement_law_has_no_known_ceiling():
    class Foreign(MQAR):
        placement = None

    ceiling = content_blind_ceiling(Foreign())
    assert math.isnan(ceiling.value)
    assert ceiling.method == "unknown"
