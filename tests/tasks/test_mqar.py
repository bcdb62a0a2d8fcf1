"""MQAR rows: pure functions of (config, split, seed, row), in integers, with the right answers."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields, replace
from fractions import Fraction
from multiprocessing import get_context

import pytest
import torch
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.helpers import expected_locations, expected_targets
from tests.tasks.cases import SMALL
from zoology_bench.data import random
from zoology_bench.data.batch import IGNORE, Batch, concat
from zoology_bench.data.random import column_keys
from zoology_bench.tasks import MQAR, TASKS, generator
from zoology_bench.tasks.base import SPLITS
from zoology_bench.tasks.distance import Fixed, Uniform

each_case = pytest.mark.parametrize("task", SMALL.values(), ids=SMALL)


def same(a: Batch, b: Batch) -> bool:
    return all(torch.equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Batch))


def train_rows(task: MQAR, start: int, stop: int) -> Batch:
    return task.rows("train", 3, start, stop)


@each_case
def test_rows_do_not_depend_on_batch_size_or_start(task):
    whole = train_rows(task, 0, 700)
    assert same(whole[253:260], train_rows(task, 253, 260))
    parts = [train_rows(task, i, min(i + 97, 700)) for i in range(0, 700, 97)]
    assert same(whole, concat(parts))


@each_case
def test_the_training_stream_equals_direct_calls(task):
    with task.stream(seed=3, batch_size=50) as stream:
        held = [(step, stream.batch(step)) for step in (2, 3, 400, 401, 1000)]
        assert all(same(b, train_rows(task, 50 * step, 50 * step + 50)) for step, b in held)


@pytest.mark.parametrize(
    "names",
    [("official-rebind", "stream-stuck"), pytest.param(tuple(SMALL), marks=pytest.mark.slow)],
    ids=["two", "all"],
)
def test_rows_do_not_depend_on_the_number_of_processes(names):
    bounds = [(0, 100), (100, 350), (350, 351), (351, 500)]
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])  # torch is imported once, not four times
    # The preloaded torch has made threads already, which no fork of it can use.
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(4, mp_context=context, **one_thread) as pool:
        for name in names:
            task = SMALL[name]
            parts = list(pool.map(train_rows, [task] * 4, *zip(*bounds, strict=True)))
            assert same(concat(parts), train_rows(task, 0, 500)), name


@each_case
def test_rows_differ_between_splits_seeds_and_rows(task):
    inputs = [task.rows(split, seed, 0, 20).inputs for split in SPLITS for seed in (0, 1)]
    assert len(torch.unique(torch.cat(inputs), dim=0)) == 120


class IntegersOnly(TorchDispatchMode):
    """Rejects every torch operation that returns a floating-point tensor."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point:
                raise TypeError(f"{func} returned {leaf.dtype}")
        return result


@each_case
def test_rows_are_made_of_integers_alone_and_the_torch_path_equals_numpy(task, monkeypatch):
    with_numpy = train_rows(task, 0, 600)
    monkeypatch.setattr(random, "_NUMPY_ON_CPU", False)
    column_keys.cache_clear()
    with IntegersOnly():
        assert same(with_numpy, train_rows(task, 0, 600))


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("stream-stuck", "_unstick"),
        ("triples-stirred", "_stirred"),
        ("prefix-crowded", "_resolve"),
        ("prefix-crowded", "_repay"),
    ],
)
def test_cases_reach_what_few_rows_need(name, method, monkeypatch):
    layout, n_rows = type(SMALL[name].placement), []
    usual = getattr(layout, method)

    def counted(self, keys, *more):
        n_rows.append(len(keys))
        return usual(self, keys, *more)

    monkeypatch.setattr(layout, method, counted)
    train_rows(SMALL[name], 0, 600)
    assert sum(n_rows) > 60


def test_sorted_distances_are_the_same_however_rows_are_made(monkeypatch):
    """What a row falls back on that no exchange resolves."""
    task = SMALL["prefix-crowded"]
    exchanged = train_rows(task, 0, 300)
    monkeypatch.setattr(task.placement, "max_exchanges", 0)
    whole = train_rows(task, 0, 300)
    assert not same(whole, exchanged)
    assert same(whole, concat([train_rows(task, i, i + 50) for i in range(0, 300, 50)]))
    monkeypatch.setattr(random, "_NUMPY_ON_CPU", False)
    column_keys.cache_clear()
    with IntegersOnly():
        assert same(whole, train_rows(task, 0, 300))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_case
def test_a_gpu_makes_the_same_bits(task):
    made = task.rows("train", 3, 0, 600, device="cuda")
    assert made.inputs.is_cuda
    assert same(made.to("cpu"), train_rows(task, 0, 600))


def test_the_integer_proof_catches_a_float():
    with pytest.raises(TypeError, match="float32"), IntegersOnly():
        torch.arange(3).float()


