"""Reads W&B's offline files: its own protocol buffers inside LevelDB's log framing.

wandb writes ``*.wandb`` with a 7-byte head, then blocks of 32 KiB that hold fragments with a
7-byte head of their own (checksum, length, type). wandb 0.31 reads them in Go only.
"""

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from wandb.proto import wandb_internal_pb2

_BLOCK, _HEAD = 32768, 7


def messages(path: Path) -> Iterator[bytes]:
    """Whole records; a last one that is not complete is left out."""
    data = path.read_bytes()
    if data[:4] != b":W&B":
        raise ValueError(f"{path} is no W&B file")
    at, parts = _HEAD, []
    while at + _HEAD <= len(data):
        if _BLOCK - at % _BLOCK < _HEAD:
            at += _BLOCK - at % _BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + _HEAD])
        parts.append(data[at + _HEAD : at + _HEAD + length])
        at += _HEAD + length
        if kind in (1, 4):  # a whole record, or its last fragment
            yield b"".join(parts)
            parts = []


def read_ended(path: Path, timeout_s: float = 30.0) -> dict[str, Any]:
    """``read`` once the run's end is in the file: W&B's own process may write it after finish."""
    deadline = time.monotonic() + timeout_s
    while not (got := read(path))["ended"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} has no end: {got}")
        time.sleep(0.05)
    return got


def read(path: Path) -> dict[str, Any]:
    """What one offline run holds: run, config, history, summary, metrics and files."""
    out: dict[str, Any] = {"config": {}, "history": [], "summary": {}, "metrics": {}, "files": []}
    out["ended"] = False
    for data in messages(path):
        record = wandb_internal_pb2.Record.FromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            out["run"] = record.run
            out["config"] |= {u.key: yaml.safe_load(u.value_json) for u in record.run.config.update}
        elif kind == "config":
            out["config"] |= {u.key: yaml.safe_load(u.value_json) for u in record.config.update}
        elif kind == "history":
            out["history"].append(_items(record.history.item))
        elif kind == "summary":
            out["summary"] |= _items(record.summary.update)
        elif kind == "metric":
            out["metrics"][record.metric.name or record.metric.glob_name] = record.metric
        elif kind == "exit":
            out["ended"] = True
        elif kind == "files":
            out["files"] += [file.path for file in record.files.files]
    return out


def _items(items: Any) -> dict[str, Any]:
    return {
        item.key or "/".join(item.nested_key): yaml.safe_load(item.value_json) for item in items
    }
