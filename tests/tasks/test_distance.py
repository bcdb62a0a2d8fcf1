"""Distance laws: the stated weights, thresholds without floats, and one-line errors."""

import hashlib
import math

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from zoology_bench.tasks.distance import (
    DISTANCE_LAWS,
    Empirical,
    Fixed,
    LawTable,
    LogUniform,
    PowerLaw,
    Uniform,
)

LATTICE = np.arange(8, 58)
TRIPLES = np.arange(5, 48, 3)


@pytest.fixture
def histogram(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "histogram.csv"
        path.write_text(text)
        return str(path)

    return write


def test_laws_have_the_stated_weights(histogram):
    s = np.arange(10, 41)
    cases = [
        (Fixed(values=[30, 10]), [10, 30], [1, 1]),
        (Uniform(lo=10, hi=40), s, np.ones(31)),
        (LogUniform(lo=10, hi=40), s, 1 / s),
        (PowerLaw(lo=10, hi=40, alpha=1.7), s, s**-1.7),
        (PowerLaw(lo=10, hi=40, alpha=-2), s, s.astype(float) ** 2),
        (Empirical(path=histogram("distance,count\n20,3\n9,1\n30,0\n")), [9, 20], [1, 3]),
    ]
    for law, support, weights in cases:
        table = law.table(LATTICE)
        assert table.support.tolist() == list(support), law
        assert np.allclose(table.probabilities, weights / np.sum(weights), rtol=1e-12), law


def test_laws_live_on_the_lattice():
    assert Uniform(lo=8, hi=14).table(TRIPLES).support.tolist() == [8, 11, 14]


def test_thresholds_cut_the_unit_interval_where_the_law_says():
    table = LawTable(np.array([3, 5, 9]), [1, 2, 5])
    assert table.thresholds.tolist() == [2**29, 3 * 2**29, 2**32]
    edges = torch.tensor([0, 2**29 - 1, 2**29, 3 * 2**29 - 1, 3 * 2**29, 2**32 - 1])
    bits = edges.to(torch.int32)
    assert table.sample(bits).tolist() == [3, 3, 5, 5, 9, 9]


def test_thresholds_are_the_same_on_every_machine():
    """They come from integers and decimals; another hash means other rows: raise the version."""
    digests = [
        PowerLaw(lo=8, hi=57, alpha=1.1).table(LATTICE).digest(),
        LogUniform(lo=8, hi=57).table(LATTICE).digest(),
    ]
    assert hashlib.sha256("".join(digests).encode()).hexdigest() == (
        "8f93216eef7d0e30f2240880c3da77c7ae212fcfd2e865fe9a9619ebce1bfa21"
    )


def test_a_law_too_steep_for_any_float_keeps_its_reachable_points():
    table = PowerLaw(lo=8, hi=57, alpha=5000).table(LATTICE)
    assert table.support.tolist() == [8]


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Fixed(values=[]), r"task\.distance\.values=\[\] must name"),
        (Fixed(values=[10, 10]), r"task\.distance\.values=\[10, 10\] must name each .* once"),
        (Fixed(values=[7]), r"task\.distance\.values=7 is off .* nearest valid is 8"),
        (Fixed(values=[1.5]), r"task\.distance\.values=1\.5 must be an integer"),
        (Uniform(lo=3, hi=20), r"task\.distance\.lo=3 is off .* 8\.\.57: the nearest valid is 8"),
        (Uniform(lo=8, hi=99), r"task\.distance\.hi=99 is off .* nearest valid is 57"),
        (Uniform(lo=20, hi=10), r"task\.distance\.lo=20 must not exceed task\.distance\.hi=10"),
        (Uniform(hi=10), r"task\.distance\.lo='\?\?\?' must be an integer"),
        (LogUniform(lo=0, hi=10), r"task\.distance\.lo=0 must be at least 1"),
        (PowerLaw(lo=8, hi=9, alpha=math.nan), r"task\.distance\.alpha=nan must be finite"),
        (PowerLaw(lo=8, hi=9, alpha="1"), r"task\.distance\.alpha='1' must be a number"),
    ],
    ids=lambda v: "" if isinstance(v, str) else type(v).__name__,
)
def test_bad_laws_name_the_field_and_the_rule(law, message):
    with pytest.raises(ValueError, match=message):
        law.table(LATTICE)


def test_a_point_between_lattice_points_names_the_nearest_and_the_step():
    with pytest.raises(ValueError, match=r"lo=9 is off .* 5\.\.47 in steps of 3: .* is 8"):
        Uniform(lo=9, hi=47).table(TRIPLES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no histogram: its first line must be 'distance,count'"),
        ("a,b\n1,2\n", "is no histogram: its first line"),
        ("distance,count\n", "it has no positive count"),
        ("distance,count\n9,0\n", "it has no positive count"),
        ("distance,count\n9,1.5\n", "line 2 is '9,1.5': need two integers"),
        ("distance,count\n9\n", "line 2 is '9': need two integers"),
        ("distance,count\n9,-1\n", "line 2 is 9,-1: must not be negative"),
        ("distance,count\n9,1\n9,2\n", "line 3 repeats distance 9"),
        ("distance,count\n4,1\n", "distance=4 is off .* nearest valid is 8"),
    ],
    ids=["empty", "header", "no-rows", "zero", "fraction", "one-cell", "negative", "twice", "off"],
)
def test_bad_histograms_name_the_path_and_the_rule(histogram, text, message):
    path = histogram(text)
    with pytest.raises(ValueError, match=message) as caught:
        Empirical(path=path).table(LATTICE)
    assert str(caught.value).startswith(f"task.distance.path={path!r}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.csv", "."], ids=["missing", "folder"])
def test_unreadable_histogram_names_the_path(tmp_path, name):
    with pytest.raises(ValueError, match=r"task\.distance\.path=.* cannot be read"):
        Empirical(path=str(tmp_path / name)).table(LATTICE)


def test_binary_histogram_names_the_path(tmp_path):
    path = tmp_path / "histogram.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="cannot be read: not a text file"):
        Empirical(path=str(path)).table(LATTICE)


@pytest.mark.parametrize("name", DISTANCE_LAWS)
def test_laws_survive_structured_configs(name):
    config = OmegaConf.structured(DISTANCE_LAWS[name])
    for key in config:
        if OmegaConf.is_missing(config, key):
            config[key] = "p" if key == "path" else 8
    assert isinstance(OmegaConf.to_object(config), DISTANCE_LAWS[name])
