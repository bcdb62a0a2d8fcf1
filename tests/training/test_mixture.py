from collections import Counter

import pytest

from zoology_bench.training.mixture import Mixture, mixed_batches


def components(mixture, n_steps):
    return [mixture.at(step)[0] for step in range(n_steps)]


def test_draws_do_not_depend_on_the_length_of_the_run():
    short, long = Mixture([1, 2], seed=0, n_steps=50), Mixture([1, 2], seed=0, n_steps=500)
    assert [short.at(step) for step in range(50)] == [long.at(step) for step in range(50)]


def test_seeds_draw_differently():
    n = 200
    assert components(Mixture([1, 1], 0, n), n) != components(Mixture([1, 1], 1, n), n)


def test_components_come_in_proportion_to_their_weights():
    n = 20_000
    counts = Counter(components(Mixture([10, 2, 2, 6], seed=3, n_steps=n), n))
    for component, share in enumerate((0.5, 0.1, 0.1, 0.3)):
        # four standard deviations of a binomial share
        assert counts[component] / n == pytest.approx(
            share, abs=4 * (share * (1 - share) / n) ** 0.5
        )


def test_local_steps_count_each_component_without_gaps():
    mixture = Mixture([3, 1], seed=1, n_steps=300)
    for component in (0, 1):
        local = [at[1] for at in map(mixture.at, range(300)) if at[0] == component]
        assert local == list(range(len(local)))


def test_batches_come_from_the_drawn_component_at_its_own_step():
    mixture = Mixture([1, 1], seed=1, n_steps=20)
    batches = mixed_batches([lambda n: ("a", n), lambda n: ("b", n)], mixture)  # type: ignore
    expected = [("ab"[component], local) for component, local in map(mixture.at, range(20))]
    assert [batches(step) for step in range(20)] == expected


@pytest.mark.parametrize("weights", [[], [1, 0], [1, -1], [float("nan")], [float("inf"), 1]])
def test_weights_must_be_positive_and_finite(weights):
    with pytest.raises(ValueError, match="must be positive and finite"):
        Mixture(weights, seed=0, n_steps=1)
