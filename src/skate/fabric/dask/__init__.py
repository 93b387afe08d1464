"""The engine of a cluster of machines: Dask.distributed registers and connects nodes, and never sees a message.

Only this folder imports `distributed`. That import takes half a second and changes settings of the whole process, so
only processes with a network address import this folder. Settings come first here: the import itself reads some.
"""

from __future__ import annotations

import dask.config

# Expected events, such as a head that has ended, would fill the terminal of a node. A user's own setting stays.
if not dask.config.get("logging", {}) and not dask.config.get("distributed.logging", {}):
    dask.config.set(
        {"logging": dict.fromkeys(("distributed", "distributed.client", "tornado.application"), "critical")}
    )

import distributed  # noqa: E402

dask.config.set(
    {
        # Nothing of Dask's own work happens here: no tasks, hence no monitors, no profiles and no stealing.
        "distributed.admin.system-monitor.gil.enabled": False,
        "distributed.diagnostics.nvml": False,
        "distributed.scheduler.active-memory-manager.start": False,
        "distributed.scheduler.work-stealing": False,
        "distributed.worker.profile.enabled": False,
        # Silence is judged by the directory of the cluster, which is quicker.
        "distributed.scheduler.worker-ttl": None,
        "distributed.scheduler.idle-timeout": None,
        "distributed.scheduler.no-workers-timeout": None,
        # No pages of HTTP, and no code that a configuration file names.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.preload": [],
        "distributed.worker.preload": [],
        # The pauses between attempts grow within this time, so a short one brings nodes back soon after their head.
        "distributed.comm.timeouts.connect": "3s",
    }
)

#: The oldest release of Dask.distributed that the engine works with.
OLDEST = (2025, 1)


def too_old(version: str) -> bool:
    """Return True for a release of Dask.distributed that is older than required."""
    numbers = [int(word) if word.isdigit() else 0 for word in version.split(".")[:2]]
    return tuple(numbers) < OLDEST


def own_version() -> str:
    """Return the release of Dask.distributed in this process."""
    return str(distributed.__version__)
