"""Shapes stand exactly as often as their law says, whether tried, picked or stirred."""

from itertools import product

import numpy as np
import pytest
import torch

from tests.helpers import chi_square_p, count_tuples
from tests.tasks.layouts.cases import keys
from tests.tasks.layouts.search import packing_law
from zoology_bench.data.random import lanes32
from zoology_bench.tasks.layouts import packing
from zoology_bench.tasks.layouts.packing import Packer, in_order, pick
from zoology_bench.tasks.layouts.stirring import stir, uncovered

MIN_P = 1e-3
N_ROWS = 60_000
CASES = {
    "stream": (9, (3, 2, 4), (1,)),
    "stream-unasked": (8, (4, 1, 1), (1,)),
    "stream-tight": (8, (3, 3), (1,)),
    "triples": (8, (6, 5, 5), ()),
    "triples-tight": (8, (6, 6, 5), ()),
}


def pack(n_cells: int, spans: tuple[int, ...], beside: tuple[int, ...], n_rows: int) -> np.ndarray:
    packer = Packer(keys(n_rows), n_cells, beside, attempt=0)
    return packer.put(torch.tensor(spans).expand(n_rows, -1)).numpy()


def law_p_value(starts: np.ndarray, law: dict[tuple[int, ...], float]) -> float:
    outcomes = list(law)
    observed = count_tuples(starts + 1, [tuple(a + 1 for a in starts) for starts in outcomes])
    return chi_square_p(observed, np.array([law[outcome] for outcome in outcomes]) * len(starts))


@pytest.mark.parametrize("n_turns", [16, 2, 0])
@pytest.mark.parametrize("case", CASES)
def test_starts_follow_the_law_of_turns_and_picks(case, n_turns, monkeypatch):
    monkeypatch.setattr(packing, "_N_TURNS", n_turns)
    n_cells, spans, beside = CASES[case]
    law = packing_law(n_cells, tuple((0, *beside, span) for span in spans), n_turns)
    assert sum(law.values()) == pytest.approx(1)
    assert law_p_value(pack(n_cells, spans, beside, N_ROWS), law) > MIN_P


def test_a_packer_that_prefers_early_starts_fails_the_same_test(monkeypatch):
    early = 0x7FFF_FFFF
    monkeypatch.setattr(packing, "lanes32", lambda *where: lanes32(*where) & early)
    law = packing_law(9, ((0, 1, 3), (0, 1, 2), (0, 1, 4)), 16)
    starts = pack(9, (3, 2, 4), (1,), N_ROWS)
    assert law_p_value(starts[(starts >= 0).all(1)], law) < 1e-6


def test_rows_do_not_depend_on_their_block():
    spans = 1 + (lanes32(keys(300), 7, 12).long() & 15)
    starts = Packer(keys(300), 60, (1,), attempt=3).put(spans)
    assert (starts < 0).any()
    for row in (0, 17, 299):
        alone = Packer(keys(300)[row : row + 1], 60, (1,), attempt=3).put(spans[row : row + 1])
        assert torch.equal(alone[0], starts[row])


def test_blocked_cells_stay_empty():
    packer = Packer(keys(500), 12, (1,), attempt=0)
    cells = torch.zeros(500, 12, dtype=torch.bool)
    cells[:, 4:8] = True
    packer.block(cells)
    starts = packer.put(torch.ones(500, 6, dtype=torch.int64))
    assert set(starts.unique().tolist()) == {-1, 0, 1, 2, 8, 9, 10}


def test_a_second_call_packs_around_the_first():
    packer = Packer(keys(500), 10, (1,), attempt=0)
    first = packer.put(torch.full((500, 2), 3))
    second = packer.put(torch.full((500, 1), 1))
    for a, b in zip(first.tolist(), second[:, 0].tolist(), strict=True):
        covered = {cell for start in a if start >= 0 for cell in (start, start + 1, start + 3)}
        assert b < 0 or not covered & {b, b + 1}


@pytest.mark.parametrize(("n_cells", "beside"), [(8, ()), (12, (1,))], ids=["triples", "stream"])
def test_stirring_leaves_every_placement_equally_likely(n_cells, beside):
    n_rows, spans = 40_000, (3, 2)
    shapes = [(0, *beside, span) for span in spans]
    everything = [
        starts
        for starts in product(*(range(n_cells - span) for span in spans))
        if len({a + o for a, shape in zip(starts, shapes, strict=True) for o in shape})
        == sum(map(len, shapes))
    ]
    starts = torch.tensor([everything[0]]).repeat(n_rows, 1)
    span = torch.tensor(spans).expand(n_rows, -1)
    free = uncovered(starts, span, beside, n_cells)
    for sweep in range(12):
        stir(free, starts, span, beside, lanes32(keys(n_rows), 1, len(spans), sweep))
    expected = dict.fromkeys(everything, 1 / len(everything))
    assert law_p_value(starts.numpy(), expected) > MIN_P
    assert torch.equal(free, uncovered(starts, span, beside, n_cells))


def test_stirring_puts_down_what_was_not_standing_where_it_fits():
    starts = torch.tensor([[0, -1], [3, -1]])
    spans = torch.tensor([[3, 1], [3, 6]])
    free = uncovered(starts, spans, (1,), 7)
    assert free.tolist()[0] == [False, False, True, False, True, True, True]
    stir(free, starts, spans, (1,), lanes32(keys(2), 1, 2))
    assert starts[0, 1] >= 0
    assert starts[1, 1] == (0 if starts[1, 0] in (2,) else -1)


def test_pick_is_uniform_and_says_where_nothing_is():
    among = torch.tensor([[False, True, False, True, True]]).repeat(30_000, 1)
    column, found = pick(among, lanes32(keys(30_000), 1, 1)[:, 0])
    counts = np.bincount(column, minlength=5)
    assert found.all()
    assert chi_square_p(counts[[1, 3, 4]], np.full(3, 10_000)) > MIN_P
    assert counts[[0, 2]].sum() == 0
    column, found = pick(torch.zeros(3, 5, dtype=torch.bool), lanes32(keys(3), 1, 1)[:, 0])
    assert not found.any()
    assert column.tolist() == [0, 0, 0]


@pytest.mark.parametrize("bound", [50, 1 << 40], ids=["32-bit", "64-bit"])
def test_in_order_sorts_values_and_ranks_columns(bound):
    values = torch.tensor([[9, 2, 7, 2], [1, 0, 49, 48]])
    ordered, rank = in_order(values, bound)
    assert ordered.tolist() == [[2, 2, 7, 9], [0, 1, 48, 49]]
    assert rank.tolist() == [[3, 0, 2, 1], [1, 0, 3, 2]]
