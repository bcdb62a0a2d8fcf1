"""Exact probabilities of weighted drawing without replacement; host floats, never used to draw."""

import numpy as np

_STEP = 0.05
"""Spacing of the quadrature in log time: the trapezoid rule is then exact to about 1e-12."""


def slot_law(n_slots: int, n_drawn: int, exponent: float) -> np.ndarray:
    """P(the i-th of n_drawn draws is slot g), p(g) ~ g^-exponent, g = 1..n_slots.

    In the exponential race, slot g finishes at time t with density w e^(-w t), and is then i-th if
    i - 1 of the others have finished, a Poisson-binomial number.

    Returns:
        (n_drawn, n_slots) float64; every row sums to 1.
    """
    weight = np.arange(1, n_slots + 1, dtype=np.float64) ** -exponent
    weight /= weight.max()
    log_t = np.arange(-35.0, np.log(45.0 / weight.min()), _STEP)
    hazard = np.exp(log_t)[:, None] * weight
    finished = -np.expm1(-hazard)
    density = hazard * np.exp(-hazard) * _STEP
    pmf = _poisson_binomial(finished)

    # Taking slot g out solves pmf_i = p r_(i-1) + (1 - p) r_i for r: upwards where p < 1/2 and
    # downwards elsewhere, each direction damping rounding errors exactly there.
    law = np.zeros((n_drawn, n_slots))
    late = finished >= 0.5
    pending = np.where(late, 1.0, 1 - finished)
    r = np.zeros_like(finished)
    for i in range(n_drawn):
        r = np.where(late, 0.0, (pmf[:, i, None] - finished * r) / pending)
        law[i] += np.einsum("tg,tg->g", density, r)
    done = np.where(late, finished, 1.0)
    r = np.zeros_like(finished)
    for i in range(n_slots, 0, -1):
        r = np.where(late, (pmf[:, i, None] - (1 - finished) * r) / done, 0.0)
        if i <= n_drawn:
            law[i - 1] += np.einsum("tg,tg->g", density, r)
    return law


def _poisson_binomial(p: np.ndarray) -> np.ndarray:
    """(N, S + 1) probabilities of 0..S successes for success probabilities (N, S)."""
    pmf = np.zeros((len(p), p.shape[1] + 1))
    pmf[:, 0] = 1
    for column in p.T[:, :, None]:
        shifted = pmf[:, :-1] * column
        pmf *= 1 - column
        pmf[:, 1:] += shifted
    return pmf
