"""What every registered mixer must pass: causality, gradients, step form, size of the state.

Run in float64, where an honest FFT leaves 1e-16 and a layer that peeks leaves order one.
Letters: B batch, T time, D d_model.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoology_bench.mixers.base import Mixer, MixerConfig

FFT_TOLERANCE = 1e-10
"""rms change of earlier outputs, over the rms of the output, allowed to mixers that use FFTs."""
STEP_TOLERANCE = 1e-10
"""The same for the decode form against the parallel form."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MixerAudit:
    """Findings about one layer."""

    leak: float
    """Largest rms change of outputs before t, over the rms of the output, when inputs from t on
    are replaced; over all t."""
    step_gap: float | None
    """rms difference of the step form from the parallel form, relative; None without one."""
    failures: tuple[str, ...]
    """One line per broken promise; empty if the layer passed."""


def audit_mixer(
    config: MixerConfig,
    *,
    d_model: int = 8,
    seq_len: int = 24,
    layer_idx: int = 0,
    n_layers: int = 2,
    init: str = "random",
) -> MixerAudit:
    """Check one layer of a mixer in float64, on fixed random inputs.

    Lengths tried: 1, an odd one, ``seq_len``, and a longer one where the mixer defines it.
    """
    generator = torch.Generator().manual_seed(0)
    mixer = config.build(d_model, seq_len, layer_idx, n_layers)
    config.init_(mixer, init, layer_idx, n_layers, generator)
    mixer.double()
    return audit_module(mixer, d_model, seq_len, exact=config.exact_causal)


def audit_module(mixer: Mixer, d_model: int, seq_len: int, *, exact: bool) -> MixerAudit:
    """Check a float64 mixer; ``exact`` demands that earlier outputs keep every bit."""
    generator = torch.Generator().manual_seed(1)
    x, other = torch.randn(2, 2, seq_len, d_model, dtype=torch.float64, generator=generator)
    # As in a row of tokens, some inputs occur again: a mixer may look for exactly that.
    x[:, 3::4] = x[:, : x[:, 3::4].shape[1]]
    failures = _length_failures(mixer, d_model, seq_len, generator)
    leak = max_leak(mixer, x, other)
    if leak > (0.0 if exact else FFT_TOLERANCE):
        failures.append(f"causality: earlier outputs change by {leak:.1e} of their rms")
    failures += [f"gradient: none reaches {name}" for name in unreached(mixer, x)]
    step_gap = None
    if has_step(mixer):
        with torch.no_grad():
            parallel = mixer(x)
        step_gap = _relative_rms(_run_steps(mixer, x) - parallel, parallel)
        if step_gap > STEP_TOLERANCE:
            failures.append(f"step form: differs from the parallel form by {step_gap:.1e}")
        measured = measured_state_bytes(mixer, d_model, seq_len)
        if measured != mixer.state_bytes(seq_len):
            failures.append(
                f"state_bytes: formula says {mixer.state_bytes(seq_len)}, {measured} survive"
            )
    return MixerAudit(leak=leak, step_gap=step_gap, failures=tuple(failures))


@torch.no_grad()
def max_leak(mixer: Mixer, x: Tensor, other: Tensor) -> float:
    """Largest relative rms change of outputs before t when ``other`` replaces ``x`` from t on."""
    y = mixer(x)
    leaks = [
        _relative_rms(mixer(torch.cat([x[:, :t], other[:, t:]], dim=1))[:, :t] - y[:, :t], y)
        for t in range(1, x.shape[1])
    ]
    return max(leaks, default=0.0)


def unreached(mixer: Mixer, x: Tensor) -> list[str]:
    """Names of the parameters that get no gradient, or a zero one, from a random projection."""
    y = mixer(x)
    weight = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)
    names, parameters = zip(*mixer.named_parameters(), strict=True)
    gradients = torch.autograd.grad((y * weight).sum(), parameters, allow_unused=True)
    return [n for n, g in zip(names, gradients, strict=True) if g is None or not g.any()]


def has_step(mixer: Mixer) -> bool:
    """Whether the mixer overrides the decode form."""
    return type(mixer).step is not Mixer.step


@torch.no_grad()
def measured_state_bytes(mixer: Mixer, d_model: int, seq_len: int) -> int | None:
    """Bytes per sequence that survive ``seq_len`` decode steps, measured; None without a step form.

    Whole storages count, so a small view that keeps a large buffer alive is charged for it.
    """
    if not has_step(mixer):
        return None
    x = next(mixer.parameters()).new_zeros(1, d_model)
    state = mixer.init_state(1)
    for _ in range(seq_len):
        _, state = mixer.step(x, state)
    storages = {s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in state.values())}
    return sum(storages.values())


@torch.no_grad()
def _run_steps(mixer: Mixer, x: Tensor) -> Tensor:
    state = mixer.init_state(x.shape[0])
    outputs = []
    for token in x.unbind(1):
        y, state = mixer.step(token, state)
        outputs.append(y)
    return torch.stack(outputs, dim=1)


@torch.no_grad()
def _length_failures(
    mixer: Mixer, d_model: int, seq_len: int, generator: torch.Generator
) -> list[str]:
    lengths = [1, seq_len // 2 * 2 - 1, seq_len]
    if mixer.any_length:
        lengths.append(seq_len + 5)
    failures = []
    for length in sorted({max(1, n) for n in lengths}):
        x = torch.randn(2, length, d_model, dtype=torch.float64, generator=generator)
        y = mixer(x)
        if y.shape != x.shape or not y.isfinite().all():
            failures.append(f"T={length}: output of shape {tuple(y.shape)}, or not finite")
    return failures


def _relative_rms(gap: Tensor, reference: Tensor) -> float:
    return float(gap.square().mean().sqrt() / reference.square().mean().sqrt())
