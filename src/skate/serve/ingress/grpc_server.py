"""gRPC inside ingress replicas: all listen on one port, and the metadata key `application` selects the application."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc import aio

import skate
from skate.serve import context, tracing
from skate.serve.code.import_path import load
from skate.serve.config.http import gRPCOptions
from skate.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RayServeException,
    RequestCancelledError,
    gRPCStatusError,
)
from skate.serve.grpc_util import RayServegRPCContext
from skate.serve.handle.handle import DeploymentHandle
from skate.serve.ingress.deadlines import Timer
from skate.serve.replica.child_calls import release
from skate.serve.replica.grpc_method import PREFIX, RemoteMessages
from skate.serve.replica.order import ReplicaPort
from skate.serve.routing import watch

OWN_SERVICE = "ray.serve.RayServeAPIService"
_NO_KEY = (
    "ListApplications requires an API key, because an application has API keys: send it as metadata "
    "`authorization: Bearer KEY`"
)
#: The maximum length of error texts, which travel in a trailer with its own limit.
_DETAILS_MAX = 4096


class _Stub:
    """Placeholder for the user's servicer while its methods are collected."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__call__":
            raise AttributeError(name)
        return name


class _Collected:
    """Placeholder for the server: collects the handlers that generated code adds, by service and method."""

    def __init__(self) -> None:
        self.services: dict[str, dict[str, Any]] = {}
        self.others: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Collect handlers; called by all generated code."""
        for each in handlers:
            methods = getattr(each, "_method_handlers", None)
            if methods is None:
                self.others.append(each)
                continue
            for full, handler in methods.items():
                _, service, method = full.split("/")
                self.services.setdefault(service, {})[method] = handler

    def add_registered_method_handlers(self, service: str, methods: dict[str, Any]) -> None:
        """Collect handlers; called also by newer generated code."""
        self.services.setdefault(service, {}).update(methods)


def _variable(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text else otherwise


#: Limits for clients: bytes of a message, bytes of metadata, concurrent streams on a connection.
_OPTIONS = [
    ("grpc.so_reuseport", 1),
    ("grpc.max_receive_message_length", _variable("SKATE_SERVE_GRPC_MAX_MESSAGE_BYTES", 4 << 20)),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.max_concurrent_streams", _variable("SKATE_SERVE_GRPC_MAX_STREAMS", 1000)),
]


class GrpcServer:
    """The gRPC side of one replica."""

    def __init__(self, replica: ReplicaPort, options: gRPCOptions) -> None:
        self.replica = replica
        self.options = options
        self.server = aio.server(options=_OPTIONS)
        self._own = (replica.order.app, replica.order.name)
        #: Streaming requests that other processes read through this one.
        self.streams: dict[str, Any] = {}
        self._ingresses: dict[str, tuple[int, str | None]] = {}
        collected = _Collected()
        for each in options.grpc_servicer_functions:
            add = load(each) if isinstance(each, str) else each
            add(_Stub(), collected)
        for service, methods in collected.services.items():
            made = {name: self._handler(service, name, handler) for name, handler in methods.items()}
            self._add(service, made)
        if collected.others:
            self.server.add_generic_rpc_handlers(tuple(collected.others))
        self._add_own(list(collected.services))

    def _add(self, service: str, handlers: dict[str, Any]) -> None:
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    def _handler(self, service: str, name: str, method: Any) -> Any:
        async def one(request: Any, call_context: aio.ServicerContext[Any, Any]) -> Any:
            answer = None
            async for value in self._answers(service, name, request, call_context, False):
                answer = value
            return answer

        async def many(request: Any, call_context: aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            async for value in self._answers(service, name, request, call_context, True):
                yield value

        kinds: dict[tuple[bool, bool], Callable[..., Any]] = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        make = kinds[bool(method.request_streaming), bool(method.response_streaming)]
        behaviour = many if method.response_streaming else one
        return make(behaviour, method.request_deserializer, method.response_serializer)

    def _add_own(self, services: list[str]) -> None:
        """Health, the list of applications, and reflection where its package is installed."""

        def text(value: str) -> bytes:  # one string field, number 1
            data = value.encode()
            size, length = b"", len(data)
            while length > 127:
                size, length = size + bytes([length & 127 | 128]), length >> 7
            return b"\x0a" + size + bytes([length]) + data

        async def healthz(request: bytes, call_context: aio.ServicerContext[Any, Any]) -> bytes:
            return text("success")

        async def applications(request: bytes, call_context: aio.ServicerContext[Any, Any]) -> bytes:
            if not await self._may_know(dict(call_context.invocation_metadata() or ())):
                await call_context.abort(grpc.StatusCode.UNAUTHENTICATED, _NO_KEY)
            return b"".join(text(name) for name in self._applications())

        methods = {"Healthz": healthz, "ListApplications": applications}
        handlers = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in methods.items()}
        self._add(OWN_SERVICE, handlers)
        if not self.options.enable_reflection:
            return
        try:
            from grpc_reflection.v1alpha import reflection  # optional

            import skate.serve.generated.serve_pb2  # noqa: F401  for the reflection of Serve's own service
        except ImportError:  # clients then need their own descriptions
            return
        reflection.enable_server_reflection((*services, OWN_SERVICE, reflection.SERVICE_NAME), self.server)

    async def start(self) -> None:
        """Start listening, once the table of applications is known."""
        loop = asyncio.get_running_loop()
        known = asyncio.Event()

        def know(_: Any) -> None:
            loop.call_soon_threadsafe(known.set)

        watch.current().on_change(know)
        await known.wait()
        await self.server.start()

    def stop_accepting(self, grace_s: float) -> None:
        """Finish requests in progress, and accept no more."""
        self._stopping = asyncio.get_running_loop().create_task(self.server.stop(grace_s))

    async def next(self, stream: str) -> tuple[bool, Any]:
        """Return the next message of a request that another process answers, or (False, None) at its end."""
        messages = self.streams.get(stream)
        if messages is None:
            return False, None
        try:
            return True, await messages.__anext__()
        except StopAsyncIteration:
            return False, None

    # -- requests

    async def _answers(
        self,
        service: str,
        method: str,
        request: Any,
        call_context: aio.ServicerContext[Any, Any],
        stream: bool,
    ) -> AsyncIterator[Any]:
        """Yield the responses to one request; turn errors into its status."""
        metadata = dict(call_context.invocation_metadata() or ())
        request_id = metadata.get("request_id") or os.urandom(16).hex()
        call_context.set_trailing_metadata((("request_id", request_id),))
        around = context.RequestContext(
            request_id, method, metadata.get("application", ""), metadata.get("multiplexed_model_id", ""),
            metadata.get("session_id", ""), set(),
        )  # fmt: skip
        limit = self.options.request_timeout_s
        timer = None if limit is None else Timer(limit, asyncio.current_task())
        values = None
        span = wrong = None
        failed = True
        try:
            app = await self._chosen(metadata.get("application", ""), metadata)
            around = around._replace(app_name=app)
            context.request.set(around)
            if tracing.active():
                span = tracing.of_rpc(service, method, metadata, around, self.replica.id)
            grpc_context = RayServegRPCContext(call_context)
            values = await self._values(app, method, request, grpc_context, stream, around)
            async for value, ended in values:
                if ended is not None:
                    ended._set_on_grpc_context(call_context)
                if not stream or ended is None:
                    yield value
            failed = False
        except aio.AbortError as error:
            wrong = error
            raise
        except asyncio.CancelledError:
            if timer is None or not timer.late:
                raise  # the client disconnected
            text = f"the request took longer than {limit} s"
            await call_context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text, (("request_id", request_id),))
        except Exception as error:  # user code may raise anything; the client gets a status
            wrong = error
            code, text = status_of(error)
            await call_context.abort(code, text[:_DETAILS_MAX], (("request_id", request_id),))
        finally:
            if timer is not None:
                timer.cancel()
            if values is not None:
                await values.aclose()
            release(around.children, failed)
            if span is not None:
                span.end_rpc(wrong, _number_of(call_context.code(), failed))

    def _applications(self) -> list[str]:
        return sorted({app for app, _ in watch.current().table.deployments})

    async def _may_know(self, metadata: dict[str, Any]) -> bool:
        """Return True if a request may list the applications: if there are API keys, it needs one."""
        deployments = list(watch.current().table.deployments.values())
        holders = [
            next((each for each in deployment.entries if each.guarded), None) for deployment in deployments
        ]
        if not any(holders) and not any(deployment.guarded for deployment in deployments):
            return True
        kind, _, key = str(metadata.get("authorization", "")).partition(" ")
        if kind.lower() != "bearer":
            return False
        lookups = [each.actor.has_key.remote(key.strip().encode()) for each in holders if each is not None]
        return any(await asyncio.gather(*lookups))

    async def _chosen(self, named: str, metadata: dict[str, Any]) -> str:
        """Return the application of a request. Raise gRPCStatusError if it is unknown, or not named and there are several."""
        apps = self._applications()
        if named in apps:
            return named
        if not named and len(apps) == 1:
            return apps[0]
        if named:
            what = f"Application '{named}' not found. There is no such application"
        else:
            what = "Application metadata not set. The metadata key `application` is missing"
        names = (
            f"; the applications are: {', '.join(apps) or 'none'}" if await self._may_know(metadata) else ""
        )
        text = f"{what}{names}. Ping /{OWN_SERVICE}/ListApplications for available applications."
        raise gRPCStatusError(RayServeException(text), grpc.StatusCode.NOT_FOUND, text)

    async def _values(
        self,
        app: str,
        name: str,
        request: Any,
        grpc_context: RayServegRPCContext,
        stream: bool,
        around: context.RequestContext,
    ) -> Any:
        deployment = watch.current().table.deployments.get(self._own)
        others = deployment is not None and len(deployment.entries) > 1
        limiter = self.replica.limiter
        if app == self._own[0] and not (others and (limiter.full or around.multiplexed_model_id)):
            return self._here(name, request, grpc_context, stream)
        return self._elsewhere(await self._ingress(app), app, name, request, grpc_context, stream, around)

    async def _here(
        self, name: str, request: Any, grpc_context: RayServegRPCContext, stream: bool
    ) -> AsyncIterator[Any]:
        replica = self.replica
        limiter, config = replica.limiter, replica.order.config
        if limiter.full and 0 <= config.max_queued_requests <= limiter.waiting:
            raise BackPressureError(limiter.waiting, config.max_queued_requests)
        await limiter.enter()
        started, failed = time.perf_counter(), True
        try:
            context.servable.set(replica.servable.object)
            method = replica.servable.method(f"{PREFIX}{'stream' if stream else 'unary'}:{name}")
            if stream:
                async for each in method.call(request, grpc_context):
                    failed = each[1] is None
                    yield each
            else:
                answer = await method.call(request, grpc_context)
                failed = False
                yield answer
        finally:
            limiter.leave(time.perf_counter() - started, failed)

    async def _elsewhere(
        self,
        ingress: str,
        app: str,
        name: str,
        request: Any,
        grpc_context: RayServegRPCContext,
        stream: bool,
        around: context.RequestContext,
    ) -> AsyncIterator[Any]:
        handle = DeploymentHandle(ingress, app).options(
            method_name=f"{PREFIX}{'stream' if stream else 'unary'}:{name}",
            stream=stream,
            multiplexed_model_id=around.multiplexed_model_id,
            session_id=around.session_id,
        )
        number = ""
        if hasattr(request, "__anext__"):
            number = os.urandom(8).hex()
            self.streams[number] = request
            request = RemoteMessages(skate.get_runtime_context().current_actor, number)
        try:
            answer = handle.remote(request, grpc_context)
            if stream:
                async for each in answer:
                    yield each
            else:
                yield await answer
        finally:
            self.streams.pop(number, None)

    async def _ingress(self, app: str) -> str:
        version = watch.current().table.version
        known = self._ingresses.get(app)
        if known is None or known[0] != version:
            found = await watch.current().controller.ingress_of.remote(app)
            known = self._ingresses[app] = version, found
        if known[1] is None:
            raise gRPCStatusError(
                RayServeException(app), grpc.StatusCode.NOT_FOUND, f"the application {app!r} has ended"
            )
        return known[1]


def _number_of(code: Any, failed: bool) -> int:
    """Return the number of a request's status; CANCELLED if it ended without one."""
    number: int = code.value[0] if isinstance(code, grpc.StatusCode) else code or 0
    return number or (grpc.StatusCode.CANCELLED.value[0] if failed else 0)


