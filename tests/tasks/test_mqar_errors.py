"""What a user who asks MQAR for the impossible is told: one line with field, value and rule."""

import math

import pytest

from zoology_bench.tasks.distance import Fixed, Uniform
from zoology_bench.tasks.mqar import MQAR

BAD = [
    ({"layout": "prefixx"}, r"task\.layout='prefixx' is unknown; did you mean 'prefix'"),
    ({"filler": "none"}, r"task\.filler='none' is unknown"),
    ({"seq_len": "64"}, r"task\.seq_len='64' must be an integer"),
    ({"n_kv_pairs": 0}, r"task\.n_kv_pairs=0 must be at least 1"),
    ({"n_queries": 0}, r"task\.n_queries=0 must be at least 1"),
    ({"n_queries": 5}, r"task\.n_queries=5 must be at most 4"),
    ({"rebind_rate": 0.1}, r"task\.rebind_rate=0\.1 re-binds no pair .* rebind_rate >= 0\.25"),
    ({"rebind_rate": 1.0}, r"task\.rebind_rate=1\.0 must lie in \[0, 1\)"),
    ({"rebind_rate": "x"}, r"task\.rebind_rate='x' must be a number"),
    ({"absent_rate": 0.1}, r"task\.absent_rate=0\.1 makes none of 4 queries absent"),
    ({"absent_rate": -1}, r"task\.absent_rate=-1 must lie in \[0, 1\]"),
    ({"power_a": math.inf}, r"task\.power_a=inf must lie in -32\.\.32"),
    ({"power_a": math.nan}, r"task\.power_a=nan must lie in -32\.\.32"),
    ({"power_a": -1e10}, r"task\.power_a=-10000000000\.0 must lie in -32\.\.32"),
    ({"layout": "official", "power_a": 300}, r"task\.power_a=300 must lie in -32\.\.32"),
    ({"power_a": 1.0}, r"task\.power_a=1\.0 needs task\.layout=official, not prefix"),
    ({"layout": "official", "n_filler_tokens": 8}, r"task\.n_filler_tokens=8 reserves tokens"),
    (
        {"layout": "triples", "seq_len": 12, "n_queries": 1, "filler": "disjoint"},
        r"task\.filler=disjoint has no cell to fill in task\.layout=triples",
    ),
    ({"vocab_size": 73}, r"task\.vocab_size=73 is too small .* need vocab_size >= 74"),
    ({"vocab_size": 74, "absent_rate": 1.0}, r"task\.vocab_size=74 .* need vocab_size >= 82"),
    ({"seq_len": 14}, r"task\.seq_len=14 is too short for task\.n_kv_pairs=4: .* seq_len >= 15"),
    ({"distance": Fixed(values=[9, 13])}, r"task\.distance\.values=\[9, 13\] contains 9 and 13"),
    ({"distance": Fixed(values=[7])}, r"task\.distance\.values=7 is off"),
    ({"distance": "uniform"}, r"task\.distance='uniform' is no distance law; known: .*LogUniform"),
    ({"distance": Uniform}, r"task\.distance=<class .*Uniform'> is no distance law; known: Emp"),
    ({"layout": "official", "distance": 8}, r"task\.distance=8 is no distance law; known: Emp"),
    ({"layout": "probe", "n_queries": 1, "binding": 1}, r"task\.binding=1 is no distance law"),
    ({"binding": Fixed(values=[1])}, r"task\.binding needs task\.layout=probe"),
    ({"layout": "official", "seq_len": 65}, r"task\.seq_len=65 must be even"),
    ({"layout": "official", "seq_len": 14}, r"task\.seq_len=14 is too short .* seq_len >= 16"),
    ({"layout": "official", "distance": Fixed(values=[9])}, r"task\.distance must be unset"),
    ({"layout": "official", "absent_rate": 0.5}, r"task\.absent_rate=0\.5 needs the absent token"),
    ({"layout": "official", "filler": "disjoint"}, r"task\.filler=disjoint needs tokens"),
    ({"layout": "official", "vocab_size": 9}, r"task\.vocab_size=9 .* vocab_size >= 10"),
    ({"layout": "stream", "filler": "any"}, r"task\.filler=any makes answers ambiguous"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[str(change) for change, _ in BAD])
def test_bad_fields_are_named_with_their_value_and_rule(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        MQAR(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["rebind_rate", "absent_rate"])
@pytest.mark.parametrize("n", [3, 7, 49])
def test_the_smallest_rate_that_an_error_names_is_accepted(field, n):
    with pytest.raises(ValueError, match=rf"need {field} >= ") as caught:
        MQAR(seq_len=4 * n, n_kv_pairs=n, **{field: 0.001})
    named = float(str(caught.value).rsplit(" ", 1)[1])
    task = MQAR(seq_len=4 * n, n_kv_pairs=n, **{field: named})
    assert task.n_rebound + task.n_absent == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tran", 0, 0, 1), "split='tran' is unknown; did you mean 'train'"),
        (("train", 0.5, 0, 1), "seed=0.5 must be an integer"),
        (("train", 0, -1, 1), "start=-1 must be at least 0"),
        (("train", 0, 5, 4), "stop=4 must be at least 5"),
        (("train", 0, 0, 1, "gpu"), "device='gpu' is no device"),
    ],
    ids=["split", "seed", "start", "stop", "device"],
)
def test_bad_row_requests_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MQAR().rows(*arguments)
