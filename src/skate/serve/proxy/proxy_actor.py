"""The actor that keeps Serve's listening socket on a node other than the controller's."""

from __future__ import annotations

import asyncio
from typing import Any

import skate
from skate.serve.config.http import HTTPOptions
from skate.serve.routing import watch
from skate.serve.routing.counter_page import View
from skate.serve.routing.demand import Demand
from skate.serve.routing.table import Table

#: The interval at which changed loads are reported, in seconds.
_REPORT_SECONDS = 0.1


class ProxyActor:
    """Keeps the socket while replicas of its node come and go, serves while none does, and reports their loads."""

    def __init__(self, options: HTTPOptions | None) -> None:
        self.options = options
        self.node = skate.get_runtime_context().get_node_id()
        self.owner: Any = None
        self.server: Any = None
        self._views: dict[str, View] = {}
        self._watching: watch.Watch | None = None
        self._starting = asyncio.Lock()

    async def begin(self, keepers: list[bytes]) -> bytes:
        """Start, or continue; return the address at which replicas of this node fetch the socket.

        Args:
            keepers: Addresses of processes that may have the socket. They are tried first: a proxy that is started again
                continues with the socket of its replicas, and nodes on one machine share one socket.

        Raises:
            RuntimeError: the port is taken on this machine.
        """
        async with self._starting:
            if self._watching is None:
                watching = watch.current()
                if self.options is not None:
                    await self._listen(self.options, watching, keepers)
                self._watching = watching
                loop = asyncio.get_running_loop()
                watching.on_change(lambda table: _soon(loop, self._update, table))
                self._reports = loop.create_task(self._report_loads())
        return b"" if self.owner is None else bytes(self.owner.name)

    async def _listen(self, options: HTTPOptions, watching: watch.Watch, keepers: list[bytes]) -> None:
        from skate.serve.ingress.fallback_server import FallbackServer  # uvicorn, only where HTTP is served
        from skate.serve.ingress.socket_owner import SocketOwner, fetch_from_any
        from skate.serve.ingress.sockets import listen

        sock = await fetch_from_any(keepers)
        self.owner = SocketOwner(sock or listen(options.host, options.port))
        self.server = FallbackServer(options, self.owner.listening, Demand(watching))

    def _update(self, table: Table) -> None:
        if self.server is not None:
            self.server.update(table)
        living = {
            entry.replica: entry
            for deployment in table.deployments.values()
            for entry in deployment.entries
            if entry.node == self.node
        }
        for name in [name for name in self._views if name not in living]:
            self._views.pop(name).close()
        for name, entry in living.items():
            if name not in self._views:
                self._views[name] = View(entry.pid, entry.fd, entry.node, self.node)

    async def _report_loads(self) -> None:
        """Report the loads of this node's replicas to the controller, which scales by them, whenever they change."""
        last: dict[str, int] = {}
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            assert self._watching is not None
            loads = {name: view.load() for name, view in self._views.items()}
            if loads != last and not self._watching.closed:
                last = loads
                self._watching.controller.report_loads.remote(self.node, loads)

    async def end(self) -> None:
        """Stop serving; connections that wait in the socket are refused unless a replica has it."""
        if self.server is not None:
            await self.server.close()
        if self.owner is not None:
            self.owner.close()

    async def about(self) -> dict[str, Any]:
        """Return the ids of this actor for status reports."""
        here = skate.get_runtime_context()
        return {
            "node_id": self.node,
            "node_ip": skate.util.get_node_ip_address(),
            "node_instance_id": "",
            "actor_id": here.get_actor_id(),
            "actor_name": here.get_actor_name(),
            "worker_id": here.get_worker_id(),
            "log_file_path": None,
        }

    async def live(self) -> None:
        """Never return: the controller notices when the process ends."""
        await asyncio.get_running_loop().create_future()


def _soon(loop: asyncio.AbstractEventLoop, call: Any, table: Table) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, table)
