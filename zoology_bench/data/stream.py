"""Training batches, cut from large blocks that background threads make ahead of the step."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from zoology_bench.data.batch import Batch

DEFAULT_BLOCK_ROWS = 4096


class BlockStream:
    """Batches of consecutive rows, by step: batch(step) is rows step * B .. (step + 1) * B - 1.

    Small calls of a row generator are slow, so rows are made in blocks. Block boundaries are fixed
    multiples of the block size, hence any step can come first and each returns the same rows as a
    direct call, bit for bit. While the steps of one block run, the next ``n_ahead`` are being made:
    memory does not grow with the number of steps.

    Args:
        rows: makes rows start..stop-1; a pure function that threads may call at the same time.
        batch_size: rows per step, B.
        block_rows: rows per block, rounded up to a multiple of ``batch_size``.
        n_ahead: blocks made ahead, each on a thread of its own.
    """

    def __init__(
        self,
        rows: Callable[[int, int], Batch],
        batch_size: int,
        block_rows: int = DEFAULT_BLOCK_ROWS,
        n_ahead: int = 2,
    ) -> None:
        self._rows = rows
        self._batch_size = batch_size
        self._batches_per_block = max(1, -(-block_rows // batch_size))
        self._n_ahead = n_ahead
        self._workers = ThreadPoolExecutor(n_ahead, thread_name_prefix="rows")
        self._current: tuple[int, Batch] | None = None
        self._ahead: dict[int, Future[Batch]] = {}

    def batch(self, step: int) -> Batch:
        """The batch of one step, as views of a block.

        Raises:
            Exception: whatever making the block raised, on its background thread.
        """
        index, offset = divmod(step, self._batches_per_block)
        if self._current is None or self._current[0] != index:
            # Dropped before the wait, so that its memory can serve a block to come.
            self._current = None
            self._current = (index, self._advance(index))
        first = offset * self._batch_size
        return self._current[1][first : first + self._batch_size]

    def close(self) -> None:
        """Stop the background threads, waiting for the blocks they are making."""
        self._workers.shutdown(wait=True, cancel_futures=True)
        self._ahead.clear()
        self._current = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _advance(self, index: int) -> Batch:
        """The block ``index``; starts those after it and forgets those that a jump made useless."""
        wanted = range(index, index + self._n_ahead + 1)
        for stale in self._ahead.keys() - set(wanted):
            self._ahead.pop(stale).cancel()
        for block in wanted:
            if block not in self._ahead:
                self._ahead[block] = self._workers.submit(self._make, block)
        return self._ahead.pop(index).result()

    def _make(self, index: int) -> Batch:
        n = self._batches_per_block * self._batch_size
        return self._rows(index * n, (index + 1) * n)
