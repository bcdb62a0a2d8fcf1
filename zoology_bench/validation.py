"""One-line errors for users: the field, its value, the rule, and near names."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_SEED = (1 << 63) - 1
"""Seeds are stored in signed 64-bit columns."""


def unknown_name(field: str, value: object, known: Iterable[str]) -> ValueError:
    """Build the error for a name that is not in a closed list.

    Args:
        field: what the user set, as they would type it (``task.layout``).
        value: what they set it to.
        known: every accepted name.
    """
    names = sorted(known)
    near = get_close_matches(str(value), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ValueError(f"{field}={value!r} is unknown; {hint}known: {', '.join(names)}")


def check_name(field: str, value: str, known: Iterable[str]) -> None:
    """Raise ``ValueError`` with near names unless ``value`` is one of ``known``."""
    names = list(known)
    if value not in names:
        raise unknown_name(field, value, names)


def check_int(field: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer within ``minimum..maximum``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{field}={value!r} must be an integer")
    if value < minimum:
        raise ValueError(f"{field}={value} must be at least {minimum}")
    if maximum is not None and value > maximum:
        raise ValueError(f"{field}={value} must be at most {maximum}")


def check_fraction(field: str, value: float, *, upper_open: bool = False) -> None:
    """Raise ``ValueError`` unless ``value`` lies in [0, 1], or in [0, 1) if ``upper_open``."""
    inside = 0 <= value < 1 if upper_open else 0 <= value <= 1
    if not inside:
        raise ValueError(f"{field}={value} must lie in [0, 1{')' if upper_open else ']'}")
