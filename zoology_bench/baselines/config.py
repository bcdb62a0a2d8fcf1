"""The configuration that asks for every content-blind predictor in place of a model."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(kw_only=True, slots=True)
class BaselinesConfig:
    """Grade every baseline on the evaluated tasks; nothing is built or trained."""

    name: ClassVar[str] = "baselines"
    """The key in configs/model."""

    @property
    def label(self) -> str:
        """What a failed run is called; each baseline's rows carry its own name."""
        return self.name
