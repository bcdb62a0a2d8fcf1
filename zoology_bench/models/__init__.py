"""Models: what a run trains or evaluates, over any mixer."""

from zoology_bench.models.base import ModelConfig, ParamCount
from zoology_bench.models.lm import LanguageModel, LanguageModelConfig

__all__ = ["LanguageModel", "LanguageModelConfig", "ModelConfig", "ParamCount"]
