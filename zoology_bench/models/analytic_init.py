"""Weights under which a learned architecture already recalls: the constructions, written by hand.

The answer to "can these layers express it" for the very layers that are trained, and a place to
start training from, at a distance that ``init_noise`` sets. Two architectures can hold one:
two-layer attention with learned positions (after Proposition 4.3 of arXiv:2312.04927: look at the
previous token, then match and copy) and two-layer BaseConv with explicit filters for one fixed
interaction distance (after Theorem 4.5 with its one lag given).

Both keep tokens as orthonormal blocks of the residual stream, so the width follows from the task.
Letters: T seq_len, V vocab_size, D d_model, s interaction distance.
"""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from zoology_bench.mixers.attention import Attention, AttentionConfig
from zoology_bench.mixers.base_conv import BaseConv, BaseConvConfig
from zoology_bench.mixers.filters import ExplicitFilter

if TYPE_CHECKING:
    from zoology_bench.models.lm import LanguageModel, LanguageModelConfig

SHARPNESS = 24.0
"""Gap of an attention score to the others: e^-24 T is below the rounding of fp32."""
ANSWER_GAIN = 8.0
"""Size of the answer in the residual stream beside the asked token's own 1 (or 3, BaseConv)."""


def check_holds(config: "LanguageModelConfig") -> None:
    """Refuse a configuration that cannot hold its construction.

    Raises:
        ValueError: naming the field and what it has to be.
    """
    mixer = config.mixer
    if config.n_layers != 2 or config.d_mlp or config.norm != "rms":
        raise ValueError(
            f"model.init=analytic needs model.n_layers=2, d_mlp=0 and norm=rms, not "
            f"{config.n_layers}, {config.d_mlp} and {config.norm}"
        )
    if isinstance(mixer, AttentionConfig):
        if mixer.n_heads != 1 or mixer.positions != "learned":
            raise ValueError(
                "model.init=analytic needs model.mixer.n_heads=1 and positions=learned, not "
                f"{mixer.n_heads} and {mixer.positions}"
            )
        width, text = 2 * config.vocab_size + config.seq_len, "2 vocab_size + seq_len"
    elif isinstance(mixer, BaseConvConfig):
        if set(mixer.filters) != {"explicit"} or mixer.variant != "paper":
            raise ValueError(
                "model.init=analytic needs model.mixer.filters=[explicit] and variant=paper, not "
                f"{mixer.filters} and {mixer.variant}"
            )
        if not 2 <= config.init_distance < config.seq_len:
            raise ValueError(
                f"model.init_distance={config.init_distance} must lie in 2..{config.seq_len - 1} "
                "(model.seq_len - 1): the one lag that the analytic BaseConv is written for"
            )
        width, text = 2 * config.vocab_size, "2 vocab_size"
    else:
        raise ValueError(
            f"model.init=analytic is known for attention and base_conv, not {mixer.label}"
        )
    if config.d_model < width:
        raise ValueError(
            f"model.d_model={config.d_model} is too narrow for model.init=analytic: "
            f"need at least {width} ({text})"
        )


@torch.no_grad()
def write_(model: "LanguageModel", generator: torch.Generator) -> None:
    """Write the construction into every parameter, then add the configured noise.

    Noise is N(0, (init_noise rms)^2) with the rms of the tensor it is added to: at 1 a written
    matrix has the size of what random initialisation would have drawn on top of it.
    """
    for parameter in model.parameters():
        parameter.zero_()
    for module in model.modules():
        if isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)
    first, second = model.mixers()
    if isinstance(first, Attention) and isinstance(second, Attention):
        _write_attention(model, first, second)
    else:
        assert isinstance(first, BaseConv) and isinstance(second, BaseConv)
        _write_base_conv(model, first, second)
    for parameter in model.parameters():
        size = model.config.init_noise * float(parameter.square().mean().sqrt())
        noise = torch.empty_like(parameter).normal_(generator=generator)
        parameter.add_(noise, alpha=size)


def _write_attention(model: "LanguageModel", first: Attention, second: Attention) -> None:
    """Blocks of D: the token (V), the token before it (V), the position (T)."""
    c = model.config
    v, t, d = c.vocab_size, c.seq_len, c.d_model
    token, before, position = range(v), range(v, 2 * v), range(2 * v, 2 * v + t)
    assert model.positions is not None
    _identity(model.embedding.weight, range(v), token)
    _identity(model.positions.weight, range(t), position)
    # Layer 1: position i asks for position i - 1 and copies its token. Two ones per row.
    unit = math.sqrt(d / 2)
    sharp = math.sqrt(SHARPNESS * math.sqrt(d)) / unit
    _identity(first.w_q.weight, position[:-1], position[1:], sharp)
    _identity(first.w_q.weight, position[:1], position[:1], sharp)
    _identity(first.w_k.weight, position, position, sharp)
    _identity(first.w_v.weight, token, token, 1 / unit)
    _identity(first.w_o.weight, before, token)
    # Layer 2: a token asks for a position whose token before equals it, and copies its token.
    unit = math.sqrt(d / 3)
    sharp = math.sqrt(SHARPNESS * math.sqrt(d)) / unit
    _identity(second.w_q.weight, token, token, sharp)
    _identity(second.w_k.weight, token, before, sharp)
    # Position 0 has no token before it and holds its own there: every query turns it down.
    turned_down = position[0]
    second.w_q.weight[turned_down, position] = sharp
    second.w_k.weight[turned_down, position[0]] = -2 * sharp
    _identity(second.w_v.weight, token, token, 1 / unit)
    _identity(second.w_o.weight, token, token, ANSWER_GAIN)


def _write_base_conv(model: "LanguageModel", first: BaseConv, second: BaseConv) -> None:
    """Blocks of D: the token (V), and the token plus its match (V)."""
    c = model.config
    v, s = c.vocab_size, c.init_distance
    token, match = range(v), range(v, 2 * v)
    _identity(model.embedding.weight, range(v), token)
    _identity(model.embedding.weight, range(v), match)
    # Layer 1: the token times the one s positions up, channel by channel: 1 where they are equal.
    unit = math.sqrt(c.d_model / 2)
    _identity(first.gate.weight, match, token, 1 / unit)
    _delta(first, match, s, 1 / unit)
    # Layer 2: what the match block has beyond the token block opens the gate for the value.
    second.gate.weight[: token.stop, match.start : match.stop] = 1 / unit
    second.gate.weight[: token.stop, : token.stop] = -1 / unit
    # A matched row is longer, by sqrt(5/2) with one match, and its norm takes that back.
    _delta(second, token, s - 1, ANSWER_GAIN * math.sqrt(5 / 2) / unit)


def _identity(weight: Tensor, rows: range, columns: range, size: float = 1.0) -> None:
    weight[list(rows), list(columns)] = size


def _delta(layer: BaseConv, channels: range, lag: int, size: float) -> None:
    assert isinstance(layer.filter, ExplicitFilter)
    layer.filter.taps[channels.start : channels.stop, lag] = size
