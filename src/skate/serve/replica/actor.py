"""The actor behind a replica."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import pickle
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import skate
from skate.serve import context, tracing
from skate.serve.exceptions import RequestNotAcceptedError
from skate.serve.identity import AUTOSCALING_STATS, ROUTING_STATS, DeploymentID, ReplicaID
from skate.serve.replica import figures
from skate.serve.replica.child_calls import release_of_task
from skate.serve.replica.concurrency_limiter import ConcurrencyLimiter
from skate.serve.replica.crash_responder import CrashResponder
from skate.serve.replica.order import Order
from skate.serve.replica.servable import Servable
from skate.serve.routing.counter_page import CLOSED, MICROSECONDS, CounterPage
from skate.serve.schema.tracing import TracingConfig

#: Running requests are tens of thousands of young objects. Collections after every 700 allocations took a third of the time
#: with 512 connections. A higher threshold set by user code stays.
_GC_THRESHOLD = 10_000
#: A replica is drained once it has been idle at this many looks in a row, 5 ms apart.
_IDLE_LOOKS = 6


class Replica:
    """Answers requests to one replica from handles, HTTP and the controller."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.counter_page = CounterPage()
        self.limiter = ConcurrencyLimiter(self.counter_page, order.config.max_ongoing_requests)
        self.id = ReplicaID(order.replica, DeploymentID(order.name, order.app))
        self.servable: Servable
        self.crash_responder = CrashResponder(order.app, order.name, order.replica)
        self.server: Any = None
        self.grpc: Any = None
        self._draining = False
        #: True once it is drained: later requests are refused, so that their routers choose another replica.
        self._closed = False
        #: The deployments that live in this process, with dependencies first.
        self.inside: list[Any] = []

    def __repr__(self) -> str:
        return f"<replica {self.order.replica} of {self.order.name!r} in application {self.order.app!r}>"

    async def node(self) -> str:
        """Return the id of the node that it is on."""
        node: str = skate.get_runtime_context().get_node_id()
        return node

    async def start(self, rank: context.ReplicaRank) -> dict[str, Any]:
        """Create the user's object; return the information that others need to reach it. Raise what its constructor raises."""
        order = self.order
        self.rank = rank
        if order.surroundings is not None:
            order.surroundings.take_over()
        if order.http is not None:  # before the user's code takes memory and starts threads
            await self.crash_responder.start()
        code, arguments, inside = pickle.loads(order.code)
        target = pickle.loads(code)
        args, kwargs = pickle.loads(arguments)
        self._log_setup()
        tracing.set_up(order.tracing or TracingConfig(), self.id)
        servable = self.servable = Servable(target, order.name, order.config.max_ongoing_requests)
        place = context.ReplicaContext(
            self.id,
            None,
            order.config,
            self.rank,
            order.world_size,
            order.gang,
            order.version,
        )
        context.enter_replica(place)
        figures.publish(order, self.counts)
        for each in inside:
            await self._make_inner(*each)
        await servable.make(args, kwargs)
        place.servable_object = servable.object
        await servable.reconfigure(order.config.user_config, self.rank)
        metadata = await servable.metadata()
        await servable.maybe("check_health")
        mailbox = b""
        if order.http is not None:
            from skate.serve.ingress.http_server import open_ingress  # only ingress replicas serve HTTP

            self.server = await open_ingress(self, order.http)
            mailbox = self.server.mailbox
        if order.grpc is not None:
            from skate.serve.ingress.grpc_server import open_grpc  # only if gRPC is enabled

            self.grpc = await open_grpc(self, order.grpc, order.grpc_host)
        if gc.get_threshold()[0] < _GC_THRESHOLD:
            gc.set_threshold(_GC_THRESHOLD, 20, 20)
        return {
            "pid": os.getpid(),
            "fd": self.counter_page.fd,
            "node": skate.get_runtime_context().get_node_id(),
            "node_ip": skate.util.get_node_ip_address(),
            "actor_id": skate.get_runtime_context().get_actor_id(),
            "worker_id": skate.get_runtime_context().get_worker_id(),
            "mailbox": mailbox,
            "log": self.log_path,
            "docs_path": getattr(self.server, "docs_path", None),
            "guarded": hasattr(getattr(servable.object, "api_keys", None), "has"),
            "metadata": metadata,
            "records": [
                each for each in (ROUTING_STATS, AUTOSCALING_STATS) if hasattr(servable.object, each)
            ],
        }

    async def _make_inner(self, name: str, packed: bytes, config: Any) -> None:
        """Create the object of a deployment that lives in this process."""
        from skate.serve.handle.local import Inner  # only if there are such deployments
        from skate.serve.routing import local_deployments as inside

        code, arguments, _ = pickle.loads(packed)
        target = pickle.loads(code)
        args, kwargs = pickle.loads(arguments)
        order = self.order
        servable = Servable(target, name, config.max_ongoing_requests)
        place = context.ReplicaContext(
            ReplicaID(order.replica, DeploymentID(name, order.app)),
            None,
            config,
            self.rank,
            order.world_size,
            order.gang,
            order.version,
        )
        token = context.inner.set(place)
        try:
            await servable.make(args, kwargs)
            place.servable_object = servable.object
            await servable.reconfigure(config.user_config, place.rank)
        finally:
            context.inner.reset(token)
        inner = Inner((order.app, name), servable, config, place)
        inside.keep(inner.key, inner)
        self.inside.append(inner)

    def _log_setup(self) -> None:
        from skate.serve.logs import configure  # reads the deployment's own settings

        self.logger, self.log_path = configure(self.order.config.logging_config, self.id)
        self.access_log = bool(getattr(self.logger, "access_log", False))

    # -- requests

    async def call(self, meta: tuple[str, ...], /, *args: Any, **kwargs: Any) -> Any:
        """Handle one request of a handle."""
        if self._closed:
            raise RequestNotAcceptedError(self.order.replica)
        limiter = self.limiter
        around = context.of_call(meta, self.order.name)
        context.request.set(around)
        span = tracing.of_work(meta, self.id) if around.trace is not None else None
        servable = self.servable
        started = 0.0
        failed = True
        try:
            if not limiter.enter_now():
                await limiter.enter()
            started = time.perf_counter()
            context.servable.set(servable.object)
            method = servable.method(meta[1])
            if method.is_async and not method.is_generator:
                value = await method.call(*args, **kwargs)
            else:
                value = await servable.call(method, args, kwargs)
            if inspect.isgenerator(value) or inspect.isasyncgen(value):
                raise servable.wrongly_called(method)
            failed = False
            return value
        finally:
            if started:
                self._over(meta[1], time.perf_counter() - started, failed)
            if span is not None:
                span.end(sys.exc_info()[1])
            if around.children:
                release_of_task(around.children, failed)

    async def stream(self, meta: tuple[str, ...], /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Handle one streaming request of a handle."""
        if self._closed:
            raise RequestNotAcceptedError(self.order.replica)
        limiter = self.limiter
        around = context.of_call(meta, self.order.name)
        context.request.set(around)
        span = tracing.of_work(meta, self.id) if around.trace is not None else None
        servable = self.servable
        started = 0.0
        failed = True
        try:
            if not limiter.enter_now():
                await limiter.enter()
            started = time.perf_counter()
            context.servable.set(servable.object)
            async for value in servable.stream(servable.method(meta[1]), args, kwargs):
                yield value
            failed = False
        finally:
            if started:
                self._over(meta[1], time.perf_counter() - started, failed)
            if span is not None:
                span.end(sys.exc_info()[1])
            if around.children:
                release_of_task(around.children, failed)

    def _over(self, method: str, seconds: float, failed: bool) -> None:
        self.limiter.leave(seconds, failed)
        if self.access_log:
            said = "ERROR" if failed else "OK"
            self.logger.info(
                "CALL %s %s %.1fms", method, said, seconds * 1e3, extra={"serve_access_log": True}
            )

    # -- the controller

    async def reconfigure(self, config: Any, place: context.ReplicaRank) -> None:
        """Apply settings that do not require a new replica."""
        old = self.order.config
        self.order.config = config
        if config.max_ongoing_requests != old.max_ongoing_requests:
            self.limiter.resize(config.max_ongoing_requests)
        found = context.current_replica()
        moved = found is not None and found.rank != place
        if found is not None:
            found._deployment_config = config
            found.rank = place
        if config.logging_config != old.logging_config:
            self._log_setup()
            if self.server is not None:
                self.server.app.access_log = self.access_log
        changed = config.user_config != old.user_config and config.user_config is not None
        if changed or (moved and self.servable.takes_rank):
            await self.servable.reconfigure(config.user_config, place)

    async def check(self) -> None:
        """Run the user's health check, and raise its exception."""
        for inner in self.inside:
            await inner.servable.maybe("check_health")
        await self.servable.maybe("check_health")

    async def recorded(self, method: str) -> Any:
        """Return the statistics that a method of the user's code records."""
        value = getattr(self.servable.object, method)()
        return await value if hasattr(value, "__await__") else value

    async def drain(self, timeout_s: float) -> None:
        """Finish requests in progress within `timeout_s` seconds, and destroy the user's object."""
        deadline = time.monotonic() + timeout_s
        if not self._draining:
            self._draining = True
            if self.server is not None:
                self.server.stop_accepting()
            if self.grpc is not None:
                self.grpc.stop_accepting(timeout_s)
        # A caller's thread may have chosen this replica before it was withdrawn, and send its request a little later. It
        # is answered for a moment, because there may be no other replica, and refused after that.
        looks = 0
        while looks < _IDLE_LOOKS and time.monotonic() <= deadline:
            await asyncio.sleep(0.005)
            looks = looks + 1 if self._is_idle() else 0
        self._closed = True
        if self._is_idle():
            # A request that dies with this process has not begun: its router reads that here.
            self.counter_page.cells[CLOSED] = 1
        if self.server is not None:
            self.crash_responder.stops()
        tracing.flush()
        try:
            if self.server is not None:
                await self.server.close()
                tunnels = self.server.tunnels
                while not (tunnels is None or tunnels.idle or time.monotonic() > deadline):
                    await asyncio.sleep(0.005)
            await asyncio.wait_for(self.servable.end(), max(0.1, deadline - time.monotonic()))
            for inner in reversed(self.inside):
                await asyncio.wait_for(inner.servable.end(), max(0.1, deadline - time.monotonic()))
        except Exception:  # the replica ends in any case; print the finalizer's exception
            import traceback  # only needed here

            traceback.print_exc()

    def _is_idle(self) -> bool:
        return bool(
            self.limiter.idle
            and (self.server is None or self.server.idle)
            and all(each.limiter.idle for each in self.inside)
        )

    async def metrics(self) -> dict[str, Any]:
        """Return the replica's metrics as numbers."""
        return self.counts()

    def counts(self) -> dict[str, Any]:
        """Return the replica's metrics as numbers."""
        counts = _counts(self.limiter)
        counts["inside"] = {each.key[1]: _counts(each.limiter) for each in list(self.inside)}
        if self.server is not None:
            counts["http"] = self.server.app.requests.snapshot()
        return counts

    async def grpc_next(self, stream: str) -> tuple[bool, Any]:
        """Return the next message of a gRPC request that arrives here and is answered elsewhere."""
        found: tuple[bool, Any] = await self.grpc.next(stream)
        return found

    async def tunnel(self, name: str, known: dict[str, Any]) -> AsyncIterator[Any]:
        """Serve a connection of another node; yield True, or False if it must go elsewhere, and then its bytes."""
        if self.server.tunnels is None:
            from skate.serve.proxy.tunnel import TunnelServer  # only in clusters

            self.server.tunnels = TunnelServer(self.server)
        async for data in self.server.tunnels.accept(name, known):
            yield data

    async def tunnel_data(self, name: str, data: bytes) -> bool:
        """Receive bytes of a client on another node; return False if its connection was given back."""
        taken: bool = self.server.tunnels is None or await self.server.tunnels.feed(name, data)
        return taken

    async def has_key(self, key: bytes) -> bool:
        """Return True if a key is one of the API keys of the user's object."""
        keys: Any = getattr(self.servable.object, "api_keys", None)
        return bool(hasattr(keys, "has") and keys.has(key))

    async def live(self) -> None:
        """Never return: callers notice when the process ends."""
        await asyncio.get_running_loop().create_future()


def _counts(limiter: ConcurrencyLimiter) -> dict[str, Any]:
    names = ("ongoing", "waiting", "started", "failed")
    counts: dict[str, Any] = {name: limiter.cells[at] for at, name in enumerate(names)}
    return {**counts, "microseconds": limiter.cells[MICROSECONDS], "classes": list(limiter.classes)}
