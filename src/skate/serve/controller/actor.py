"""The actor that keeps applications in their desired state."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from collections.abc import Iterable
from typing import Any

import skate
from skate.resources import Resources
from skate.serve.code import pickler
from skate.serve.config.http import HTTPOptions, gRPCOptions
from skate.serve.controller import (
    clock,
    exposition,
    figures,
    recorded_stats,
    scale_decisions,
    spread,
    status_report,
)
from skate.serve.controller.actions import Action
from skate.serve.controller.feasibility import why_not
from skate.serve.controller.machine import Machine
from skate.serve.controller.records import ApplicationRecord, Broken, Key, Target, record_build_errors
from skate.serve.controller.replica_pool import ReplicaPool
from skate.serve.controller.route_publisher import table_of
from skate.serve.controller.states import ApplicationStatus
from skate.serve.exceptions import RayServeException
from skate.serve.graph import Built
from skate.serve.ingress.socket_owner import SocketOwner, fetch_from_any
from skate.serve.ingress.sockets import listen
from skate.serve.proxy.node_proxies import NodeProxies
from skate.serve.routing.table import Table

#: Seconds between ticks while anything depends on the time, and while nothing does.
_TICK_SECONDS = 0.1
_IDLE_TICK_SECONDS = 0.5
#: A process that has not acknowledged a new table after so long is considered gone.
_ACKNOWLEDGE_SECONDS = 0.5
#: After a restart, the time to wait for processes that remember the state.
_REMEMBER_SECONDS = 0.3


def _packed(memory: dict[str, Any]) -> bytes:
    """Pickle the state. Classes of the user's program, such as those of shared actors, may have to be sent by value."""
    try:
        return pickle.dumps(memory)
    except (pickle.PicklingError, AttributeError, TypeError):
        return pickler.dumps(memory)


