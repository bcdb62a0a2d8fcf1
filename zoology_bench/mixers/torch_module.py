"""Any nn.Module of the user's as a mixer, by its import path."""

import importlib
import inspect
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from omegaconf import MISSING
from torch import Tensor, nn

from zoology_bench.mixers.base import Mixer, MixerConfig
from zoology_bench.validation import check_name

OFFERED = ("d_model", "seq_len", "layer_idx", "n_layers")
"""What a user's constructor may ask for, by these names."""
MOST_BOUNDARIES = 64
"""Most examples of the causality probe of a user's module."""
PROBE_NUMBERS = 1 << 21
"""Most numbers in its input."""
PROBE_TOLERANCE = 1e-3
"""Relative change of an earlier output that counts as seeing the future (fp32 leaves 1e-6)."""


@dataclass(kw_only=True, slots=True)
class TorchModuleConfig(MixerConfig):
    """``model.mixer.target=pkg.mod:Class``, a module that maps (B, T, D) to (B, T, D) causally.

    The class is called with those of d_model, seq_len, layer_idx and n_layers that its constructor
    names; every other argument needs a default. It initialises itself, whatever ``model.init``
    says, from random numbers that derive from the model's generator.
    """

    name: ClassVar[str] = "torch_module"
    recipe_lr: ClassVar[float] = 2e-3

    target: str = MISSING
    """Import path of the class, ``pkg.mod:Class``."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Further arguments of its constructor by name, such as ``{n_heads: 4}``."""

    def __post_init__(self) -> None:
        self._resolve()

    @property
    def label(self) -> str:
        return self.target.partition(":")[2]

    def init_label(self, scheme: str) -> str:
        return "own"

    @property
    def exact_causal(self) -> bool:
        # Nothing is known of how the module computes.
        return False

    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> "TorchModule":
        offered: dict[str, Any] = dict(
            zip(OFFERED, (d_model, seq_len, layer_idx, n_layers), strict=True)
        )
        wrapper = TorchModule(self.target, self._resolve(), self._arguments(offered))
        wrapper.rebuild(seed=0)
        wrapper.probe(d_model, seq_len)
        return wrapper

    def init_(
        self,
        module: nn.Module,
        scheme: str,
        layer_idx: int,
        n_layers: int,
        generator: torch.Generator,
    ) -> None:
        assert isinstance(module, TorchModule)
        module.rebuild(int(torch.randint(1 << 62, (), generator=generator)))

    def _resolve(self) -> type[nn.Module]:
        where = f"model.mixer.target={self.target!r}"
        module_name, colon, class_name = self.target.partition(":")
        if not (module_name and colon and class_name):
            raise ValueError(f"{where} must look like pkg.mod:Class")
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{where} cannot be imported: {_reason(error)}") from error
        found = getattr(module, class_name, None)
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            known = [n for n, c in vars(module).items() if isinstance(c, type)]
            raise ValueError(
                f"{where} names no nn.Module class; classes there: {', '.join(known) or 'none'}"
            )
        return found

    def _arguments(self, offered: dict[str, Any]) -> dict[str, Any]:
        parameters = inspect.signature(self._resolve()).parameters.values()
        offered = {**offered, **self.arguments}
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        names = [p.name for p in parameters]
        for name in self.arguments if not takes_any else ():
            check_name("model.mixer.arguments", name, names)
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for p in parameters:
            required = p.default is p.empty and p.kind not in variadic
            if required and (p.name not in offered or p.kind is p.POSITIONAL_ONLY):
                raise ValueError(
                    f"model.mixer.target={self.target!r} needs argument {p.name!r} without a "
                    f"default; offered: {', '.join(OFFERED)}, "
                    "and what model.mixer.arguments holds"
                )
        if takes_any:
            names += list(self.arguments)
        return {name: offered[name] for name in dict.fromkeys(names) if name in offered}


