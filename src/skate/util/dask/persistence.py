"""Dask collections that are computed and kept as refs, with their parts in the object store."""

from __future__ import annotations

from typing import Any

import dask
import dask.base

from skate.util.dask import scheduler

_persist = dask.base.persist


def ray_dask_persist(*args: Any, **kwargs: Any) -> Any:
    """`dask.persist`; parts stay in the object store if the scheduler is `ray_dask_get`."""
    chosen = kwargs.get("scheduler") or dask.config.get("scheduler", None)
    if chosen in (scheduler.ray_dask_get, scheduler.ray_dask_get_sync):
        kwargs.setdefault("ray_persist", True)
    return _persist(*args, **kwargs)


def dataframe_optimize(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Return the graph unchanged: shuffles use shared memory, and dataframes are optimized before they become
    graphs.
    """
    return dsk


dask.persist = dask.base.persist = ray_dask_persist
