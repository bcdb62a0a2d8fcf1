"""Logarithms in integers: the same table on every machine, whatever its math library rounds."""

import numpy as np

LOG2_BITS = 28
"""Fractional bits of ``log2_fixed``."""
NEG_LOG_BITS = 59
"""Fractional bits of ``neg_log_survival``: its largest value, 16 ln 2, stays below 2^63."""


def log2_fixed(x: np.ndarray) -> np.ndarray:
    """log2 of positive int64 x as int64 with LOG2_BITS fractional bits; error below 2^-27.

    Digit by digit: with x = 2^e f and 1 <= f < 2, squaring f doubles its logarithm, so that
    f^2 >= 2 exactly when the next binary digit of log2 f is 1.
    """
    exponent = np.zeros(x.shape, dtype=np.uint64)
    rest = x.astype(np.uint64)
    for shift in (32, 16, 8, 4, 2, 1):
        step = (rest >> np.uint64(shift) != 0) * np.uint64(shift)
        exponent += step
        rest >>= step
    # f as 32-bit words with 31 fractional bits, so that f * f fits in 64 bits.
    left = np.uint64(63) - exponent
    f = (x.astype(np.uint64) << left) >> np.uint64(32)
    digits = exponent
    for _ in range(LOG2_BITS):
        f = (f * f) >> np.uint64(31)
        digit = f >> np.uint64(32)
        f >>= digit
        digits = (digits << np.uint64(1)) | digit
    return digits.astype(np.int64)


def neg_log_survival(bits: int) -> np.ndarray:
    """-ln(1 - i / 2^bits) for i = 0..2^bits - 1 as int64 with NEG_LOG_BITS fractional bits.

    A running sum of ln n - ln(n - 1) = 2 artanh(1 / (2n - 1)), largest n first: small results
    are sums of few terms and keep their relative precision (about 2^-40).
    """
    assert bits <= 16, bits
    odd = 2 * np.arange(1 << bits, 1, -1, dtype=np.int64) - 1
    power = (1 << (NEG_LOG_BITS + 1)) // odd
    total = np.zeros_like(power)
    k = 1
    while power.any():
        total += power // k
        power //= odd * odd
        k += 2
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(total)])
