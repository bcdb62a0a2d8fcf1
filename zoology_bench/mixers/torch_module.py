"""Any nn.Module of the user's as a mixer, by its import path."""

import importlib
import inspect
from dataclasses import dataclass
from typing import ClassVar

import torch
from omegaconf import MISSING
from torch import Tensor, nn

from zoology_bench.mixers.base import Mixer, MixerConfig

OFFERED = ("d_model", "seq_len", "layer_idx", "n_layers")
"""What a user's constructor may ask for, by these names."""
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

    def __post_init__(self) -> None:
        self._resolve()

    @property
    def label(self) -> str:
        return self.target.partition(":")[2]

    @property
    def exact_causal(self) -> bool:
        # Nothing is known of how the module computes.
        return False

    def build(self, d_model: int, seq_len: int, layer_idx: int, n_layers: int) -> "TorchModule":
        offered: dict[str, int] = dict(
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
        field = f"model.mixer.target={self.target!r}"
        module_name, colon, class_name = self.target.partition(":")
        if not (module_name and colon and class_name):
            raise ValueError(f"{field} must look like pkg.mod:Class")
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise ValueError(f"{field} cannot be imported: {error}") from None
        found = getattr(module, class_name, None)
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            known = [n for n, c in vars(module).items() if isinstance(c, type)]
            raise ValueError(
                f"{field} names no nn.Module class; classes there: {', '.join(known) or 'none'}"
            )
        return found

    def _arguments(self, offered: dict[str, int]) -> dict[str, int]:
        parameters = inspect.signature(self._resolve()).parameters.values()
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for p in parameters:
            required = p.default is p.empty and p.kind not in variadic
            if required and (p.name not in offered or p.kind is p.POSITIONAL_ONLY):
                raise ValueError(
                    f"model.mixer.target={self.target!r} needs argument {p.name!r} without a "
                    f"default; offered: {', '.join(OFFERED)}"
                )
        return {p.name: offered[p.name] for p in parameters if p.name in offered}


class TorchModule(Mixer):
    """Wraps the user's module; it has no step form."""

    any_length: ClassVar[bool] = False

    def __init__(self, target: str, cls: type[nn.Module], arguments: dict[str, int]) -> None:
        super().__init__()
        self.target = target
        self._make = lambda: cls(**arguments)

    def rebuild(self, seed: int) -> None:
        """Construct the user's module anew; it finds the global generator seeded, then restored."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            self.inner = self._make()

    def forward(self, x: Tensor) -> Tensor:
        """Mix (B, T, D) causally into (B, T, D)."""
        return self.inner(x)

    def state_bytes(self, seq_len: int) -> None:
        return None

    def probe(self, d_model: int, seq_len: int) -> None:
        """Check the shape and the causality of one random input, of the length to be trained on.

        On the CPU; a module that cannot run there is probed on the GPU, where there is one.

        Raises:
            ValueError: another output shape, an output that depends on later inputs, or a module
                that runs nowhere on this machine.
        """
        try:
            self._probe_on("cpu", d_model, seq_len)
        except (RuntimeError, NotImplementedError, AssertionError) as error:
            if not torch.cuda.is_available():
                reason = " ".join(str(error).split()) or type(error).__name__
                raise ValueError(
                    f"model.mixer.target={self.target!r} does not run on this machine: {reason}"
                ) from error
            self.to("cuda")
            self._probe_on("cuda", d_model, seq_len)
            self.to("cpu")

    @torch.no_grad()
    def _probe_on(self, device: str, d_model: int, seq_len: int) -> None:
        generator = torch.Generator().manual_seed(0)
        x, other = torch.randn(2, 1, seq_len, d_model, generator=generator).to(device)
        half = seq_len // 2
        changed = torch.cat([x[:, :half], other[:, half:]], dim=1)
        was_training = self.training
        self.eval()
        y, y_changed = self(x), self(changed)
        self.train(was_training)
        if not isinstance(y, Tensor) or y.shape != x.shape:
            got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(
                f"model.mixer.target={self.target!r} returned {got} for an input of shape "
                f"{tuple(x.shape)}; expected the same shape"
            )
        gap = (y - y_changed)[:, :half].abs().amax(dim=(0, 2))
        seen = torch.nonzero(gap > PROBE_TOLERANCE * y.square().mean().sqrt())
        if len(seen):
            raise ValueError(
                f"model.mixer.target={self.target!r} is not causal: its output at position "
                f"{int(seen[0])} changes with inputs from position {half} on"
            )
