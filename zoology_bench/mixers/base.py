"""What a sequence mixer is: a causal map (B, T, D) -> (B, T, D), configured and stepped.

Letters: B batch, T time, D d_model.
"""

import abc
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

INITS = ("recipe", "random", "gpt2")
"""recipe: what trains in seconds (may contain a solution's structure: say so beside every figure);
random: N(0, 1/fan_in) and nothing copied or placed; gpt2: std .02, as the published presets."""

State = dict[str, Tensor]
"""Everything a mixer remembers between decode steps; batch first in every tensor."""


class Mixer(nn.Module, abc.ABC):
    """A causal sequence mixer; ``step`` is its decode form, one token at a time."""

    any_length: ClassVar[bool] = True
    """Whether sequences longer than the one it was built for are defined."""

    @abc.abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""

    def init_state(self, batch_size: int) -> State:
        """The state before the first token, on the device and in the dtype of the parameters.

        Raises:
            NotImplementedError: the mixer has no decode form.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Mix one token (B, D); return its output (B, D) and the state that survives."""
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    @abc.abstractmethod
    def state_bytes(self, seq_len: int) -> int | None:
        """Bytes per sequence that survive after ``seq_len`` decode steps, by formula.

        None where the mixer has no decode form, so that nobody plots a guess.
        """


@dataclass(kw_only=True, slots=True)
class MixerConfig(abc.ABC):
    """Configuration of a mixer; one instance serves every layer of a model."""

    name: ClassVar[str]
    """The key in MIXERS."""
    recipe_lr: ClassVar[float]
    """Learning rate that goes with ``init=recipe`` at d_model 32..128 and batch 32."""

    @property
    def label(self) -> str:
        """What tables and figures show."""
        return self.name

    def init_label(self, scheme: str) -> str:
        """What tables and figures say of its first weights under one of ``INITS``."""
        return scheme

    @property
    def exact_causal(self) -> bool:
        """Whether outputs keep every bit when later inputs change (an FFT cannot promise that)."""
        return True

    @property
    def learned_positions(self) -> bool:
        """Whether the model must add learned position embeddings to its input."""
        return False

    @abc.abstractmethod
    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> Mixer:
        """Make the module of one layer, its parameters not yet initialised.

        Args:
            d_model: width D.
            seq_len: longest sequence it will be trained on.
            layer_idx: which layer, from 0.
            n_layers: how many there are.

        Raises:
            ValueError: the numbers do not fit this mixer.
        """

    @abc.abstractmethod
    def init_(
        self,
        module: nn.Module,
        scheme: str,
        layer_idx: int,
        n_layers: int,
        generator: torch.Generator,
    ) -> None:
        """Fill every parameter of a module that ``build`` made, in place.

        Args:
            module: what ``build`` returned for the same layer.
            scheme: one of ``INITS``.
            layer_idx: which layer, from 0.
            n_layers: how many there are.
            generator: the only source of randomness.
        """


class UnwrittenLinear(nn.Linear):
    """A linear layer whose construction draws nothing; ``init_linear_`` writes the weights.

    ``nn.utils.skip_init`` would do, but goes through the meta device, which imports sympy: a second
    at every start.
    """

    def reset_parameters(self) -> None:
        """Leave the weights as allocated."""


def linear(d_in: int, d_out: int, *, bias: bool = False) -> nn.Linear:
    """A linear layer with unwritten weights and, by default, no bias."""
    return UnwrittenLinear(d_in, d_out, bias=bias)


def init_linear_(
    layer: nn.Linear, scheme: str, generator: torch.Generator, *, n_residual: int | None = None
) -> None:
    """Fill a linear layer: std .02 for gpt2, 1/sqrt(fan_in) otherwise; biases zero.

    Args:
        layer: the layer.
        scheme: one of ``INITS``.
        generator: the only source of randomness.
        n_residual: how many layers of this kind add to one residual stream; GPT-2 divides their
            std by its square root.
    """
    std = layer.in_features**-0.5
    if scheme == "gpt2":
        std = 0.02 if n_residual is None else 0.02 * n_residual**-0.5
    nn.init.normal_(layer.weight, std=std, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
