"""A language model over any mixer, with logits only where they are asked for.

Letters: B batch, T time, Q queries, D d_model, V vocab_size.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from omegaconf import MISSING
from torch import Tensor, nn

from zoology_bench.mixers.audit import measured_state_bytes
from zoology_bench.mixers.base import INITS, Mixer, MixerConfig
from zoology_bench.models import analytic_init
from zoology_bench.models.base import ModelConfig, ParamCount
from zoology_bench.models.block import NORMS, Block, make_norm
from zoology_bench.validation import check_fraction, check_int, check_name

MAX_CHUNK_BYTES = 256 << 20
"""Bound on the logits that ``predict`` holds at once, and on one chunk's activations."""
MOST_CHANNELS, MOST_LAYERS = 1 << 14, 1 << 10
"""Beyond any use; a slip of zeros must not fill the memory while a sweep is planned."""
LIVE_ACTIVATIONS = 12
"""Tensors of a block's width that a forward pass without gradients keeps alive, generously."""


@dataclass(kw_only=True, slots=True)
class LanguageModelConfig(ModelConfig):
    """Pre-norm blocks between tied embeddings."""

    name: ClassVar[str] = "lm"
    needs_training: ClassVar[bool] = True

    d_model: int = 64
    """Width of the residual stream."""
    n_layers: int = 2
    """Blocks."""
    mixer: MixerConfig = MISSING
    """The sequence mixer of every block."""
    d_mlp: int = 0
    """Hidden width of each block's MLP; 0 leaves the MLPs out."""
    norm: str = "rms"
    """rms or layer."""
    embedding_dropout: float = 0.0
    """Dropout on the embeddings while training."""
    init: str = "recipe"
    """recipe, random, gpt2, or analytic (weights that already recall); results always name it."""
    init_noise: float = 0.0
    """Noise on analytic weights, as a multiple of each tensor's rms; nothing else has any."""
    init_distance: int = 0
    """The interaction distance that an analytic BaseConv is written for; nothing else has one."""

    def __post_init__(self) -> None:
        ModelConfig.__post_init__(self)
        check_int("model.d_model", self.d_model, 1, MOST_CHANNELS)
        check_int("model.n_layers", self.n_layers, 1, MOST_LAYERS)
        check_int("model.d_mlp", self.d_mlp, 0, 16 * MOST_CHANNELS)
        check_name("model.norm", self.norm, NORMS)
        check_fraction("model.embedding_dropout", self.embedding_dropout, upper_open=True)
        check_name("model.init", self.init, (*INITS, "analytic"))
        if not isinstance(self.mixer, MixerConfig):
            raise ValueError(f"model.mixer={self.mixer!r} must be a mixer configuration")
        self._check_analytic()

    @property
    def label(self) -> str:
        return self.mixer.label

    @property
    def mixer_label(self) -> str:
        return self.mixer.label

    @property
    def init_label(self) -> str:
        """What rows and tables show: the scheme, and the noise on analytic weights."""
        if self.init == "analytic":
            return f"analytic, sigma={self.init_noise:g}"
        return self.mixer.init_label(self.init)

    @property
    def causal(self) -> bool:
        return True

    def _check_analytic(self) -> None:
        if not (math.isfinite(self.init_noise) and self.init_noise >= 0):
            raise ValueError(f"model.init_noise={self.init_noise} must not be negative")
        if self.init == "analytic":
            analytic_init.check_holds(self)
        elif self.init_noise or self.init_distance:
            raise ValueError(
                f"model.init_noise={self.init_noise} and model.init_distance={self.init_distance} "
                f"need model.init=analytic, not {self.init}"
            )

    def build(self, generator: torch.Generator) -> "LanguageModel":
        """Make and initialise the model on the CPU; ``generator`` is its only randomness."""
        return LanguageModel(self, generator)


