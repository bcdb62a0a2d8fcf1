import pytest

from zoology_bench.baselines import ceiling, ranks


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    """Ceilings from fewer sampled rows: every comparison allows for their standard error."""
    monkeypatch.setattr(ceiling, "_MOST_ROWS", 1 << 13)
    monkeypatch.setattr(ceiling, "_known", {})
    monkeypatch.setattr(ranks, "_known", {})
