"""From YAML presets and overrides to RunConfigs: registration, composition, grids."""

import copy
import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoology_bench.mixers import MIXERS
from zoology_bench.presets import config_dir, preset_folders
from zoology_bench.run_config import MODELS, RunConfig
from zoology_bench.tasks import TASKS
from zoology_bench.tasks.distance import DISTANCE_LAWS, DistanceLaw
from zoology_bench.training.loggers import LOGGERS
from zoology_bench.validation import unknown_name

_RUN_FIELDS = frozenset(field.name for field in dataclasses.fields(RunConfig))


@lru_cache(maxsize=1)
def register_schemas() -> None:
    """Make every component's dataclass known to Hydra as schema/<group>/<name>."""
    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConfig)
    for group, components in (
        ("schema/task", TASKS),
        ("schema/task/distance", DISTANCE_LAWS),
        ("schema/model", MODELS),
        ("schema/model/mixer", MIXERS),
        ("schema/logger", LOGGERS),
    ):
        for name, config in components.items():
            store.store(group=group, name=name, node=config)


def to_run_config(raw: DictConfig) -> RunConfig:
    """Turn a composed Hydra config into plain validated dataclasses; no OmegaConf object survives.

    Raises:
        ValueError: a field breaks its rule.
        omegaconf.errors.OmegaConfBaseException: a key is missing or of the wrong type.
    """
    _check_keys(raw, "")
    return _to_object(raw)


def _to_object(raw: DictConfig) -> RunConfig:
    config = OmegaConf.to_object(raw)
    if not isinstance(config, RunConfig):
        raise TypeError("the composed config is not a RunConfig: does run.yaml name run_schema?")
    return config


def _check_keys(node: DictConfig, where: str) -> None:
    """Refuse keys forced in with ``+``: composition lets them pass into any dataclass."""
    kind = OmegaConf.get_type(node)
    known = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else None
    for key in node:
        if known is not None and key not in known:
            raise unknown_name(f"key {where}{key}", f"+{key}", known)
        if not OmegaConf.is_missing(node, key) and OmegaConf.is_dict(node[key]):
            _check_keys(node[key], f"{where}{key}.")


def compose_raw(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """Compose run.yaml with command-line overrides (no sweeps) into a DictConfig."""
    try:
        return _composed(overrides, config_dirs)
    except (AssertionError, AttributeError):
        # OmegaConf takes a field of what holds nothing for a bug, and does not say which field.
        _check_each_is_set(overrides, config_dirs)
        raise


def _composed(overrides: Sequence[str], config_dirs: Sequence[str]) -> DictConfig:
    register_schemas()
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
            return hydra_compose("run", overrides=[*search_path(config_dirs), *overrides])
    except RecursionError:
        raise ValueError("a preset includes itself, or presets include each other") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"a preset is not UTF-8 text: {error}") from None


def _check_each_is_set(overrides: Sequence[str], config_dirs: Sequence[str]) -> None:
    """``_check_is_set`` for each override, on what those before it compose to."""
    folders = preset_folders(config_dirs)
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    # Presets count first wherever they stand.
    parsed.sort(key=lambda override: not _is_group(override.key_or_group, folders))
    lines = [str(override.input_line) for override in parsed]
    for n_before, override in enumerate(parsed):
        _check_is_set(_composed(lines[:n_before], config_dirs), override)


def _check_is_set(raw: DictConfig, override: Override) -> None:
    """Refuse a value for a field of what is unset in ``raw``: there is no such field yet."""
    *holders, last = override.key_or_group.split(".")
    if isinstance(override.value(), dict):
        holders.append(last)
    node: Any = raw
    for depth, name in enumerate(holders, start=1):
        if not OmegaConf.is_dict(node) or name not in node:
            return
        if node[name] is None:
            key = ".".join(holders[:depth])
            raise ValueError(f"{override.input_line}: {key} is not set{_choice(node, name, key)}")
        node = node[name]


def _choice(holder: DictConfig, name: str, key: str) -> str:
    """How to set a law that is unset; empty for any other field."""
    kind = OmegaConf.get_type(holder)
    if kind is None or DistanceLaw not in get_args(get_type_hints(kind).get(name)):
        return ""
    group = "task/distance" if key == "task.distance" else f"task/distance@{key}"
    # The presets of tasks name a default for the one, which is replaced; the other is added.
    sign = "" if name == "distance" else "+"
    return f"; choose one first: {sign}{group}=uniform (known: {', '.join(sorted(DISTANCE_LAWS))})"


def search_path(config_dirs: Sequence[str]) -> list[str]:
    """The override that adds folders of presets; empty where there are none."""
    folders = preset_folders(config_dirs)[1:]
    urls = ",".join(_quoted(f"file://{folder.resolve()}") for folder in folders)
    return [f"hydra.searchpath=[{urls}]"] if urls else []


def _quoted(text: str) -> str:
    """A string of Hydra's override grammar, whatever its characters."""
    # Backslashes count only in front of a quote, the closing one included.
    escaped = re.sub(r'(\\+)(?="|$)', r"\1\1", text).replace('"', '\\"')
    return f'"{escaped}"'


def compose(overrides: Sequence[str] = (), config_dirs: Sequence[str] = ()) -> RunConfig:
    """Compose one run, as ``zoology-bench run`` would.

    Args:
        overrides: ``key=value`` strings.
        config_dirs: folders with further YAML presets.

    Raises:
        ValueError: the overrides describe a grid (use ``plan``), or a field breaks its rule.
    """
    fixed, axes, raw = _split(overrides, config_dirs)
    n_runs = math.prod(len(axis) for axis in axes.values())
    if n_runs > 1:
        raise ValueError(f"these overrides describe a grid of {n_runs} runs; use plan()")
    if axes:
        raw = compose_raw(
            [*fixed, *(f"{key}={axis[0]}" for key, axis in axes.items())], config_dirs
        )
    return to_run_config(raw)


