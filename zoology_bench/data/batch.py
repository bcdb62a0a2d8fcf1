"""What passes from a task to everything else: integer rows and where to look in them."""

from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

IGNORE = -100
"""Target where there is no label (the default ``ignore_index`` of torch's cross entropy)."""


@dataclass(kw_only=True, slots=True)
class Batch:
    """Rows of a recall task; every tensor is int64.

    Absent queries (asked keys that were never written) have ``key_pos = binding_distance = -1``.
    """

    inputs: Tensor
    """(B, T) tokens."""
    targets: Tensor
    """(B, T) the answer at labelled positions, ``IGNORE`` elsewhere."""
    query_pos: Tensor
    """(B, Q) where the row asks."""
    key_pos: Tensor
    """(B, Q) position of the key of the last write of the asked key."""
    binding_distance: Tensor
    """(B, Q) number of other pairs written between that write and the query."""

    def __len__(self) -> int:
        return self.inputs.shape[0]

    def __getitem__(self, index: slice) -> "Batch":
        return Batch(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def to(self, device: torch.device | str) -> Self:
        """Copy every tensor to ``device`` (no copy where it already is there)."""
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    @property
    def distance(self) -> Tensor:
        """(B, Q) interaction distance query_pos - key_pos; -1 for absent queries."""
        return torch.where(self.key_pos >= 0, self.query_pos - self.key_pos, -1)

    @property
    def answers(self) -> Tensor:
        """(B, Q) the targets at ``query_pos``."""
        return self.targets.gather(1, self.query_pos)

    @property
    def query_tokens(self) -> Tensor:
        """(B, Q) the inputs at ``query_pos``."""
        return self.inputs.gather(1, self.query_pos)


def concat(batches: list[Batch]) -> Batch:
    """Stack batches of equal T and Q along the rows."""
    return Batch(
        **{f.name: torch.cat([getattr(b, f.name) for b in batches]) for f in fields(Batch)}
    )
