"""How a model reports its size: the one word that trained and analytic models share."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ParamCount:
    """Numbers of parameters; tied weights count once."""

    total: int
    non_embedding: int
    """Without token and position embeddings, which dominate at small widths."""
    mixer: int
    """Sequence mixers alone."""