@each_case
def test_tensors_are_int64_of_the_documented_shapes(task):
    batch = train_rows(task, 0, 5)
    shapes = {f.name: tuple(getattr(batch, f.name).shape) for f in fields(Batch)}
    n_tokens, n_queries = (5, task.seq_len), (5, task.queries_per_row)
    assert shapes == {
        "inputs": n_tokens,
        "targets": n_tokens,
        "query_pos": n_queries,
        "key_pos": n_queries,
        "binding_distance": n_queries,
    }
    assert all(getattr(batch, f.name).dtype == torch.int64 for f in fields(Batch))
    assert len(train_rows(task, 7, 7)) == 0


@each_case
def test_targets_and_locations_follow_from_the_tokens_alone(task):
    batch = train_rows(task, 0, 150)
    for row in range(len(batch)):
        tokens, asked = batch.inputs[row].tolist(), batch.query_pos[row].tolist()
        assert batch.targets[row].tolist() == expected_targets(tokens, asked, task)
        key_pos, binding = expected_locations(tokens, asked, task)
        assert batch.key_pos[row].tolist() == key_pos
        assert batch.binding_distance[row].tolist() == binding


@each_case
def test_counts_are_exact_in_every_row(task):
    batch, vocabulary = train_rows(task, 0, 300), task.vocabulary
    n_queries = task.queries_per_row
    assert ((batch.targets != IGNORE).sum(1) == n_queries).all()
    n_absent = int(Fraction(str(task.absent_rate)) * n_queries)
    assert ((batch.key_pos == -1).sum(1) == n_absent).all()
    assert batch.inputs.min() >= 0 and batch.inputs.max() < task.vocab_size
    if task.filler == "any":
        return
    is_value = vocabulary.is_value(batch.inputs)
    assert (is_value.sum(1) == task.n_kv_pairs).all()
    values = batch.inputs[is_value].view(300, -1).sort(1).values
    assert (values[:, 1:] > values[:, :-1]).all(), "values are distinct within a row"
    n_keys = task.n_kv_pairs - int(Fraction(str(task.rebind_rate)) * task.n_kv_pairs)
    for tokens in batch.inputs.tolist():
        assert len({t for t in tokens if t in vocabulary.keys}) == n_keys + n_absent


@pytest.mark.parametrize(
    ("rate", "n", "share"),
    [(0.29, 100, 29), (0.57, 100, 57), (0.17, 16, 2), (1 / 3, 12, 4), (1 / 49, 49, 1)],
)
def test_rates_are_taken_as_written(rate, n, share):
    """As floats, .29 * 100 and 1 / 49 * 49 fall short of 29 and 1."""
    rebound = MQAR(seq_len=4 * n, n_kv_pairs=n, rebind_rate=rate)
    assert (rebound.n_rebound, rebound.queries_per_row) == (share, n - share)
    absent = MQAR(seq_len=4 * n, n_kv_pairs=n, absent_rate=rate)
    assert (absent.n_rebound, absent.n_absent) == (0, share)
    assert ((absent.rows("train", 0, 0, 5).key_pos == -1).sum(1) == share).all()


def test_a_stuck_row_is_named_by_its_index_in_the_split(monkeypatch):
    task = SMALL["stream"]
    layout = task.placement
    made = torch.arange(600, 1000)
    tag = task._generator._tag
    stuck = set(random.row_keys(tag, "select", 3, made[[317, 350]]).tolist())
    unasked = type(layout)._pack

    def pack(self, keys, distance, attempt):
        start = unasked(self, keys, distance, attempt)
        return start.masked_fill(torch.tensor([[int(k) in stuck] for k in keys]), -1)

    monkeypatch.setattr(type(layout), "_pack", pack)
    monkeypatch.setattr(layout, "n_sweeps", 0)
    monkeypatch.setattr(generator, "_BLOCK_TOKENS", 100 * task.seq_len)
    with pytest.raises(RuntimeError, match=r"^row 917 of split select, seed 3, has distances"):
        task.rows("select", 3, 600, 1000)


@each_case
def test_every_query_asks_another_key(task):
    asked = train_rows(task, 0, 300).query_tokens.sort(1).values
    assert (asked[:, 1:] > asked[:, :-1]).all()


def test_official_slot_i_belongs_to_pair_i():
    batch = SMALL["official"].rows("train", 0, 0, 200)
    assert torch.equal(batch.key_pos, torch.arange(0, 8, 2).expand(200, 4))
    assert torch.equal(batch.query_tokens, batch.inputs[:, 0:8:2])
    assert torch.equal(batch.answers, batch.inputs[:, 1:8:2])
    assert (batch.query_pos % 2 == 0).all()


@pytest.mark.parametrize("name", ["prefix", "prefix-rebind-absent"])
def test_prefix_keeps_the_rows_multiset_of_distances(name, monkeypatch):
    """Exchanging distances may move them between keys, never change them."""
    task = SMALL[name]
    layout = task.placement
    monkeypatch.setattr(type(layout), "_separate", lambda *_: None)
    keys = random.row_keys("t", "train", 0, torch.arange(400))
    drawn = _distances(layout.place(keys))
    monkeypatch.undo()
    placed = _distances(layout.place(keys))
    assert torch.equal(drawn.sort(1).values, placed.sort(1).values)
    assert not torch.equal(drawn, placed)


