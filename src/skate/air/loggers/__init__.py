"""Loggers that write files into the folder of a trial or run: a CSV table, lines of JSON, TensorBoard's events."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.air.logger_callback": (
        "LoggerCallback",
        "pretty_print",
    ),
    "skate.air.loggers.lines": ("JsonLoggerCallback",),
    "skate.air.loggers.table": ("CSVLoggerCallback",),
    "skate.air.loggers.tensorboard": ("TBXLoggerCallback",),
}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