class LanguageModel(nn.Module):
    """Token (and position) embeddings, blocks, a final norm, the transposed embeddings."""

    def __init__(self, config: LanguageModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        d, n = config.d_model, config.n_layers
        self.embedding = _unwritten_embedding(config.vocab_size, d)
        learned = config.mixer.learned_positions
        self.positions = _unwritten_embedding(config.seq_len, d) if learned else None
        self.dropout = nn.Dropout(config.embedding_dropout)
        self.blocks = nn.ModuleList(
            Block(
                d,
                config.mixer.build(d, config.seq_len, layer_idx, n),
                d_mlp=config.d_mlp,
                norm=config.norm,
            )
            for layer_idx in range(n)
        )
        self.final_norm = make_norm(config.norm, d)
        self._init(generator)

    @property
    def mixer_label(self) -> str:
        """What tables show as the mixer."""
        return self.config.mixer_label

    @property
    def causal(self) -> bool:
        """Every mixer is causal by contract."""
        return self.config.causal

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits (B, Q, V) at positions (B, Q) of tokens (B, T).

        Raises:
            ValueError: T exceeds the learned positions.
        """
        return F.linear(self.hidden(tokens, positions), self.embedding.weight)

    def hidden(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(B, Q, D) normalised states at ``positions``, before the output product."""
        x = self.embedding(tokens)
        if self.positions is not None:
            length, limit = tokens.shape[1], self.config.seq_len
            if length > limit:
                raise ValueError(
                    f"tokens have T={length} but model.seq_len={limit} learned positions exist"
                )
            x = x + self.positions.weight[:length]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        index = positions[..., None].expand(-1, -1, x.shape[-1])
        return self.final_norm(x.gather(1, index))

    @torch.no_grad()
    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Most likely tokens (B, Q) at ``positions``, in chunks of bounded memory."""
        width = max(self.config.d_model, self.config.d_mlp)
        per_row = LIVE_ACTIVATIONS * tokens.shape[1] * width * self.embedding.weight.element_size()
        n_rows = max(1, MAX_CHUNK_BYTES // per_row)
        states = [
            self.hidden(t, p)
            for t, p in zip(tokens.split(n_rows), positions.split(n_rows), strict=True)
        ]
        flat = torch.cat(states).flatten(0, 1)
        per_query = self.config.vocab_size * flat.element_size()
        n_queries = max(1, MAX_CHUNK_BYTES // per_query)
        best = [
            F.linear(chunk, self.embedding.weight).argmax(-1) for chunk in flat.split(n_queries)
        ]
        return torch.cat(best).view(positions.shape)

    def n_params(self) -> ParamCount:
        """Parameters in total, outside the embeddings, and in the mixers."""
        total = sum(p.numel() for p in self.parameters())
        embeddings = [m for m in (self.embedding, self.positions) if m is not None]
        return ParamCount(
            total=total,
            non_embedding=total - sum(m.weight.numel() for m in embeddings),
            mixer=sum(p.numel() for m in self.mixers() for p in m.parameters()),
        )

    def state_bytes(self, seq_len: int) -> int | None:
        """Bytes per sequence that survive ``seq_len`` decode steps, measured on the step forms.

        None if a mixer has none.
        """
        sizes = [
            measured_state_bytes(mixer, self.config.d_model, seq_len) for mixer in self.mixers()
        ]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def mixers(self) -> list[Mixer]:
        """The mixer of every block, in order."""
        return [block.mixer for block in self._blocks()]

    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def _init(self, generator: torch.Generator) -> None:
        c = self.config
        if c.init == "analytic":
            analytic_init.write_(self, generator)
            return
        # With N(0, 1/d) embeddings and a unit-rms final norm, tied logits start with std 1.
        std = 0.02 if c.init == "gpt2" else c.d_model**-0.5
        for table in (self.embedding, self.positions):
            if table is not None:
                nn.init.normal_(table.weight, std=std, generator=generator)
        for layer_idx, block in enumerate(self._blocks()):
            c.mixer.init_(block.mixer, c.init, layer_idx, c.n_layers, generator)
            block.init_mlp_(c.init, c.n_layers, generator)


def _unwritten_embedding(n: int, d_model: int) -> nn.Embedding:
    """An embedding whose construction draws nothing from the global generator.

    ``skip_init`` would do, but drawing on the meta device imports torch._dynamo: two seconds.
    """
    return nn.Embedding.from_pretrained(torch.empty(n, d_model), freeze=False)