class ServeController:
    """Executes requests for changes, and publishes the state."""

    def __init__(self) -> None:
        self.started = clock.now()
        #: The import path of the program that started Serve, which all processes started here share.
        self.own_path = tuple(sys.path)
        self.machine = Machine(os.urandom(3).hex())
        self.table = Table(version=0)
        self.codes: dict[str, Any] = {}
        self.pool = ReplicaPool(self)
        self.proxies = NodeProxies(self)
        self.options = HTTPOptions()
        self.grpc_options: gRPCOptions | None = None
        self.tracing: Any = None
        #: The logging settings of replicas without their own.
        self.logging: Any = None
        self.location = "EveryNode"
        self.keeper: SocketOwner | None = None
        self.server: Any = None
        #: The newest table of each watcher, and the time when it reported it.
        self.watchers: dict[str, tuple[int, float]] = {}
        self.demands: dict[str, dict[Key, int]] = {}
        self.settled: dict[str, asyncio.Event] = {}
        self.deployed: dict[str, Any] = {}
        self._published = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._awake = asyncio.Event()
        self._memories: list[Table] = []
        self._reminded: set[str] = set()
        self.loops = 0
        self.looped = 0.0
        #: The seconds of the last pass of the control loop.
        self.pass_seconds = 0.0
        self._ticking: Any = None
        figures.publish(self)
        if not skate.get_runtime_context().was_current_actor_reconstructed:
            self._awake.set()

    # -- requests

    async def begin(
        self, options: HTTPOptions | None, grpc: Any, location: Any, logging: Any = None, tracing: Any = None
    ) -> dict[str, Any]:
        """Start listening. Raise RuntimeError if the port is taken. Options after the first call are ignored."""
        await self._recovered()
        if location is not None:
            self.location = getattr(location, "value", location)
        if grpc is not None and self.grpc_options is None:
            self.grpc_options = grpc
        if logging is not None:
            self.logging = logging
        if tracing is not None:
            self.tracing = tracing
        if self.keeper is None:
            if options is not None:
                self.options = options
            if self.location != "Disabled" and self.options.location not in ("NoServer", "Disabled"):
                self.keeper = SocketOwner(listen(self.options.host, self.options.port))
                self.pool.later(self._serve_without_replicas())
        self._tick()
        return {"host": self.options.host, "port": self.keeper.port if self.keeper else None}

    async def _serve_without_replicas(self) -> None:
        """Serve while no replica does. Import the server in a thread, because that takes longer than the first replica."""
        from skate.serve.controller.local_watch import adopt_own  # needs a handle to this actor

        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, __import__, "skate.serve.ingress.fallback_server")
        from skate.serve.ingress.fallback_server import FallbackServer  # uvicorn, loaded above

        if self.keeper is None:
            return
        self.server = FallbackServer(self.options, self.keeper.listening, adopt_own(self))
        self.server.update(self.table)

    async def deploy(
        self, apps: list[Built], wait: bool = True, ending: tuple[str, ...] = ()
    ) -> list[tuple[str, str, Any]]:
        """Deploy applications, and delete those in `ending`.

        Return the name, the error text (or "") and the exception of each. Raise RayServeException for
        conflicting routes, and RuntimeError if the cluster is too small.
        """
        await self._recovered()
        self._check_routes(apps, ending)
        wrong = why_not(self.machine, apps, ending)
        if wrong:
            raise RuntimeError(wrong)
        await self.delete(list(ending), wait=False)
        for app in apps:
            self._deploy(app)
        self.publish()
        if not wait:
            await self.await_watchers()  # a handle knows the application from its first call on
            return []
        return [await self._settle(app.name) for app in apps]

    def _deploy(self, app: Built) -> None:
        for each in app.parts:
            if each.version not in self.codes:
                self.codes[each.version] = each.code if len(each.code) < 1 << 16 else skate.put(each.code)
        for part in app.parts:
            if part.config.logging_config is None and self.logging is not None:
                part.change({"logging_config": self.logging})
        targets = [
            Target(
                p.name, p.version, p.config, p.actor, p.ingress, p.asgi, p.outbound, p.docs_path, p.guarded
            )
            for p in app.parts
        ]
        record = ApplicationRecord(
            app.name, app.route_prefix, app.ingress, {}, clock.now(), app.config, app.source
        )
        record.path, record.directory = app.path, app.directory
        # Policies are named by their import path in that program.
        sys.path.extend(each for each in app.path if each not in sys.path)
        record.external_scaler, record.policy = app.external_scaler, app.policy
        self.deployed[app.name] = app.config
        self.settled[app.name] = asyncio.Event()
        self.update_free()
        self.do(self.machine.deploy(record, targets, clock.now()))

    async def replace_all(
        self, apps: list[Built], capacity: float | None, broken: Broken
    ) -> list[tuple[str, str, Any]]:
        """Serve exactly these applications and the broken ones; end those of earlier config files that are not among them."""
        await self._recovered()
        names = {*broken, *(app.name for app in apps)}
        ending = tuple(
            each.name
            for each in self.machine.apps.values()
            if each.source == "declarative" and each.name not in names
        )
        before, self.machine.capacity = self.machine.capacity, capacity
        try:
            await self.record_build_errors(broken)
            return await self.deploy(apps, wait=False, ending=ending)
        except Exception:  # refused: restore the previous state
            self.machine.capacity = before
            raise

    async def record_build_errors(self, broken: Broken) -> None:
        """Report these applications as failed."""
        await self._recovered()
        record_build_errors(self.machine.apps, broken, clock.now())
        self.deployed |= {name: config for name, (config, _) in broken.items()}
        self.machine.changed = True

    def _check_routes(self, apps: list[Built], ending: tuple[str, ...]) -> None:
        taken = {
            app.route_prefix: app.name
            for app in self.machine.apps.values()
            if app.route_prefix is not None and not app.deleting and app.name not in ending
        }
        replaced = {app.name for app in apps}
        for app in apps:
            owner = taken.get(app.route_prefix) if app.route_prefix else None
            if app.route_prefix is not None and owner is not None and owner not in replaced:
                raise RayServeException(
                    f"the route {app.route_prefix!r} of application {app.name!r} is taken by application "
                    f"{owner!r}; choose another one with serve.run(..., route_prefix=...), or delete {owner!r} "
                    "first"
                )
            if app.route_prefix is not None:
                taken[app.route_prefix] = app.name

    async def _settle(self, name: str) -> tuple[str, str, Any]:
        """Wait until an application runs or has failed."""
        while True:
            app = self.machine.apps.get(name)
            if app is None or app.deleting:
                return name, f"the application {name!r} was deleted while it was being deployed", None
            status = self.machine.status_of(app)
            if status is ApplicationStatus.RUNNING:
                await self.await_watchers()
                return name, "", None
            failed = [each for each in app.deployments.values() if each.given_up]
            if failed:
                text = "; ".join(f"deployment {each.target.name!r}: {each.message}" for each in failed)
                return name, text, failed[0].error
            event = self.settled.setdefault(name, asyncio.Event())
            event.clear()
            await event.wait()

    async def delete(self, names: list[str], wait: bool = True) -> None:
        """Delete applications."""
        await self._recovered()
        now = clock.now()
        for name in names:
            self.do(self.machine.delete(name, now))
            self.deployed.pop(name, None)
        self.publish()
        while wait and any(self.machine.apps.get(name) is not None for name in names):
            await self._changed()

    async def scale(self, app: str, deployment: str, want: int) -> None:
        """Set the number of replicas. Raise RayServeException if there is no such deployment."""
        record = self.machine.record((app, deployment))
        if record is None:
            raise RayServeException(
                f"there is no deployment {deployment!r} in application {app!r} to be scaled"
            )
        self.do(self.machine.scale((app, deployment), want, clock.now()))
        self.publish()

    async def shutdown(self) -> None:
        """End everything. The caller then ends this actor."""
        await self.delete(list(self.machine.apps), wait=True)
        self.proxies.end()
        self.machine.changed = True
        server, self.server = self.server, None  # a tick during the close must not make it accept again
        if server is not None:
            await server.close()
        if self.keeper is not None:
            self.keeper.close()
            self.keeper = None

    # -- listeners

    async def listen(self, watcher: str, version: int, waiting: dict[Key, int]) -> Any:
        """Return the table once it is newer than `version`. `waiting` is the caller's waiting requests, by deployment."""
        if not self._awake.is_set():
            if version <= 0 or watcher in self._reminded:
                return await self._listen_when_recovered(watcher, version, waiting)
            self._reminded.add(watcher)
            return "remember"
        self.watchers[watcher] = (version, time.monotonic())
        self._take_demand(watcher, waiting)
        self._acknowledged.set()
        while version >= self.table.version:
            await self._published.wait()
        return self.table

    async def _listen_when_recovered(self, watcher: str, version: int, waiting: dict[Key, int]) -> Any:
        await self._recovered()
        return await self.listen(watcher, version, waiting)

    def forget_watcher(self, name: str) -> None:
        """Remove a process that has ended from the watchers."""
        for each in (name, name + "-http"):
            self.demands.pop(each, None)
        if self.watchers.pop(name, None) is not None:
            self._acknowledged.set()

    async def demand(self, watcher: str, waiting: dict[Key, int]) -> None:
        """Receive a process's number of waiting requests, whenever it changes."""
        await self._recovered()
        self._take_demand(watcher, waiting)

    def _take_demand(self, watcher: str, waiting: dict[Key, int]) -> None:
        if waiting:
            self.demands[watcher] = waiting
            for key in waiting:
                record = self.machine.record(key)
                if record is not None and record.want == 0:
                    scale_decisions.wake_up(self, record)
        else:
            self.demands.pop(watcher, None)

    async def keepers_of(self, node: str) -> list[bytes]:
        """Return where replicas of a node fetch the listening socket. Raise RuntimeError if its port is taken there."""
        await self._recovered()
        return await self.proxies.keepers_of(node)

    async def report_loads(self, node: str, loads: dict[str, int]) -> None:
        """Receive the number of requests at each replica of another node."""
        self.proxies.loads[node] = loads

    async def remote_loads(self) -> dict[str, dict[str, int]]:
        """Return the last reported loads, by node and replica."""
        return self.proxies.loads

    async def models(self, key: Key, replica: str, models: tuple[str, ...]) -> None:
        """Record the models that a replica has loaded."""
        record = self.machine.record(key)
        one = None if record is None else record.replicas.get(replica)
        if one is not None and one.models != models:
            one.models = models
            self.machine.changed = True
            self.publish()

    async def remember(self, table: Table) -> None:
        """Receive a table from before this controller's restart, from a process that remembers it."""
        if self._awake.is_set():
            return
        self._memories.append(table)
        if len(self._memories) > 1:
            return
        await asyncio.sleep(_REMEMBER_SECONDS)
        newest = max(self._memories, key=lambda each: each.version)
        blob, self.codes = newest.memory
        state = pickle.loads(blob)
        self.machine = state["machine"]
        clock.resume(state["clock"])
        # The table may be older than the last replica, so use a new seed to avoid reusing names.
        self.machine.seed = os.urandom(3).hex()
        self.options, self.grpc_options, self.logging = state["options"], state["grpc"], state["logging"]
        self.tracing = state["tracing"]
        self.location, self.deployed = state["location"], state["deployed"]
        self.table.version = newest.version + 1
        self.table.populated = newest.populated
        if state["listens"]:
            boxes = [
                entry.mailbox
                for each in newest.deployments.values()
                for entry in each.entries
                if entry.mailbox
            ]
            sock = await fetch_from_any(boxes)  # those of other nodes do not answer here
            self.keeper = SocketOwner(sock or listen(self.options.host, self.options.port))
            self.pool.later(self._serve_without_replicas())
        self._awake.set()
        self._memories.clear()
        self.pool.find_again()
        self.proxies.find_again()
        self.do(self.machine.restored(clock.now()))
        self.publish()
        self._tick()

    async def _recovered(self) -> None:
        if not self._awake.is_set():
            try:
                await asyncio.wait_for(self._awake.wait(), 5.0)
            except (TimeoutError, asyncio.TimeoutError):  # no process remembers the state: start empty
                self._awake.set()
                self.pool.find_again()
                self.proxies.find_again()
                self._tick()

    # -- execution

    def do(self, actions: Iterable[Action]) -> None:
        """Execute actions of the machine."""
        for action in actions:
            self.pool.take(action)

    def publish(self) -> None:
        """Publish changes to all watchers."""
        if not self.machine.changed:
            return
        self.machine.changed = False
        memory = {
            "machine": self.machine,
            "options": self.options,
            "grpc": self.grpc_options,
            "logging": self.logging,
            "tracing": self.tracing,
            "location": self.location,
            "deployed": self.deployed,
            "listens": self.keeper is not None,
            "clock": clock.mark(),
        }
        living = {one.version for record in self.machine.each() for one in record.living()}
        living |= {record.target.version for record in self.machine.each()}
        self.codes = {version: code for version, code in self.codes.items() if version in living}
        self.pool.shared.forget(living)
        self.table = table_of(self.machine, self.table, self.pool.actors)
        self.table.memory = (_packed(memory), self.codes)
        published, self._published = self._published, asyncio.Event()
        published.set()
        for event in self.settled.values():
            event.set()
        if self.server is not None:
            self.server.update(self.table)

    async def _changed(self) -> None:
        await self._published.wait()

    async def await_watchers(self) -> None:
        """Wait until every process has the current table, or fails to answer in time."""
        version = self.table.version
        until = time.monotonic() + _ACKNOWLEDGE_SECONDS
        while True:
            late = [name for name, (has, _) in self.watchers.items() if has < version]
            left = until - time.monotonic()
            if not late:
                return
            if left <= 0:
                for name in late:
                    del self.watchers[name]
                    self.demands.pop(name, None)
                return
            self._acknowledged.clear()
            try:
                await asyncio.wait_for(self._acknowledged.wait(), left)
            except (TimeoutError, asyncio.TimeoutError):
                continue

    def update_free(self) -> None:
        """Update the machine's view of free resources."""
        self.machine.free = Resources(skate.available_resources())
        if any(each.target.per_node is not None for each in self.machine.each()):
            self.machine.nodes = len(spread.nodes())

    def _tick(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self.loops += 1
        now = self.looped = clock.now()
        begun = time.perf_counter()
        self.update_free()
        if self.proxies.actors:
            self.do(self.machine.drain(spread.draining_nodes(), now))
        self.do(self.machine.tick(now))
        changed = recorded_stats.step(self, now)
        self.proxies.tick(now)
        busy = scale_decisions.step(self, now) or changed
        self.publish()
        rolling = any(
            len(each.living()) != each.want or each.next_start > now for each in self.machine.each()
        )
        self.pass_seconds = time.perf_counter() - begun
        pause = _TICK_SECONDS if busy or rolling else _IDLE_TICK_SECONDS
        self._ticking = asyncio.get_running_loop().call_later(pause, self._tick)

    # -- queries

    async def status(self) -> Any:
        """Return the result of `serve.status()`."""
        await self._recovered()
        return status_report.status(self)

    async def details(self) -> dict[str, Any]:
        """Return the complete state, as in the REST API."""
        await self._recovered()
        return status_report.details(self)

    async def ingress_of(self, app: str) -> str | None:
        """Return the ingress deployment of an application, or None if there is no such application."""
        await self._recovered()
        record = self.machine.apps.get(app)
        return None if record is None or record.deleting else record.ingress or None

    async def metrics(self) -> str:
        """Return counts, latencies, load and replicas in the Prometheus format."""
        await self._recovered()
        return await exposition.page(self)

    async def ping(self) -> int:
        """Return the process id."""
        return os.getpid()
