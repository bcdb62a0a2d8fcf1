import base64

import numpy as np
import pytest

from zoology_bench.reporting.frozen import (
    N_LOGITS,
    TOLERANCE,
    decode_logits,
    encode_logits,
    relative_difference,
)

LOGITS = np.random.default_rng(0).normal(size=N_LOGITS).astype("<f4")


def test_logits_survive_bit_for_bit():
    LOGITS[3] = 1e-30
    assert decode_logits(encode_logits(LOGITS)).tobytes() == LOGITS.tobytes()


@pytest.mark.parametrize(("change", "moved"), [(1e-6, False), (3e-4, True)])
def test_difference_is_relative_to_the_size_of_the_logits(change, moved):
    for scale in (1e-3, 1.0, 1e3):
        other = LOGITS.copy()
        other[5] += change * float(np.sqrt(np.mean(LOGITS**2)))
        got = relative_difference(encode_logits(scale * LOGITS), encode_logits(scale * other))
        assert got == pytest.approx(change, rel=0.2)
        assert (got > TOLERANCE) is moved


def test_zeros_and_numbers_that_are_not_finite():
    zeros, nans = np.zeros(N_LOGITS), np.full(N_LOGITS, np.nan)
    assert relative_difference(encode_logits(zeros), encode_logits(zeros)) == 0
    assert relative_difference(encode_logits(nans), encode_logits(nans)) == 0
    for a, b in ((zeros, LOGITS), (LOGITS, nans), (nans, LOGITS)):
        assert relative_difference(encode_logits(a), encode_logits(b)) == np.inf


@pytest.mark.parametrize(
    ("text", "message"),
    [("x!", "is not base64"), (base64.b64encode(b"1234").decode(), "holds 4 bytes, not 256")],
)
def test_foreign_text_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        decode_logits(text)


def test_another_count_is_refused():
    with pytest.raises(ValueError, match="holds 3 numbers, not 64"):
        encode_logits(np.zeros(3))
