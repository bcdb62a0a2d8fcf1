"""Hyena and H3: their formulas written out, what the recipe starts from, and bad fields."""

import pytest
import torch

from zoology_bench.mixers.h3 import H3, H3Config
from zoology_bench.mixers.hyena import Hyena, HyenaConfig
from zoology_bench.mixers.state_space import DiagonalSSM

D_MODEL, LENGTH = 6, 20


def built(config, scheme):
    layer = config.build(D_MODEL, LENGTH, 0, 2)
    config.init_(layer, scheme, 0, 2, torch.Generator().manual_seed(0))
    return layer.double()


def convolved(h, v):
    """h (D, K) over v (B, T, D), one lag after another."""
    out = torch.zeros_like(v)
    for lag in range(min(h.shape[1], v.shape[1])):
        out[:, lag:] += h[:, lag] * v[:, : v.shape[1] - lag]
    return out


@pytest.mark.parametrize("scheme", ["recipe", "random"])
@pytest.mark.parametrize("filter", ["explicit", "implicit"])
def test_hyena_is_its_formula(filter, scheme):
    layer = built(HyenaConfig(filter=filter), scheme)
    assert isinstance(layer, Hyena)
    x = torch.randn(2, LENGTH, D_MODEL, dtype=torch.float64)
    q, k, v = convolved(layer.short.taps, x @ layer.w_in.weight.T).chunk(3, dim=-1)
    mixed = q * (convolved(layer.filter(LENGTH), k * v) + layer.skip * k * v)
    torch.testing.assert_close(layer(x), mixed @ layer.w_out.weight.T)


@pytest.mark.parametrize("scheme", ["recipe", "random"])
def test_h3_is_its_formula(scheme):
    layer = built(H3Config(d_state=8), scheme)
    assert isinstance(layer, H3)
    x = torch.randn(2, LENGTH, D_MODEL, dtype=torch.float64)
    q, k, v = (x @ w.weight.T for w in (layer.w_q, layer.w_k, layer.w_v))
    kv = convolved(layer.shift.taps, k) * v
    mixed = q * (convolved(layer.ssm(LENGTH), kv) + layer.skip * kv)
    torch.testing.assert_close(layer(x), mixed @ layer.w_o.weight.T)


def test_the_diagonal_model_is_the_zero_order_hold_of_its_equation():
    ssm = DiagonalSSM(3, 8).double()
    ssm.init_(torch.Generator().manual_seed(0))
    a = torch.complex(-ssm.log_decay.exp(), ssm.frequency)
    step, c = ssm.log_step.exp()[:, None], torch.view_as_complex(ssm.readout)
    # An impulse held for one step, then left alone: s(t) = e^{At} (1 - e^{-A step}) / A.
    for lag in (0, 1, 7):
        s = torch.exp(a * step * (lag + 1)) * (1 - torch.exp(-a * step)) / a
        torch.testing.assert_close(ssm(8)[:, lag], 2 * (c * s).sum(1).real)


def test_the_recipe_binds_each_token_to_the_one_before_it_and_keeps_the_sum():
    hyena, h3 = built(HyenaConfig(filter="explicit"), "recipe"), built(H3Config(), "recipe")
    kept = h3.ssm(LENGTH) * LENGTH**0.5
    assert ((kept > 0.4) & (kept < 1.2)).all()
    for w_q, w_k in (
        (hyena.w_in.weight[:6], hyena.w_in.weight[6:12]),
        (h3.w_q.weight, h3.w_k.weight),
    ):
        assert torch.equal(w_q, w_k)
    q, k, v = hyena.short.taps.detach().view(3, D_MODEL, 3).unbind()
    for taps, lag in ((q, 0), (k, 1), (v, 0)):
        assert torch.equal(taps, torch.eye(3, dtype=torch.float64)[lag].expand(D_MODEL, 3))
    assert torch.equal(h3.shift.taps[:, 1], torch.ones(D_MODEL, dtype=torch.float64))


@pytest.mark.parametrize(
    ("config", "fields", "message"),
    [
        (HyenaConfig, {"filter": "short"}, "model.mixer.filter='short' is unknown"),
        (HyenaConfig, {"kernel_size": 1}, "model.mixer.kernel_size=1"),
        (H3Config, {"d_state": 7}, "model.mixer.d_state=7 must be even"),
        (H3Config, {"d_state": 0}, "model.mixer.d_state=0"),
        (H3Config, {"kernel_size": 1}, "model.mixer.kernel_size=1"),
    ],
)
def test_bad_fields_get_one_line(config, fields, message):
    with pytest.raises(ValueError, match=message):
        config(**fields)
