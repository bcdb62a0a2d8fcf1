"""RunConfig, registration of every component, composition of YAML into plain dataclasses."""

import copy
import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoology_bench.analytic import ANALYTIC, AnalyticConfig
from zoology_bench.baselines import BaselinesConfig
from zoology_bench.mixers import MIXERS
from zoology_bench.models import LanguageModelConfig
from zoology_bench.tasks import TASKS
from zoology_bench.tasks.base import Task
from zoology_bench.tasks.distance import DISTANCE_LAWS
from zoology_bench.training.config import TrainerConfig
from zoology_bench.training.loggers import LOGGERS
from zoology_bench.validation import MAX_SEED, check_int, unknown_name

MOST_THREADS = 4096
"""More than any machine has: torch takes no larger number well."""
MODELS = {
    "lm": LanguageModelConfig,
    "baselines": BaselinesConfig,
    **ANALYTIC,
}

_MODEL_NAMES = ", ".join(sorted(MODELS))


@dataclass(kw_only=True, slots=True)
class MixtureComponent:
    """One task of a training mixture; each step draws one component by weight."""

    task: Task = MISSING
    weight: float = 1.0
    """Relative probability of a step."""


@dataclass(kw_only=True, slots=True)
class RunConfig:
    """One run: what is trained or built, on what, and where its rows go."""

    experiment: str = "default"
    """Name of the experiment; the default output folder and the W&B group."""
    task: Task = MISSING
    """The task trained on, unless ``mixture`` is set."""
    mixture: dict[str, MixtureComponent] = field(default_factory=dict)
    """Weighted tasks to train on; empty: ``task`` alone."""
    eval_tasks: dict[str, Task] = field(default_factory=dict)
    """Tasks evaluated on; empty: ``task`` alone."""
    model: Any = MISSING
    """One of MODELS' configurations."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    logger: Any = MISSING
    """One of LOGGERS' configurations."""
    seed: int = 0
    """Drives initialisation, dropout and train rows; never select or report rows."""
    device: str = "cpu"
    """cpu, cuda or cuda:N; never chosen for you."""
    threads: int = 1
    """CPU threads of this run; part of what makes a run repeatable."""
    output_dir: str = "outputs/${experiment}"
    """Folder of runs/<run_id> and results.csv, relative to the working directory."""
    force: bool = False
    """Run again even where a finished result with the same run_id is stored."""
    retry_failed: bool = True
    """Run again where the stored result is a failure; false keeps it."""
    keep_checkpoint: bool = False
    """Keep runs/<run_id>/checkpoint.pt of a finished run (a failed one always keeps it)."""
    sweep: dict[str, Any] = field(default_factory=dict)
    """An experiment's grid: override key -> list of values; the command line replaces any key."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, tuple(MODELS.values())):
            raise ValueError(
                f"model={type(self.model).__name__} is no model; known: {_MODEL_NAMES}"
            )
        check_int("seed", self.seed, 0, MAX_SEED)
        check_int("threads", self.threads, 1, MOST_THREADS)
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device={self.device!r} is unknown; known: cpu, cuda, cuda:N")
        if not self.output_dir.strip():
            raise ValueError(f"output_dir={self.output_dir!r} must name a folder")
        for name, component in self.mixture.items():
            if not (math.isfinite(component.weight) and component.weight > 0):
                raise ValueError(f"mixture.{name}.weight={component.weight} must be positive")
        self._check_tasks_have_names()
        self._check_tasks_fit_model()
        self._check_mixers_build()

    def _check_tasks_have_names(self) -> None:
        """A subclass with its parent's name and version would share run_ids with it."""
        for where, task in self.named_tasks():
            own = vars(type(task))
            if "name" not in own or "version" not in own:
                raise ValueError(
                    f"{where}: class {type(task).__name__} must set its own name and version"
                )

    def _check_tasks_fit_model(self) -> None:
        vocab_size = getattr(self.model, "vocab_size", None)
        seq_len = getattr(self.model, "seq_len", None)
        for where, task in self.named_tasks():
            if vocab_size is not None and task.vocab_size != vocab_size:
                raise ValueError(
                    f"{where}.vocab_size={task.vocab_size} must equal model.vocab_size={vocab_size}"
                )
            if isinstance(self.model, AnalyticConfig):
                self.model.build(task.public_layout())
            if seq_len is not None and task.seq_len > seq_len:
                raise ValueError(
                    f"{where}.seq_len={task.seq_len} must be at most model.seq_len={seq_len}"
                )

    def _check_mixers_build(self) -> None:
        """Fail now, and not after a sweep has started, where a mixer does not fit its width."""
        if isinstance(self.model, LanguageModelConfig):
            model = self.model
            for layer in range(model.n_layers):
                model.mixer.build(model.d_model, model.seq_len, layer, model.n_layers)

    def named_tasks(self) -> list[tuple[str, Task]]:
        """Every task of the run with the key that sets it."""
        mixture = [(f"mixture.{name}.task", part.task) for name, part in self.mixture.items()]
        evaluated = [(f"eval_tasks.{name}", task) for name, task in self.eval_tasks.items()]
        return [("task", self.task), *mixture, *evaluated]

    def evaluated_tasks(self) -> list[Task]:
        """The tasks whose rows are graded: ``eval_tasks``, or ``task``."""
        return list(self.eval_tasks.values()) or [self.task]