def status_of(error: BaseException) -> tuple[Any, str]:
    """Return the gRPC status and text for an error."""
    cause = getattr(error, "cause", None)
    shown = cause if isinstance(cause, BaseException) else error
    codes = grpc.StatusCode
    if isinstance(shown, gRPCStatusError):
        return shown.grpc_code or codes.INTERNAL, shown.grpc_details or str(shown)
    if isinstance(shown, (TimeoutError, asyncio.TimeoutError)):
        return codes.DEADLINE_EXCEEDED, str(shown) or "the request took too long"
    if isinstance(shown, BackPressureError):
        return codes.RESOURCE_EXHAUSTED, shown.message
    if isinstance(shown, DeploymentUnavailableError):
        return codes.UNAVAILABLE, shown.message
    if isinstance(shown, RequestCancelledError):
        return codes.CANCELLED, str(shown)
    return codes.INTERNAL, f"{type(shown).__name__}: {shown}"


async def open_grpc(replica: ReplicaPort, options: gRPCOptions, host: str | None) -> GrpcServer:
    """Serve gRPC in a replica. Raise RuntimeError, which names the port, if it is taken."""
    made = GrpcServer(replica, options)
    where = f"[{host}]" if host and ":" in host else host or "0.0.0.0"
    try:
        made.server.add_insecure_port(f"{where}:{options.port}")
    except RuntimeError as error:
        raise RuntimeError(f"Serve cannot listen on {where}:{options.port} for gRPC: {error}") from None
    await made.start()
    return made
