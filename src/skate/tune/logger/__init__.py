"""What is written of each trial: tables, lines of JSON, and event files for TensorBoard."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "CSVLoggerCallback": "skate.tune.logger.csv",
    "JsonLoggerCallback": "skate.tune.logger.json",
    "LoggerCallback": "skate.tune.logger.logger",
    "TBXLoggerCallback": "skate.tune.logger.tensorboard",
    "pretty_print": "skate.tune.logger.logger",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.tune.logger' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
