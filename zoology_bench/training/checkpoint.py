"""One file per run that survives kill -9 at any moment and refuses to continue another run."""

import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

FORMAT_VERSION = 1
"""Raised whenever an older checkpoint could no longer be continued."""

_MISSING = "<unset>"


class ForeignCheckpoint(ValueError):
    """The file where this run keeps its checkpoint is none of this run's."""


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """The checkpoint of one run.

    Writing is atomic: a temporary file in the same folder, synced, then renamed. A reader finds
    the old checkpoint or the new one, never a part. There are no generator states in it: see
    ``seeding``.
    """

    path: Path
    config: dict[str, Any]
    """The run's configuration as nested plain dicts: everything that must not differ on resume."""

    def save(self, state: dict[str, Any]) -> None:
        """Replace the stored state; tensors, numbers, text, lists and dicts only.

        Raises:
            OSError: no space or no permission; the previous checkpoint is then untouched.
        """
        payload = {"format": FORMAT_VERSION, "config": flatten(self.config), "state": state}
        # Through memory: torch's own file writer turns a full disk into a RuntimeError.
        buffer = io.BytesIO()
        torch.save(payload, buffer)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(self.path, buffer.getbuffer())

    def load(self, map_location: torch.device | str = "cpu") -> dict[str, Any] | None:
        """The stored state, or None where there is no checkpoint.

        Raises:
            ForeignCheckpoint: no checkpoint of this format, or one of another config.
        """
        if not self.path.exists():
            return None
        try:
            payload = torch.load(self.path, map_location=map_location, weights_only=True)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # a damaged or foreign pickle can raise anything
            raise ForeignCheckpoint(f"{self.path} is not a readable checkpoint") from error
        if not isinstance(payload, dict) or payload.get("format") != FORMAT_VERSION:
            raise ForeignCheckpoint(f"{self.path} is not a checkpoint of format {FORMAT_VERSION}")
        difference = _first_differences(payload["config"], flatten(self.config))
        if difference:
            raise ForeignCheckpoint(f"{self.path} is a checkpoint of another config: {difference}")
        return payload["state"]

    def remove(self) -> None:
        """Delete the checkpoint and the temporary files that killed writers left behind."""
        self.path.unlink(missing_ok=True)
        for leftover in self.path.parent.glob(f".{self.path.name}-*"):
            leftover.unlink(missing_ok=True)


def flatten(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one dict with dotted keys: ``{"a": {"b": 1}}`` -> ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _first_differences(stored: dict[str, Any], wanted: dict[str, Any], most: int = 3) -> str:
    """``a.b is 1 there and 2 here``, for the first few keys that differ; empty if none does."""
    differing = [
        key
        for key in sorted(stored.keys() | wanted.keys())
        if stored.get(key, _MISSING) != wanted.get(key, _MISSING)
    ]
    parts = [
        f"{key} is {stored.get(key, _MISSING)} there and {wanted.get(key, _MISSING)} here"
        for key in differing[:most]
    ]
    if len(differing) > most:
        parts.append(f"and {len(differing) - most} more")
    return "; ".join(parts)


def _write_atomically(path: Path, content: memoryview) -> None:
    # The name is unique, so two writers of one run can never rename a mixture of both.
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too: leave no half-written file behind
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; a file system that cannot sync a folder is left alone."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
