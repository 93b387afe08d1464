"""The head of a cluster as Dask sees it: a scheduler where nodes register, and which has no tasks."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from distributed import Scheduler
from distributed.comm import Comm
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.security import Security

from skate.fabric.carrier import Purpose
from skate.fabric.dask import OLDEST, too_old
from skate.fabric.dask.sockets import OPERATIONS, accept

#: The periodic callbacks of Dask that judge or measure; nothing here uses them.
IDLE_CALLBACKS = (
    "find-missing", "idle-timeout", "monitor", "no-workers-timeout", "shift_counters", "tick", "ticks", "worker-ttl",
)  # fmt: skip
#: The key of what a node of Skate says of itself when it registers.
MARK = "skate"
#: Operations that run or install code, read everything, or measure the machine, on request.
BLOCKED = [
    "benchmark_hardware", "broadcast", "dump_cluster_state_to_url", "feed", "performance_report", "proxy",
    "register_nanny", "register_nanny_plugin", "register_scheduler_plugin", "register_worker_plugin", "restart",
    "restart_workers", "run_function", "terminate", "unregister_nanny_plugin", "unregister_scheduler_plugin",
    "unregister_worker_plugin", "update_data", "scatter",
]  # fmt: skip


class Registrations(SchedulerPlugin):  # type: ignore[misc]
    """Tells the carrier which nodes have registered. Workers of Dask that are not nodes of Skate are ignored."""

    name = "skate-registrations"

    def __init__(self, registered: Callable[[str, str], None], unregistered: Callable[[str], None]) -> None:
        self._registered = registered
        self._unregistered = unregistered
        self._names: dict[str, str] = {}

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Handle the registration of a worker."""
        state = scheduler.workers[worker]
        if MARK in state.extra:
            self._names[worker] = state.name
            self._registered(state.name, state.address)

    def remove_worker(self, scheduler: Scheduler, worker: str, **more: object) -> None:
        """Handle the end of a worker, or of its connection."""
        name = self._names.pop(worker, None)
        if name is not None:
            self._unregistered(name)


class Head(Scheduler):  # type: ignore[misc]
    """A scheduler that registers nodes, and hands over their connections."""

    def __init__(
        self,
        host: str,
        port: int,
        security: Security,
        plugin: Registrations,
        accepted: Callable[[Purpose, socket.socket], None],
        dask_clients: bool = False,
    ) -> None:
        with tempfile.TemporaryDirectory(
            prefix="skate-"
        ) as folder:  # Dask insists on one, and never writes there
            super().__init__(
                host=host,
                port=port,
                protocol=protocol_of(security),
                security=security,
                dashboard=False,
                plugins=(plugin,),
                extensions={},
                blocked_handlers=[] if dask_clients else BLOCKED,
                local_directory=folder,
                needs_workdir=False,
            )
        prepare(self, accepted)

    def start_http_server(self, *arguments: object, **more: object) -> None:
        """Start none: Dask would open a port for it even without a dashboard."""

    async def add_worker(self, comm: Comm, *, versions: dict[str, Any], **more: Any) -> None:
        """Register a node, unless its Dask is too old."""
        theirs = str((versions.get("packages") or {}).get("distributed") or "0")
        if too_old(theirs):
            oldest = ".".join(map(str, OLDEST))
            text = f"it has Dask.distributed {theirs}, but {oldest} or later is required"
            await comm.write({"status": "error", "message": text, "time": time.time()})
            return
        await super().add_worker(comm, versions=versions, **more)


def protocol_of(security: Security) -> str:
    """Return the scheme of addresses: TLS wherever there are certificates."""
    return "tls" if security.require_encryption else "tcp"


def prepare(server: Any, accepted: Callable[[Purpose, socket.socket], None]) -> None:
    """Make a server of Dask quiet, and have it hand over connections that other nodes ask for."""
    for name in IDLE_CALLBACKS:
        server.periodic_callbacks.pop(name, None)
    if server._updated_sys_path:
        # Dask has put its folder in front of everything that this process imports.
        sys.path.remove(server.local_directory)
        server._updated_sys_path = False
    for purpose, operation in OPERATIONS.items():
        server.handlers[operation] = _handler(purpose, accepted)


def _handler(purpose: Purpose, accepted: Callable[[Purpose, socket.socket], None]) -> Callable[..., Any]:
    async def hand_over(comm: Comm, forwarded: bool) -> Status:
        return await accept(comm, forwarded, lambda sock: accepted(purpose, sock))

    return hand_over
