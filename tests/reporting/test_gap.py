"""The gap pairs a trained arm with its own construction, on the same rows, and with no other."""

import pytest

from tests.reporting.frames import row
from zoology_bench.reporting.aggregate import summarise
from zoology_bench.reporting.gap import gap_markdown, gaps
from zoology_bench.reporting.schema import to_frame

UNTRAINED = {"kind": "untrained", "init": "", "mixer": "", "lr": None, "steps": 0}


def construction(name, **changes):
    return row(**{**UNTRAINED, "model": name, "d_model": None, "hits": 4000.0, **changes})


def trained(name, hits, seed=0, **changes):
    rows = [row(model=name, mixer=name, hits=hits, seed=seed, **changes)]
    return [*rows, {**rows[0], "split": "select"}]


def summary_of(*rows):
    return summarise(to_frame([r for group in rows for r in group]))


def test_gap_is_what_the_twin_recalls_beyond_the_seeds_mean():
    found = gaps(
        summary_of(
            trained("attention", 3000.0),
            trained("attention", 3400.0, seed=1),
            [construction("analytic_attention", hits=3600.0)],
        )
    )
    assert len(found) == 1
    line = found.iloc[0]
    assert line.expressible == 0.9
    assert line.gap == pytest.approx(0.9 - 0.8)
    assert line.gap_low == pytest.approx(0.9 - line.high) and line.gap_low < line.gap
    assert line.gap_high == pytest.approx(0.9 - line.low) and line.gap_high > line.gap


def test_the_best_size_of_a_construction_says_what_can_be_expressed():
    small, large = (
        construction("analytic_base_conv", hits=h, model_id=m, run_id=m)
        for h, m in ((1000.0, "j4"), (2000.0, "j8"))
    )
    found = gaps(summary_of(trained("base_conv[autocorrelation]", 1500.0), [small, large]))
    assert found.expressible.tolist() == [0.5]


def test_other_cells_other_models_and_other_experiments_are_no_twins():
    learned = trained("attention", 3000.0)
    for stranger in (
        construction("analytic_attention", seq_len=128),
        construction("analytic_base_conv"),
        construction("analytic_attention", experiment="elsewhere"),
    ):
        summary = summary_of(learned, [stranger])
        assert gaps(summary).empty
        assert gap_markdown(summary) == ""


def test_the_section_shows_both_numbers_and_the_gap():
    text = gap_markdown(
        summary_of(trained("attention", 3000.0), [construction("analytic_attention")])
    )
    assert "attention (recipe) D=64 at T=64 P=4 | analytic_attention | 1.0000 | 0.75" in text
    assert "0.25" in text
