"""Shared parts of Train and Tune under Ray's old name for both: settings of runs, and loggers of their reports."""

from __future__ import annotations

from skate import lazy_loader

#: Public names by their modules; loaded on first use.
_HOMES = {
    "skate.air.config": ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"),
    "skate.air.execution.resources.request": ("AcquiredResources", "ResourceRequest"),
    "skate.air.data_batch_type": ("DataBatchType",),
    "skate.train.result": ("Result",),
}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
