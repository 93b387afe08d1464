"""Loggers of trials: tables, JSON lines, event files for TensorBoard, and experiment tracking services.

The loggers are those of `skate.air`, which Train uses as well.
"""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.air.integrations.aim": ("AimLoggerCallback",),
    "skate.air.integrations.comet": ("CometLoggerCallback",),
    "skate.air.integrations.mlflow": ("MLflowLoggerCallback",),
    "skate.air.integrations.wandb": ("WandbLoggerCallback",),
    "skate.air.logger_callback": (
        "LoggerCallback",
        "pretty_print",
    ),
    "skate.air.loggers.lines": ("JsonLoggerCallback",),
    "skate.air.loggers.table": ("CSVLoggerCallback",),
    "skate.air.loggers.tensorboard": ("TBXLoggerCallback",),
}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
