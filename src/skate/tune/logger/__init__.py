"""Loggers of trials: tables, JSON lines, event files for TensorBoard, and experiment tracking services.

The loggers are those of `skate.air`, which Train uses as well.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "AimLoggerCallback": "skate.air.integrations.aim",
    "CSVLoggerCallback": "skate.air.loggers.table",
    "CometLoggerCallback": "skate.air.integrations.comet",
    "JsonLoggerCallback": "skate.air.loggers.lines",
    "LoggerCallback": "skate.air.logger_callback",
    "MLflowLoggerCallback": "skate.air.integrations.mlflow",
    "TBXLoggerCallback": "skate.air.loggers.tensorboard",
    "WandbLoggerCallback": "skate.air.integrations.wandb",
    "pretty_print": "skate.air.logger_callback",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.tune.logger' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