class TorchModule(Mixer):
    """Wraps the user's module; it has no step form."""

    any_length: ClassVar[bool] = False

    def __init__(self, target: str, cls: type[nn.Module], arguments: dict[str, Any]) -> None:
        super().__init__()
        self.target = target
        self._make = lambda: cls(**arguments)

    def rebuild(self, seed: int) -> None:
        """Construct the user's module anew; it finds the global generator seeded, then restored."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            try:
                self.inner = self._make()
            except Exception as error:
                raise ValueError(
                    f"model.mixer.target={self.target!r} cannot be constructed: {_reason(error)}"
                ) from error

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        return self.inner(x)

    def state_bytes(self, seq_len: int) -> None:
        return None

    def probe(self, d_model: int, seq_len: int) -> None:
        """Check shape and causality on random inputs of the length to be trained on.

        On the CPU; a module that cannot run there is probed on the GPU, where there is one.
        Inputs are replaced from every position on, or from ``MOST_BOUNDARIES`` of them.

        Raises:
            ValueError: another output shape, an output that is not finite or depends on later
                inputs, or a module that runs nowhere on this machine.
        """
        x, other = torch.randn(2, 1, seq_len, d_model, generator=torch.Generator().manual_seed(0))
        starts = _boundaries(seq_len, _n_boundaries(seq_len, d_model))
        at = torch.arange(seq_len)
        # One forward pass judges every boundary: example b replaces the inputs from starts[b] on.
        rows = torch.where((at < starts[:, None])[..., None], x, other)
        try:
            y = self._outputs(torch.cat([x, rows]))
        except Exception as error:
            raise ValueError(
                f"model.mixer.target={self.target!r} does not run on this machine: {_reason(error)}"
            ) from error
        self._judge(y, (1 + len(starts), seq_len, d_model), starts)

    @torch.no_grad()
    def _outputs(self, x: Tensor) -> object:
        """What the module returns in eval mode; on a GPU where it does not run on the CPU."""
        was_training = self.training
        self.eval()
        try:
            return self(x)
        except (RuntimeError, NotImplementedError, AssertionError):
            if not torch.cuda.is_available():
                raise
            self.to("cuda")
            y: object = self(x.to("cuda"))
            return y.cpu() if isinstance(y, Tensor) else y
        finally:
            self.to("cpu").train(was_training)

    def _judge(self, y: object, shape: tuple[int, ...], starts: Tensor) -> None:
        if not isinstance(y, Tensor) or y.shape != shape:
            got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(
                f"model.mixer.target={self.target!r} returned {got} for an input of shape "
                f"{shape}; expected the same shape"
            )
        if not y.isfinite().all():
            raise ValueError(
                f"model.mixer.target={self.target!r} returns numbers that are not finite for "
                "inputs of size 1, before any training"
            )
        before = torch.arange(shape[1]) < starts[:, None]
        gap = (y[1:] - y[:1]).abs().amax(dim=2) * before
        leaks = torch.nonzero(gap > PROBE_TOLERANCE * y[0].square().mean().sqrt())
        if len(leaks):
            example, position = leaks[0].tolist()
            raise ValueError(
                f"model.mixer.target={self.target!r} is not causal: its output at position "
                f"{position} changes with inputs from position {int(starts[example])} on"
            )


def _n_boundaries(seq_len: int, d_model: int) -> int:
    """As many as memory allows, also to a module that holds a matrix over position pairs."""
    fits = min(PROBE_NUMBERS // (seq_len * d_model), 32 * PROBE_NUMBERS // seq_len**2)
    return max(8, min(MOST_BOUNDARIES, fits))


def _boundaries(seq_len: int, most: int) -> Tensor:
    """Positions from which inputs are replaced: all of them, or the first ones and a spread."""
    if seq_len - 1 <= most:
        return torch.arange(1, seq_len)
    n_first = most // 2
    drawn = torch.randperm(seq_len - 1, generator=torch.Generator().manual_seed(0)) + 1
    return torch.cat([torch.arange(1, n_first + 1), drawn[: most - n_first]]).unique()


def _reason(error: BaseException) -> str:
    """One line: what was raised, and what it said."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
