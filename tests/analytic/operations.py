"""Counts the numbers that torch operations write: complexity without a clock."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

VIEWS = ("view", "expand", "slice", "select", "unsqueeze", "transpose", "permute", "as_strided")


class Written(TorchDispatchMode):
    """Sums the elements of every output of every operation that is no view."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not any(word in str(func) for word in VIEWS):
            outputs = out if isinstance(out, tuple | list) else (out,)
            self.elements += sum(t.numel() for t in outputs if isinstance(t, Tensor))
        return out
