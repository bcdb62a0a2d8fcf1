"""Training batches, cut from large blocks that a background thread makes ahead of the step."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from zoology_bench.data.batch import Batch

DEFAULT_BLOCK_ROWS = 4096


class BlockStream:
    """Batches of consecutive rows, by step: batch(step) holds rows step * B .. (step + 1) * B - 1.

    Small calls of a row generator are slow, so rows are made in blocks; block boundaries are fixed
    multiples of the block size, hence any step can come first and every step returns the same rows
    as a direct call, bit for bit. While the steps of one block run, a background thread makes the
    next one: at most two blocks exist beside those that returned batches still refer to.

    Args:
        rows: makes rows start..stop-1; must be a pure function.
        batch_size: rows per step, B.
        block_rows: rows per block, rounded up to a multiple of ``batch_size``.
    """

    def __init__(
        self,
        rows: Callable[[int, int], Batch],
        batch_size: int,
        block_rows: int = DEFAULT_BLOCK_ROWS,
    ) -> None:
        self._rows = rows
        self._batch_size = batch_size
        self._batches_per_block = max(1, -(-block_rows // batch_size))
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rows")
        self._current: tuple[int, Batch] | None = None
        self._ahead: tuple[int, Future[Batch]] | None = None

    def batch(self, step: int) -> Batch:
        """The batch of one step, as views of a block.

        Raises:
            Exception: whatever making the block raised, on the background thread.
        """
        index, offset = divmod(step, self._batches_per_block)
        if self._current is None or self._current[0] != index:
            # Dropped first: its memory may serve the block after next.
            self._current = None
            self._current = (index, self._take(index))
            self._ahead = (index + 1, self._worker.submit(self._make, index + 1))
        first = offset * self._batch_size
        return self._current[1][first : first + self._batch_size]

    def close(self) -> None:
        """Stop the background thread, waiting for the block it is making."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._current = self._ahead = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, index: int) -> Batch:
        if self._ahead is not None:
            ready, future = self._ahead
            self._ahead = None
            if ready == index:
                return future.result()
            # A jump: let the unwanted block finish, or two blocks would be made at once.
            future.cancel() or future.exception()
        return self._worker.submit(self._make, index).result()

    def _make(self, index: int) -> Batch:
        n = self._batches_per_block * self._batch_size
        return self._rows(index * n, (index + 1) * n)
