import math

import pytest

from tests.reporting.frames import both_splits, failed, frame
from zoology_bench.reporting.rates import by_rate, windows

GRID = [1e-4, 1e-3, 1e-2, 1e-1]


def swept(select, report=None, **changes):
    report = select if report is None else report
    return frame(
        *(
            both_splits(r, select=s, lr=lr, **changes)
            for lr, s, r in zip(GRID, select, report, strict=True)
        )
    )


def one(rows):
    return windows(by_rate(rows)).iloc[0]


def test_the_window_is_what_is_within_five_points_without_a_gap():
    got = one(swept([0.5, 0.93, 0.95, 0.2]))
    assert (got.best_lr, got.low_lr, got.high_lr) == (1e-2, 1e-3, 1e-2)
    assert got.decades == pytest.approx(1)
    assert not got.at_edge
    gap = one(swept([0.95, 0.2, 0.95, 0.2]))
    assert (gap.low_lr, gap.high_lr, gap.decades) == (1e-4, 1e-4, 0)
    assert gap.at_edge


def test_optimism_is_what_the_reported_split_would_have_claimed_beyond():
    got = one(swept([0.5, 0.90, 0.95, 0.2], report=[0.5, 0.94, 0.91, 0.2]))
    assert got.report_accuracy == pytest.approx(0.91)
    assert got.optimism == pytest.approx(0.03)
    assert one(swept([0.5, 0.9, 0.95, 0.2])).optimism == 0


def test_a_rate_at_which_runs_break_counts_as_zero():
    rows = frame(
        both_splits(0.95, lr=1e-3),
        both_splits(0.94, lr=1e-2),
        failed(lr=1e-1),
    )
    rates = by_rate(rows)
    assert rates.select_accuracy.tolist() == [0.95, 0.94, 0.0]
    assert rates.report_accuracy.tolist() == [0.95, 0.94, 0.0]
    got = windows(rates).iloc[0]
    assert math.isclose(got.high_lr, 1e-2)


def test_one_rate_has_no_window():
    assert windows(by_rate(frame(both_splits(0.9)))).empty
