"""Peak memory of a stretch of work."""

import contextlib
import sys
from pathlib import Path

import torch


def reset_peak(device: torch.device) -> None:
    """Start a new measurement.

    On Linux the process's high-water mark can be reset; elsewhere a CPU measurement covers the
    process since its start.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: torch.device) -> int:
    """Largest memory since ``reset_peak``: allocated tensors on a GPU, the whole process on CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return _peak_since_start()


def _peak_since_start() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
