"""Configurations as plain data: what config.json, exports, checkpoints and content hashes hold."""

import dataclasses
from typing import Any


def to_plain(value: Any) -> Any:
    """Nested dicts, lists and scalars of a configuration.

    A registered component (a dataclass with a class attribute ``name``) says which it is by
    ``kind``, its first key.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init
        }
        kind = getattr(type(value), "name", None)
        return {"kind": kind, **fields} if isinstance(kind, str) else fields
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value