def _distances(placement):
    asked = placement.asked
    if asked is None:
        asked = torch.arange(placement.query_pos.shape[1])
    return placement.query_pos - 2 * asked


def test_prefix_rows_that_no_exchange_resolves_are_sorted(monkeypatch):
    task = SMALL["prefix"]
    monkeypatch.setattr(task.placement, "max_exchanges", 0)
    cells = task.rows("train", 3, 0, 300).query_pos.sort(1).values
    assert (cells[:, 1:] > cells[:, :-1]).all()


def test_rebinding_covers_every_later_pair_and_every_key():
    batch = MQAR(
        vocab_size=256, seq_len=24, n_kv_pairs=4, n_queries=2, rebind_rate=0.5, filler="zero"
    ).rows("train", 0, 0, 2000)
    written = batch.inputs[:, 0:8:2]
    repeats = torch.stack([(written[:, :j] == written[:, j : j + 1]).any(1) for j in range(4)], 1)
    assert (repeats.sum(1) == 2).all() and not repeats[:, 0].any()
    shares = repeats[:, 1:].float().mean(0)
    assert ((shares - 2 / 3).abs() < 0.05).all()
    assert sorted(batch.key_pos.unique().tolist()) == [0, 2, 4, 6]


@pytest.mark.parametrize("filler", ["zero", "disjoint", "any"])
def test_filler_covers_its_range_and_nothing_else(filler):
    task = MQAR(vocab_size=24, n_filler_tokens=5, seq_len=32, n_kv_pairs=2, filler=filler)
    batch = task.rows("train", 0, 0, 500)
    free = torch.ones_like(batch.inputs, dtype=torch.bool)
    free[:, :4] = False
    free.scatter_(1, batch.query_pos, False)
    expected = {"zero": {0}, "disjoint": {2, 3, 4, 5, 6}, "any": set(range(24))}[filler]
    assert set(batch.inputs[free].tolist()) == expected


def test_worked_example_of_the_docstring_is_a_row():
    inputs = [12, 25, 14, 29, 11, 27, 0, 0, 0, 0, 12, 11, 0, 14, 0, 0]
    task = MQAR(vocab_size=40, n_filler_tokens=8, seq_len=16, n_kv_pairs=3, layout="prefix")
    targets = [IGNORE] * 16
    targets[10], targets[11], targets[13] = 25, 27, 29
    assert expected_targets(inputs, [10, 13, 11], task) == targets
    assert expected_locations(inputs, [10, 13, 11], task) == ([0, 2, 4], [2, 1, 0])


def test_public_layout_names_ranges_and_nothing_of_a_row():
    public = SMALL["prefix-fixed"].public_layout()
    assert (public.name, public.seq_len) == ("prefix", 64)
    assert (public.min_distance, public.max_distance, public.distance_step) == (8, 40, 1)
    official = SMALL["official"].public_layout()
    assert (official.min_distance, official.max_distance, official.distance_step) == (2, 30, 2)


@each_case
def test_distances_stay_in_the_public_range(task):
    batch, public = train_rows(task, 0, 400), task.public_layout()
    present = batch.distance[batch.key_pos >= 0]
    allowed = range(public.min_distance, public.max_distance + 1, public.distance_step)
    assert set(present.tolist()) <= set(allowed)


def test_equal_configurations_give_equal_rows_however_they_are_written():
    explicit = MQAR(seq_len=48, n_kv_pairs=8, n_queries=8, distance=Uniform(lo=16, hi=33))
    assert same(train_rows(explicit, 0, 50), train_rows(MQAR(seq_len=48, n_kv_pairs=8), 0, 50))


@pytest.mark.parametrize(
    "change",
    [
        {"vocab_size": 8200},
        {"n_filler_tokens": 65},
        {"filler": "disjoint"},
        {"distance": Fixed(values=[20])},
        {"layout": "official"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_different_configurations_give_unrelated_rows(change):
    task = MQAR(seq_len=48, n_kv_pairs=8)
    a, b = train_rows(task, 0, 50), train_rows(replace(task, **change), 0, 50)
    assert not torch.equal(a.answers - a.answers.min(), b.answers - b.answers.min())


def test_data_seed_addresses_nothing_by_itself():
    assert same(
        train_rows(SMALL["prefix"], 0, 9), train_rows(replace(SMALL["prefix"], data_seed=5), 0, 9)
    )


@each_case
def test_configurations_survive_omegaconf_pickle_and_asdict(task):
    again = OmegaConf.to_object(OmegaConf.structured(task))
    assert again == task and same(train_rows(again, 0, 3), train_rows(task, 0, 3))
    assert same(train_rows(pickle.loads(pickle.dumps(task)), 0, 3), train_rows(task, 0, 3))
    assert set(asdict(task)) == {f.name for f in fields(task)}
    assert task.build() is task


def test_registry_holds_each_task_under_its_name():
    assert {name: cls.name for name, cls in TASKS.items()} == {"mqar": "mqar"}
