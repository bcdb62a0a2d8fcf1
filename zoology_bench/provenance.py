"""What a number must carry to be trusted later: commit, versions, hardware, time."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("zoology-bench", "torch", "numpy", "triton")


def provenance(device: str) -> dict[str, object]:
    """Result-row fields describing this process, machine and moment.

    Args:
        device: the run's device, so that a GPU run names its card.

    Returns:
        git_sha and dirty (of the checkout the package runs from; empty and False outside one),
        versions, hardware, timestamp (UTC, ISO 8601).
    """
    return {
        "git_sha": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "versions": " ".join([f"python={platform.python_version()}", *map(_version, PACKAGES)]),
        "hardware": hardware(device),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def hardware(device: str) -> str:
    """Processor name and, for a CUDA device, the card's name."""
    cpu = _cpu_name()
    if device.startswith("cuda"):
        import torch

        return f"{torch.cuda.get_device_name(torch.device(device))}; {cpu}"
    return cpu


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return f"{package}={version(package)}"
    except PackageNotFoundError:
        return f"{package}=none"


def _git(*arguments: str) -> str:
    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / ".git").exists():
        return ""
    command = ["git", "-C", str(checkout), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