def config_dir() -> Path:
    """Absolute folder of the YAML presets: inside the wheel, or the checkout's configs/."""
    packaged = Path(str(files("zoology_bench"))) / "configs"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[1] / "configs"


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


def compose_raw(overrides: Sequence[str], config_dirs: Iterable[str] = ()) -> DictConfig:
    """Compose run.yaml with command-line overrides (no sweeps) into a DictConfig."""
    register_schemas()
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        return hydra_compose("run", overrides=[*search_path(config_dirs), *overrides])


def preset_folders(config_dirs: Iterable[str]) -> list[Path]:
    """The shipped presets' folder, then the given ones.

    Raises:
        ValueError: one of them is not a folder.
    """
    folders = [Path(folder) for folder in config_dirs]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        raise ValueError(f"--config-dir {missing[0]} is not a folder")
    return [config_dir(), *folders]


def search_path(config_dirs: Iterable[str]) -> list[str]:
    """The override that adds folders of presets; empty where there are none."""
    urls = ",".join(f"file://{folder.resolve()}" for folder in preset_folders(config_dirs)[1:])
    return [f"hydra.searchpath=[{urls}]"] if urls else []


def compose(overrides: Sequence[str] = (), config_dirs: Iterable[str] = ()) -> RunConfig:
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


def plan(overrides: Sequence[str] = (), config_dirs: Iterable[str] = ()) -> list[RunConfig]:
    """Compose and validate every run that the same overrides start on the command line."""
    return [cell for cell, _ in plan_alone(overrides, config_dirs)]


def plan_alone(
    overrides: Sequence[str] = (), config_dirs: Iterable[str] = ()
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
    return changed


def split_sweeps(
    overrides: Sequence[str], config_dirs: Iterable[str] = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Separate fixed overrides (``a=1``) from the grid's axes (``a=1,2``, the experiment's sweep).

    The user's replace the experiment's.
    """
    fixed, axes, _ = _split(overrides, config_dirs)
    return fixed, axes


def _split(
    overrides: Sequence[str], config_dirs: Iterable[str]
) -> tuple[list[str], dict[str, list[str]], DictConfig]:
    """``split_sweeps``, and what the fixed overrides alone compose to."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    for override in parsed:
        if override.is_sweep_override() and override.get_key_element() == "experiment":
            raise ValueError(f"{override.input_line}: run one experiment at a time")
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
