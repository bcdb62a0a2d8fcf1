"""The block stream returns what direct calls return, from any step, and fails loudly."""

import threading

import pytest
import torch

from zoology_bench.data.batch import Batch
from zoology_bench.data.buffers import BufferPool
from zoology_bench.data.stream import BlockStream


def numbered(start: int, stop: int) -> Batch:
    """Rows that hold their own index."""
    index = torch.arange(start, stop)[:, None]
    return Batch(
        inputs=index, targets=index, query_pos=index, key_pos=index, binding_distance=index
    )


@pytest.mark.parametrize(
    "steps",
    [range(12), [5, 6, 7], [100, 101, 3, 4], [9, 8, 7], [4, 4, 4]],
    ids=["from-zero", "from-the-middle", "jump", "backwards", "repeat"],
)
@pytest.mark.parametrize("n_ahead", [1, 2])
def test_each_step_returns_its_rows(steps, n_ahead):
    with BlockStream(numbered, batch_size=6, block_rows=20, n_ahead=n_ahead) as stream:
        for step in steps:
            assert stream.batch(step).inputs[:, 0].tolist() == list(range(step * 6, step * 6 + 6))


def test_blocks_are_aligned_whatever_step_comes_first():
    calls = set()

    def rows(start: int, stop: int) -> Batch:
        calls.add((start, stop))
        return numbered(start, stop)

    with BlockStream(rows, batch_size=6, block_rows=20, n_ahead=1) as stream:
        stream.batch(5)
    assert calls <= {(24, 48), (48, 72)} and (24, 48) in calls


def test_memory_is_bounded_by_the_blocks_in_flight():
    pool, made = BufferPool(), []
    lock = threading.Lock()

    def rows(start: int, stop: int) -> Batch:
        buffer = pool.take(stop - start, 3)
        with lock:
            made.append(buffer.data_ptr())
        buffer[:] = torch.arange(start, stop)[:, None]
        return Batch(
            inputs=buffer, targets=buffer, query_pos=buffer, key_pos=buffer, binding_distance=buffer
        )

    with BlockStream(rows, batch_size=4, block_rows=8, n_ahead=2) as stream:
        for step in range(100):
            assert stream.batch(step).inputs[0, 0] == step * 4
    assert len(made) >= 50 and len(set(made)) <= 5


def test_a_batch_that_is_held_is_never_overwritten():
    pool = BufferPool()
    held = pool.take(2, 2)
    view = held.fill_(7)[1:]
    del held
    other = pool.take(2, 2)
    other.fill_(9)
    assert view.tolist() == [[7, 7]]
    address = view.data_ptr() - 16
    del view
    assert pool.take(2, 2).data_ptr() == address


def test_an_error_on_the_background_thread_reaches_the_caller():
    def rows(start: int, stop: int) -> Batch:
        if start >= 16:
            raise RuntimeError(f"no rows from {start}")
        return numbered(start, stop)

    with BlockStream(rows, batch_size=4, block_rows=8) as stream:
        stream.batch(3)
        with pytest.raises(RuntimeError, match="no rows from 16"):
            stream.batch(4)


def test_close_ends_the_threads():
    before = threading.active_count()
    stream = BlockStream(numbered, batch_size=4)
    stream.batch(0)
    assert threading.active_count() > before
    stream.close()
    assert threading.active_count() == before
