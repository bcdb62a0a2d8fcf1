"""Every test here runs Triton's interpreter, on scratch that holds NaN until it is written."""

import os
from collections.abc import Iterator

import pytest
import torch

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["*.py"]


@pytest.fixture(autouse=True)
def poisoned_scratch() -> Iterator[None]:
    """Under deterministic algorithms torch fills what torch.empty returns with NaN."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(4).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
