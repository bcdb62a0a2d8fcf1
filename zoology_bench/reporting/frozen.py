"""Logits of a frozen model as text in a result row, and how far two of them are apart."""

import base64
import binascii

import numpy as np

N_LOGITS = 64
TOLERANCE = 1e-4
"""Largest difference over the baseline's rms that rounding may cause; beyond, numerics moved."""


def encode_logits(logits: np.ndarray) -> str:
    """Base64 of ``N_LOGITS`` numbers as little-endian float32.

    Raises:
        ValueError: another count of numbers.
    """
    flat = np.asarray(logits, dtype="<f4").ravel()
    if flat.size != N_LOGITS:
        raise ValueError(f"frozen_logits holds {flat.size} numbers, not {N_LOGITS}")
    return base64.b64encode(flat.tobytes()).decode("ascii")


def decode_logits(text: str) -> np.ndarray:
    """The ``N_LOGITS`` numbers, float32.

    Raises:
        ValueError: not what ``encode_logits`` writes.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"frozen_logits={text[:16]}... is not base64: {error}") from None
    if len(data) != 4 * N_LOGITS:
        raise ValueError(f"frozen_logits holds {len(data)} bytes, not {4 * N_LOGITS}")
    return np.frombuffer(data, dtype="<f4")


def relative_difference(baseline: str, candidate: str) -> float:
    """Largest absolute difference over the root mean square of the baseline.

    Element by element, a logit near zero would turn rounding into a large ratio. Numbers that are
    not finite on one side only are infinitely far apart.
    """
    a, b = decode_logits(baseline).astype(float), decode_logits(candidate).astype(float)
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    scale = float(np.sqrt(np.mean(a**2)))
    return float(np.abs(a - b).max()) / scale if scale > 0 else float("inf")