def plan(overrides: Sequence[str] = (), config_dirs: Sequence[str] = ()) -> list[RunConfig]:
    """Compose and validate every run that the same overrides start on the command line."""
    return [cell for cell, _ in plan_alone(overrides, config_dirs)]


def plan_alone(
    overrides: Sequence[str] = (), config_dirs: Sequence[str] = ()
) -> list[tuple[RunConfig, list[str]]]:
    """``plan``, each run with the overrides that start it alone."""
    fixed, axes = split_sweeps(overrides, config_dirs)
    folders = preset_folders(config_dirs)
    groups = {key: axis for key, axis in axes.items() if _is_group(key, folders)}
    values = {key: axis for key, axis in axes.items() if key not in groups}
    cells = []
    for chosen in itertools.product(*groups.values()):
        # Composition reads files; plain values are then set one after another, a hundred times
        # faster. Every cell sets all of them, and none can add a key.
        raw = compose_raw([*fixed, *_pairs(groups, chosen)], config_dirs)
        _check_keys(raw, "")
        for numbers in itertools.product(*values.values()):
            alone = [*_pairs(groups, chosen), *_pairs(values, numbers)]
            cell = _to_object(_with_values(raw, _pairs(values, numbers)))
            cells.append((cell, [*fixed, *alone]))
    return cells


def _is_group(key: str, folders: Iterable[Path]) -> bool:
    return "@" in key or any((folder / key).is_dir() for folder in folders)


def _pairs(axes: dict[str, list[str]], values: Iterable[str]) -> list[str]:
    return [f"{key}={value}" for key, value in zip(axes, values, strict=True)]


def _with_values(raw: DictConfig, overrides: list[str]) -> DictConfig:
    """``raw`` with plain values set, in place unless one of them is merged into what was there."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    values = [override.value() for override in parsed]
    changed = copy.deepcopy(raw) if any(isinstance(value, dict) for value in values) else raw
    for override, value in zip(parsed, values, strict=True):
        try:
            OmegaConf.update(changed, override.key_or_group, value, merge=True)
        except OmegaConfBaseException as error:
            raise ConfigCompositionException(str(error)) from error
        except (AssertionError, AttributeError):
            _check_is_set(changed, override)
            raise
    return changed


def split_sweeps(
    overrides: Sequence[str], config_dirs: Sequence[str] = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Separate fixed overrides (``a=1``) from the grid's axes (``a=1,2``, the experiment's sweep).

    The user's replace the experiment's.
    """
    fixed, axes, _ = _split(overrides, config_dirs)
    return fixed, axes


def _split(
    overrides: Sequence[str], config_dirs: Sequence[str]
) -> tuple[list[str], dict[str, list[str]], DictConfig]:
    """``split_sweeps``, and what the fixed overrides alone compose to."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    folders = preset_folders(config_dirs)
    for override in parsed:
        _check_kind(override, folders)
    set_by_user = Counter(override.get_key_element().lstrip("+") for override in parsed)
    _check_set_once(parsed, set_by_user)
    fixed = [o.input_line for o in parsed if not o.is_sweep_override() and o.input_line is not None]
    axes = {o.get_key_element(): _values(o) for o in parsed if o.is_sweep_override()}
    raw = compose_raw(fixed, config_dirs)
    experiment: Any = OmegaConf.to_container(raw.sweep)
    defaults = {
        str(key): _axis(str(key), values)
        for key, values in experiment.items()
        if key not in set_by_user
    }
    return fixed, {**defaults, **axes}, raw


def _check_kind(override: Override, folders: Sequence[Path]) -> None:
    """Refuse what Hydra's grammar allows and a planned run has no use for."""
    line, key = override.input_line, override.get_key_element()
    if not key:
        raise ValueError(f"{line!r} is not key=value")
    if override.is_delete() and key.lstrip("~") in _RUN_FIELDS:
        raise ValueError(f"{line}: a run needs every field; set it to another value instead")
    if not override.is_sweep_override():
        if _is_group(key, folders) and not (
            override.is_delete() or isinstance(override.value(), str | list)
        ):
            raise ValueError(f"{line}: {key} must name a preset")
        return
    if key == "experiment":
        raise ValueError(f"{line}: run one experiment at a time")
    if override.is_interval_sweep() or isinstance(override.value(), Glob):
        raise ValueError(f"{line}: a grid needs its values one by one (a,b,c), or a range")


def _values(override: Override) -> list[str]:
    return [str(v) for v in override.sweep_string_iterator()]


def _check_set_once(overrides: Sequence[Override], times: Counter[str]) -> None:
    """A grid and a single value for one key would leave open which of them counts."""
    for override in overrides:
        key = override.get_key_element().lstrip("+")
        if override.is_sweep_override() and times[key] > 1:
            raise ValueError(f"{key} is set {times[key]} times, once to a grid: set it once")


def _axis(key: str, values: object) -> list[str]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"sweep.{key}={values!r} must be a list of values")
    return [_override_text(value) for value in values]


def _override_text(value: object) -> str:
    if isinstance(value, list | dict) or (isinstance(value, str) and "," in value):
        raise ValueError(f"sweep holds {value!r}: values must be plain numbers or names")
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
