"""The one place that touches global random state and threads.

Everything random in a run is a function of (run seed, purpose, step). A resumed run therefore
needs no saved generator state: it sets the same seeds for the same steps.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive_seed(seed: int, purpose: str, *counters: int) -> int:
    """A 63-bit seed for one purpose of a run; purposes and counters are independent streams.

    Args:
        seed: the run's seed.
        purpose: what the numbers are for, such as ``init`` or ``dropout``.
        counters: position within the purpose, such as the step.
    """
    text = "|".join(str(part) for part in (seed, purpose, *counters))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(
    seed: int, purpose: str, *counters: int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Generator seeded by ``derive_seed``: ``generator(seed, "init")`` draws initial weights."""
    made = torch.Generator(device=device)
    made.manual_seed(derive_seed(seed, purpose, *counters))
    return made


def seed_global(seed: int, device: torch.device) -> None:
    """Seed the generators that ``nn.Dropout`` draws from: the CPU's and that of ``device``.

    ``torch.manual_seed`` would do the same at several hundred times the cost where CUDA is
    installed but unused: too much for every step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)


@contextmanager
def preserved_global_state(device: torch.device) -> Iterator[None]:
    """Give the global generators back as they were found, whatever happens inside."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


@contextmanager
def pinned_threads(n_threads: int | None) -> Iterator[None]:
    """Run with ``n_threads`` intra-op threads; None leaves them alone.

    The number of threads changes the order of floating-point sums: bits repeat only at the same
    number.
    """
    before = torch.get_num_threads()
    if n_threads is not None:
        torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
