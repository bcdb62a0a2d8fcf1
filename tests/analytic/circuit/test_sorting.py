"""The network sorts, and has the shape that the circuit relies on."""

import itertools

import pytest

from zoology_bench.analytic.circuit.plan import Plan, ceil_log2
from zoology_bench.analytic.circuit.sorting import odd_even_merge_sort

Stages = list[list[tuple[int, int]]]


def sorts_all_bits(stages: Stages, n_elements: int) -> bool:
    """The 0/1 principle: a network that sorts all bit strings sorts everything."""
    # Column i holds element i of every bit string, one string a bit of an integer.
    strings = list(itertools.product((0, 1), repeat=n_elements))
    wires = [sum(bits[i] << k for k, bits in enumerate(strings)) for i in range(n_elements)]
    for i, j in itertools.chain.from_iterable(stages):
        wires[i], wires[j] = wires[i] & wires[j], wires[i] | wires[j]
    return all(wires[i] & ~wires[i + 1] == 0 for i in range(n_elements - 1))


@pytest.mark.parametrize("n_elements", range(2, 13))
def test_every_bit_string_is_sorted(n_elements):
    stages = odd_even_merge_sort(n_elements)
    t = ceil_log2(n_elements)
    assert len(stages) == t * (t + 1) // 2
    assert sorts_all_bits(stages, n_elements)
    for index in range(len(stages)):
        assert not sorts_all_bits(stages[:index] + stages[index + 1 :], n_elements)


@pytest.mark.slow
@pytest.mark.parametrize("n_elements", range(13, 19))
def test_longer_bit_strings_are_sorted_too(n_elements):
    assert sorts_all_bits(odd_even_merge_sort(n_elements), n_elements)


@pytest.mark.parametrize("n_elements", [2, 3, 8, 13, 64, 100])
def test_no_element_is_in_two_comparators_of_a_stage(n_elements):
    for stage in odd_even_merge_sort(n_elements):
        elements = list(itertools.chain.from_iterable(stage))
        assert stage and len(set(elements)) == len(elements)


@pytest.mark.parametrize("n_triples", [2, 3, 8, 13, 50])
def test_the_comparators_of_a_stage_span_equally_many_rows(n_triples):
    plan = Plan(n_triples, padded=True)
    spans = [stage.span for stage in plan.stages]
    distances = [stage[0][1] - stage[0][0] for stage in odd_even_merge_sort(2 * n_triples)]
    expected = [3 * k // 2 if k > 1 else 2 for k in distances]
    assert spans == [1, *expected[1:]]
