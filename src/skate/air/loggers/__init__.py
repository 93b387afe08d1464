"""Loggers that write files into the folder of a trial or run: a CSV table, lines of JSON, TensorBoard's events."""

from __future__ import annotations

import importlib
from typing import Any

_HOME_OF = {
    "CSVLoggerCallback": "skate.air.loggers.table",
    "JsonLoggerCallback": "skate.air.loggers.lines",
    "LoggerCallback": "skate.air.logger_callback",
    "TBXLoggerCallback": "skate.air.loggers.tensorboard",
    "pretty_print": "skate.air.logger_callback",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.air.loggers' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
