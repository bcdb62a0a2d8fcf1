"""What Hydra and OmegaConf raise over a user's input, as one line with field, value and rule."""

import dataclasses
from collections.abc import Iterable
from difflib import get_close_matches

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from zoology_bench.validation import unknown_name


class UserError(Exception):
    """The user's input was wrong: shown as one line, exit code 2, nothing written."""


def translate(error: Exception) -> UserError | None:
    """The one-line form of an error over the user's input; None where the error is ours."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return UserError(_unknown_choice(error))
    unknown_key = _find(error, (ConfigAttributeError, ConfigKeyError))
    if unknown_key is not None and "not in" in str(unknown_key):
        return UserError(_unknown_key(unknown_key))
    if isinstance(error, OverrideParseException):
        return UserError(f"{error.override!r} is not key=value in Hydra's override grammar")
    if isinstance(error, OmegaConfBaseException | HydraException):
        deepest = _find(error, (OmegaConfBaseException,)) or error
        return UserError(joined(deepest))
    if isinstance(error, YAMLError):
        return UserError(f"a preset is not readable YAML: {joined(error)}")
    if isinstance(error, ValueError | OSError):
        return UserError(joined(error))
    return None


def _unknown_choice(error: MissingConfigException) -> str:
    group, _, choice = str(error.missing_cfg_file).rpartition("/")
    options = [str(option) for option in error.options or []]
    if not options:
        return f"{group or 'config'}={choice!r}: no such preset"
    return str(unknown_name(group, choice, options))


def _unknown_key(error: Exception) -> str:
    full_key = str(getattr(error, "full_key", "") or getattr(error, "key", ""))
    parent, _, key = full_key.rpartition(".")
    known = _field_names(getattr(error, "object_type", None))
    near = get_close_matches(key, known, n=1)
    hint = f"did you mean {_key(parent, near[0])!r}? " if near else ""
    listing = f"known in {parent or 'a run'}: {', '.join(known)}" if known else "no such key"
    return f"{full_key} is unknown; {hint}{listing}"


def _field_names(kind: object) -> list[str]:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return sorted(field.name for field in dataclasses.fields(kind))
    return []


def _key(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def _find(error: BaseException | None, kinds: tuple[type[Exception], ...]) -> Exception | None:
    found = None
    for link in _chain(error):
        if isinstance(link, kinds):
            found = link
    return found


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def joined(error: BaseException) -> str:
    """What an error says, on one line, without OmegaConf's types."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(("object_type=", "reference_type="))]
    full_key = next((line for line in useful if line.startswith("full_key:")), None)
    if full_key is not None:
        useful.remove(full_key)
        useful.insert(0, full_key.removeprefix("full_key:").strip() + ":")
    return " ".join(useful) or type(error).__name__
