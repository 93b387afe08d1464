"""Dask on this session: Dask collections whose tasks run as tasks here, by shared memory instead of a second scheduler.

scheduler.py      ray_dask_get: a Dask scheduler; enable_dask_on_ray makes it the default
callbacks.py      RayDaskCallback: hooks around submission and tasks
persistence.py    collections that are kept as refs: x.persist()
"""

from __future__ import annotations

from skate.installed import require

require("dask", "ray.util.dask")

from skate.util.dask.callbacks import ProgressBarCallback, RayDaskCallback  # noqa: E402
from skate.util.dask.persistence import dataframe_optimize, ray_dask_persist  # noqa: E402
from skate.util.dask.scheduler import (  # noqa: E402
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
    ray_dask_get_sync,
)

__all__ = [
    "ProgressBarCallback",
    "RayDaskCallback",
    "dataframe_optimize",
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "ray_dask_get",
    "ray_dask_get_sync",
    "ray_dask_persist",
]
