"""Where a run's curves go: always a local file, and Weights & Biases where asked."""

from zoology_bench.training.loggers_local import (
    METRICS_FILE,
    Conclusion,
    LocalLogger,
    LocalLoggerConfig,
    Logger,
    LoggerConfig,
    NullLogger,
    RunInfo,
)
from zoology_bench.training.loggers_wandb import WandbLogger, WandbLoggerConfig

__all__ = [
    "LOGGERS",
    "METRICS_FILE",
    "Conclusion",
    "LocalLogger",
    "LocalLoggerConfig",
    "Logger",
    "LoggerConfig",
    "NullLogger",
    "RunInfo",
    "WandbLogger",
    "WandbLoggerConfig",
]

LOGGERS: dict[str, type[LoggerConfig]] = {
    config.name: config for config in (LocalLoggerConfig, WandbLoggerConfig)
}
