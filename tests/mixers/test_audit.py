"""Every registered mixer passes the audit, and the audit catches mixers that do not deserve it."""

import pytest
import torch
from torch import Tensor, nn

from tests.mixers.cases import CASES
from zoology_bench.kernels import toeplitz_conv
from zoology_bench.mixers import INITS, MIXERS
from zoology_bench.mixers.audit import (
    FFT_TOLERANCE,
    audit_mixer,
    audit_module,
    max_leak,
    measured_state_bytes,
)
from zoology_bench.mixers.base import Mixer, State
from zoology_bench.mixers.base_conv import BaseConv, BaseConvConfig

D_MODEL = 8


def test_every_registered_mixer_is_audited() -> None:
    assert {config.name for config in CASES.values()} == set(MIXERS)


@pytest.mark.parametrize("layer_idx", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("case", CASES)
def test_mixer_passes(case: str, init: str, layer_idx: int) -> None:
    assert audit_mixer(CASES[case], layer_idx=layer_idx, init=init).failures == ()


@pytest.mark.parametrize("case", ["base_conv", "base_conv-official"])
def test_long_filters_pass_through_the_fft(case: str) -> None:
    audit = audit_mixer(CASES[case], seq_len=131, layer_idx=1)
    assert audit.failures == ()
    # Not exactly zero: the FFT route was taken, and it is the only reason for a tolerance.
    assert 0 < audit.leak < FFT_TOLERANCE


def built(config_case: str = "base_conv", layer_idx: int = 0) -> Mixer:
    config = CASES[config_case]
    mixer = config.build(D_MODEL, 12, layer_idx, 2)
    config.init_(mixer, "random", layer_idx, 2, torch.Generator().manual_seed(0))
    return mixer.double()


class Wrapped(Mixer):
    """A sound mixer inside, for mutants to break one promise of."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = built()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    def init_state(self, batch_size: int) -> State:
        return self.inner.init_state(batch_size)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.inner.step(x, state)

    def state_bytes(self, seq_len: int) -> int | None:
        return self.inner.state_bytes(seq_len)


class PeekOneAhead(Wrapped):
    """Each position also sees a millionth of the next one."""

    def forward(self, x: Tensor) -> Tensor:
        ahead = torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], dim=1)
        return self.inner(x) + 1e-6 * ahead


class CircularConv(Wrapped):
    """An FFT without padding: the end of the sequence wraps around to its start."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.ones(D_MODEL, x.shape[1], dtype=x.dtype)
        spectrum = torch.fft.rfft(x.transpose(1, 2)) * torch.fft.rfft(h)
        return self.inner(x) + torch.fft.irfft(spectrum, n=x.shape[1]).transpose(1, 2)


class Centered(Wrapped):
    """Subtracts the mean over the whole sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x - x.mean(1, keepdim=True))


class UnusedParameter(Wrapped):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Parameter(torch.zeros(3, dtype=torch.float64))


class UselessParameter(UnusedParameter):
    """It is in the graph, but its gradient is zero."""

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 0 * self.spare.sum()


class DetachedGate(Wrapped):
    def forward(self, x: Tensor) -> Tensor:
        inner = self.inner
        assert isinstance(inner, BaseConv)
        conv = toeplitz_conv(x.transpose(1, 2), inner.filter(x.shape[1])).transpose(1, 2)
        return inner.gate(x).detach() * (conv + inner.conv_bias)


class ForgetfulStep(Wrapped):
    """Its decode form starts over at every token."""

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.inner.step(x, self.inner.init_state(x.shape[0]))


class HoardingStep(Wrapped):
    """Its state is small only by its shape: the view keeps a large buffer alive."""

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, state = self.inner.step(x, state)
        hoard = torch.cat([state["past"], state["past"].new_zeros(len(x), 99, D_MODEL)], dim=1)
        return y, {"past": hoard[:, : state["past"].shape[1]]}


MUTANTS: dict[type[Wrapped], str] = {
    PeekOneAhead: "causality",
    CircularConv: "causality",
    Centered: "causality",
    UnusedParameter: "gradient: none reaches spare",
    UselessParameter: "gradient: none reaches spare",
    DetachedGate: "gradient: none reaches inner.gate.weight",
    ForgetfulStep: "step form",
    HoardingStep: "state_bytes",
}


def test_the_sound_mixer_passes() -> None:
    assert audit_module(Wrapped(), D_MODEL, 12, exact=True).failures == ()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "fft-tolerance"])
def test_mutant_is_caught(mutant: type[Wrapped], exact: bool) -> None:
    failures = audit_module(mutant(), D_MODEL, 12, exact=exact).failures
    assert any(failure.startswith(MUTANTS[mutant]) for failure in failures)


def test_even_a_faint_peek_exceeds_the_tolerance_a_thousandfold() -> None:
    generator = torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 2, 12, D_MODEL, dtype=torch.float64, generator=generator)
    assert max_leak(PeekOneAhead(), x, other) > 1000 * FFT_TOLERANCE


@pytest.mark.parametrize(
    ("case", "layer_idx", "n_remembered"),
    [
        ("attention", 0, {1: 2, 5: 10, 31: 62}),
        ("attention-rotary", 1, {1: 2, 5: 10, 31: 62}),
        ("base_conv", 0, {1: 1, 5: 2, 31: 2}),
        ("base_conv", 1, {1: 1, 5: 5, 31: 11}),
        ("base_conv-implicit", 0, {1: 1, 5: 5, 31: 31}),
        ("hybrid", 0, {1: 1, 5: 3, 31: 3}),
        ("hybrid", 1, {1: 2, 5: 10, 31: 62}),
    ],
)
def test_state_holds_what_a_later_output_can_reach(
    case: str, layer_idx: int, n_remembered: dict[int, int]
) -> None:
    # In vectors of D numbers; the long explicit filter was built for 12 tokens.
    mixer = built(case, layer_idx)
    for seq_len, n_vectors in n_remembered.items():
        assert mixer.state_bytes(seq_len) == 8 * D_MODEL * n_vectors
        assert measured_state_bytes(mixer, D_MODEL, seq_len) == 8 * D_MODEL * n_vectors


def test_exact_causal_is_promised_only_without_long_filters() -> None:
    assert CASES["attention"].exact_causal
    assert CASES["hybrid"].exact_causal
    assert BaseConvConfig(filters=["short"]).exact_causal
    assert not CASES["base_conv"].exact_causal
    assert not CASES["torch_module"].exact_causal
