"""A node of a cluster as Dask sees it: a worker that registers with the scheduler, and never gets a task."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Generator
from typing import Any

from distributed import Worker
from distributed.comm import Comm
from distributed.core import Server, Status
from distributed.security import Security

from skate.fabric.carrier import Purpose
from skate.fabric.dask.scheduler import MARK, prepare, protocol_of
from skate.version import __version__

#: Operations that run or install code, or measure the machine, on request.
BLOCKED = [
    "actor_attribute", "actor_execute", "benchmark_disk", "benchmark_memory", "benchmark_network", "plugin-add",
    "plugin-remove", "run", "run_coroutine", "update_data", "upload_file",
]  # fmt: skip
CLOSE_SECONDS = 10.0


class Node(Worker):  # type: ignore[misc]
    """A worker that stands for the node until its connection to the scheduler ends; then the carrier makes another."""

    def __init__(
        self,
        head_address: str,
        name: str,
        host: str,
        port: int,
        security: Security,
        accepted: Callable[[Purpose, socket.socket], None],
    ) -> None:
        #: Why it was closed, in Dask's words.
        self.reason = ""
        with tempfile.TemporaryDirectory(
            prefix="skate-"
        ) as folder:  # Dask insists on one, and never writes there
            super().__init__(
                head_address,
                name=name,
                nthreads=1,
                memory_limit=0,
                data={},
                # Of its own it would make a pool of threads.
                executor="offload",
                host=f"{protocol_of(security)}://{host}",
                port=port,
                protocol=protocol_of(security),
                security=security,
                # Dask would judge by it after minutes; the directory of the cluster does in seconds.
                heartbeat_interval="1h",
                extensions={},
                startup_information={MARK: lambda worker: __version__},
                blocked_handlers=BLOCKED,
                local_directory=folder,
                needs_workdir=False,
            )
        prepare(self, accepted)

    def start_http_server(self, *arguments: object, **more: object) -> None:
        """Start none: Dask would open a port for it even without a dashboard."""

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait until it is registered; but connections from other nodes only wait until it listens."""
        if self.status == Status.init and self.listeners:
            return self._itself().__await__()
        awaiting: Generator[Any, None, Any] = super().__await__()
        return awaiting

    async def _itself(self) -> Node:
        return self

    def let_go(self) -> None:
        """End the connection to a scheduler that is silent; this worker is closed then."""
        if self.batched_stream is not None:
            self.batched_stream.abort()

    async def handle_scheduler(self, comm: Comm) -> None:
        """Listen to the scheduler. Dask's own method ends the process if the worker cannot be closed afterwards."""
        try:
            await self.handle_stream(comm)
        finally:
            await self.close(reason="connection-lost")

    async def close(self, timeout: float = CLOSE_SECONDS, *, reason: str = "", **more: Any) -> str | None:
        """Close everything that this worker has; the process continues, even if something fails."""
        self.reason = self.reason or reason
        try:
            result: str | None = await super().close(timeout=timeout, reason=reason, **more)
        except Exception:  # whatever it is: a worker that stays half open would never be replaced
            self.status = Status.closed
            await Server.close(self)
            return None
        return result
