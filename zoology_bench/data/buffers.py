"""Where rows are written: fresh memory, or buffers that come back once nobody can see them."""

import weakref

import numpy as np
import torch
from torch import Tensor


def fresh(n_rows: int, n_columns: int, device: torch.device) -> Tensor:
    """Uninitialised (n_rows, n_columns) int64.

    On CPU through NumPy, which asks for huge pages: first touch of 4 KB pages would cost as much
    as generating the rows.
    """
    if device.type == "cpu":
        return torch.from_numpy(np.empty((n_rows, n_columns), dtype=np.int64))
    return torch.empty(n_rows, n_columns, dtype=torch.int64, device=device)


class BufferPool:
    """CPU buffers by shape, reused as soon as the last tensor over one is gone.

    Every tensor, view or slice of a buffer keeps its lease alive, so a caller that holds on to a
    batch never sees it overwritten: the pool then simply allocates another buffer.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[int, int], list[np.ndarray]] = {}

    def take(self, n_rows: int, n_columns: int) -> Tensor:
        """(n_rows, n_columns) int64 of unspecified content."""
        free = self._free.setdefault((n_rows, n_columns), [])
        try:
            buffer = free.pop()
        except IndexError:
            buffer = np.empty((n_rows, n_columns), dtype=np.int64)
        lease = buffer.view()
        weakref.finalize(lease, free.append, buffer).atexit = False
        return torch.from_numpy(lease)
