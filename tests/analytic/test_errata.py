"""The construction fails as it is printed, slip by slip, and is exact as it is corrected."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.analytic.errata import (
    ASCENDING_REPAIR,
    CHANNELS,
    CORRECTED,
    GAPS,
    PRINTED,
    Form,
    accuracy,
    outputs,
    printed_autocorrelation,
    shift_form,
    table,
    triples,
)
from zoology_bench.analytic.base_conv.literal import Circuit
from zoology_bench.analytic.base_conv.rows import Rows


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("t", [2, 3])
def test_a_printed_form_misses_a_fifth_of_the_queries(name: str, t: int) -> None:
    tokens, answers = triples(t)
    share = accuracy(tokens, answers, outputs(tokens, t, PRINTED[name]))
    print(f"{name}, t = {t}: {share:.3f}")
    assert share <= 0.8


@pytest.mark.parametrize("t", [1, 2, 3])
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("repeated", [False, True], ids=["unique", "repeated"])
def test_the_corrected_form_equals_the_shift_form(t: int, descending: bool, repeated: bool) -> None:
    tokens, answers = triples(t, repeated=repeated)
    z = outputs(tokens, t, replace(CORRECTED, descending=descending))
    assert torch.equal(z, shift_form(tokens, t))
    assert repeated or accuracy(tokens, answers, z) == 1.0


def test_the_obvious_repair_is_exact_only_for_ascending_lags_and_unique_keys() -> None:
    tokens, answers = triples(3)
    assert accuracy(tokens, answers, outputs(tokens, 3, ASCENDING_REPAIR)) == 1.0
    tokens, _ = triples(3, repeated=True)
    differs = outputs(tokens, 3, ASCENDING_REPAIR) != shift_form(tokens, 3)
    assert differs.flatten(1).any(1).double().mean() > 0.2


@pytest.mark.parametrize("t", [1, 2, 4])
def test_the_printed_autocorrelation_counts_filler(t: int) -> None:
    raw, cross = printed_autocorrelation(t)
    print(f"lags of the rows themselves, t = {t}: {raw:.3f}; queries against keys: {cross:.3f}")
    assert raw <= 0.8
    assert cross == 1.0


@pytest.mark.parametrize("t", [1, 2, 3])
@pytest.mark.parametrize("repeated", [False, True], ids=["unique", "repeated"])
def test_the_literal_blocks_equal_the_shift_form(t: int, repeated: bool) -> None:
    tokens, _ = triples(t, repeated=repeated)
    tokens = tokens[:40]
    role = (torch.arange(tokens.shape[1]) % 3).expand_as(tokens)
    lags = torch.tensor(sorted(3 * g + 2 for g in GAPS[:t])).expand(len(tokens), -1)
    rows = Rows(
        tokens=tokens, asked=role == 2, written=role == 0, positions=tokens[:, :1] * 0, lags=lags
    )
    circuit = Circuit.of(rows, CHANNELS, None)
    z = circuit.blocks(F.one_hot(tokens, CHANNELS).float()).sum(1)
    assert torch.equal(z.long(), shift_form(tokens, t))


def test_the_page_shows_what_the_command_prints() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "theory.md").read_text()
    shown = page.partition("<!-- errata -->\n")[2].partition("\n<!-- /errata -->")[0]
    assert shown == table()


def test_the_defaults_are_the_corrected_form() -> None:
    assert Form() == CORRECTED and Form() not in PRINTED.values()
