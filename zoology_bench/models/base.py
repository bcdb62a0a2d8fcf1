"""What every model configuration offers, trained or not."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

from omegaconf import MISSING

from zoology_bench.param_count import ParamCount
from zoology_bench.validation import check_int


@dataclass(kw_only=True, slots=True)
class ModelConfig(abc.ABC):
    """Base of every model's configuration."""

    name: ClassVar[str]
    """The key in configs/model."""
    needs_training: ClassVar[bool]

    vocab_size: int = MISSING
    """Number of token ids; cross-linked to the task."""
    seq_len: int = MISSING
    """Longest sequence; cross-linked to the task."""

    def __post_init__(self) -> None:
        check_int("model.vocab_size", self.vocab_size, 2)
        check_int("model.seq_len", self.seq_len, 1)

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """What tables and figures show as the model."""

    @property
    @abc.abstractmethod
    def mixer_label(self) -> str:
        """What tables show as the mixer; empty without one."""

    @property
    @abc.abstractmethod
    def causal(self) -> bool:
        """Whether every answer depends on tokens up to its query alone."""

    @abc.abstractmethod
    def build(self, *args: Any) -> Any:
        """Make the model: trained ones take a torch.Generator, analytic ones a PublicLayout."""


__all__ = ["ModelConfig", "ParamCount"]
