"""The ASGI application of an ingress replica, between uvicorn and the user's code."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import logging
import os
import time
from collections.abc import Iterable
from typing import Any

from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from skate.serve import context, metrics_http, tracing
from skate.serve.config.http import HTTPOptions
from skate.serve.exceptions import BackPressureError, DeploymentUnavailableError
from skate.serve.ingress.deadlines import Timer
from skate.serve.ingress.dispatcher import GUARDED, Dispatcher
from skate.serve.ingress.exchange import Exchange, unsupported_charset
from skate.serve.ingress.lifespan import Lifespan
from skate.serve.ingress.middlewares import called_for
from skate.serve.ingress.request_headers import NOTED, Noted, context_of, is_watched, time_limit
from skate.serve.ingress.response_encoder import TEXT, encoded
from skate.serve.logs import LOGGER
from skate.serve.replica.child_calls import release
from skate.serve.replica.order import ReplicaPort
from skate.serve.replica.servable import Method
from skate.serve.routing import watch
from skate.serve.routing.table import Route, Table

#: The most common types of responses, which need no closer inspection.
_CONTENT = frozenset((str, bytes, dict, list, int))


class Ingress:
    """Answers HTTP and WebSocket requests of one application, and requests for Serve's own paths."""

    def __init__(self, replica: ReplicaPort, dispatcher: Dispatcher, options: HTTPOptions) -> None:
        self.replica = replica
        self.dispatcher = dispatcher
        self.options = options
        self.limiter = replica.limiter
        self.servable = replica.servable
        self.order = replica.order
        self.logger = logging.getLogger(LOGGER)
        self.access_log = getattr(self.logger, "access_log", False)
        self.asgi: Any = None
        #: The user's ASGI application or the plain call, inside the middlewares.
        self.app: Any = self._plain
        own, numbers = os.urandom(8).hex(), itertools.count()
        #: Unique ids: a random part for each replica, and a counter.
        self.new_id = lambda: f"{own}{next(numbers):016x}"
        self.body_max: int | None = options.max_request_body_bytes
        self.docs_path: str | None = None
        self._lifespan: Lifespan | None = None
        self._method: Method | None = None
        #: The API keys of the user's object, or None.
        self.keys: Any = (
            None if self.servable.is_function else getattr(self.servable.object, "api_keys", None)
        )
        if not hasattr(self.keys, "has"):
            self.keys = None
        self.requests = metrics_http.Requests(self.order.app, self.order.name)

    async def begin(self) -> None:
        """Detect the kind of the user's code, and start it if it is an ASGI application."""
        from skate.serve.ingress.views import application_of  # imports FastAPI only if it is used

        self.asgi = await application_of(self.servable)
        if self.asgi is not None:
            self.docs_path = getattr(self.asgi, "docs_url", None)
            self._lifespan = Lifespan(self.asgi)
            context.servable.set(self.servable.object)
            await self._lifespan.startup()
            self.app = self.asgi
        for layer in reversed([*self.options.middlewares, *called_for()]):
            self.app = layer.cls(self.app, *layer.args, **layer.kwargs)

    async def end(self) -> None:
        """Shut down the ASGI application."""
        if self._lifespan is not None:
            await self._lifespan.shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith("/-/"):
            if path in GUARDED and not self._may_view_status(scope):
                await _text(send, 401, "an API key is required: Authorization: Bearer ...")
            else:
                await system_path(self.dispatcher.table, path, send)
            return
        route = self.dispatcher.table.match(path)
        if route is None or route.app != self.order.app:
            await _refuse(scope, send, route, path)
            return
        prefix = route.prefix if route.prefix != "/" else ""
        root = self.options.root_path
        if prefix or root:
            scope["root_path"] = root + prefix
            if root:
                scope["path"] = root + path
        await self._request(scope, receive, send, route.prefix)

    def _may_view_status(self, scope: Scope) -> bool:
        """Return True if the client may see status pages: it needs one of the API keys, if there are any."""
        keys = self.keys
        if not keys:
            return True
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        kind, _, key = given.partition(b" ")
        return kind.lower() == b"bearer" and bool(keys.has(key.strip()))

    async def _request(self, scope: Scope, receive: Receive, send: Send, prefix: str) -> None:
        started = time.perf_counter()
        self.requests.open += 1
        headers = scope["headers"]
        noted = [header for header in headers if header[0] in NOTED]
        around = context_of(noted, prefix, self.order, self.new_id)
        context.request.set(around)
        exchange = Exchange(receive, send, around.request_id, self.body_max)
        timer = self._begin(receive, noted)
        span = tracing.of_request(scope, around, self.replica.id) if tracing.active() else None
        limiter = self.limiter
        entered = 0.0
        ended = False
        try:
            if self.body_max is not None and exchange.announced_too_large(headers):
                await exchange.refuse_body()
                return
            if noted and (charset := unsupported_charset(noted)) is not None:
                await exchange.text(400, f"multipart forms in the charset {charset!r} are not supported")
                return
            if not limiter.enter_now():
                if limiter.full:
                    self._refuse_if_too_many()
                await limiter.enter()
            entered = time.perf_counter()
            context.servable.set(self.servable.object)
            if self._lifespan is not None and self._lifespan.state:
                scope["state"] = {**scope.get("state", {}), **self._lifespan.state}
            await self.app(scope, exchange.asgi_receive, exchange.send)
            ended = True
        except asyncio.CancelledError:
            if timer is None or not timer.late:
                exchange.status = exchange.status or 499  # the client disconnected
                return
            if not exchange.status:
                body = f"Request {around.request_id} timed out after {timer.seconds}s."
                await exchange.text(408, body)
        except Exception as error:  # user code may raise anything; the client gets a response
            await self._failed(scope, exchange, error)
            if span is not None:
                span.end(error, exchange.status)
                span = None
        finally:
            now = time.perf_counter()
            if entered:
                limiter.leave(now - entered, not ended or exchange.status >= 500)
            if timer is not None:
                timer.cancel()
            if around.children:
                release(around.children, not ended)
            if span is not None:
                span.end(None, exchange.status)
            self.requests.done(scope, prefix, exchange.status, now - started)
            if self.access_log:
                what = scope.get("method", "WS")
                path = on_one_line(scope["path"])
                took = (now - started) * 1e3
                self.logger.info(
                    "%s %s %s %.1fms", what, path, exchange.status, took, extra={"serve_access_log": True}
                )

    def _refuse_if_too_many(self) -> None:
        config = self.order.config
        if 0 <= config.max_queued_requests <= self.limiter.waiting:
            pressure = config.backpressure_config
            raise BackPressureError(
                self.limiter.waiting, config.max_queued_requests, pressure.status_code, pressure.retry_after_s
            )

    def _begin(self, receive: Receive, noted: Noted) -> Timer | None:
        """Arrange for the request to be cancelled when its client disconnects or its time is up."""
        task = asyncio.current_task()
        assert task is not None
        cycle = getattr(receive, "__self__", None)
        if cycle is not None and (not noted or is_watched(noted)):
            try:
                cycle.serve_task = task
            except AttributeError:  # a protocol with slots
                pass
        limit = self.options.request_timeout_s
        if noted:
            limit = time_limit(noted, limit)
        return None if limit is None else Timer(limit, task)

    async def _plain(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call a class or function that takes a Request and returns the response's content."""
        if scope["type"] == "websocket":
            self.logger.warning("rejected a WebSocket: %s is not an ASGI application", self.order.name)
            await send(
                {
                    "type": "websocket.close",
                    "code": 1008,
                    "reason": "this application does not accept WebSockets",
                }
            )
            return
        method = self._method
        if method is None:
            method = self._method = self.servable.method("__call__")
        arguments = (Request(scope, receive, send),) if method.takes_request else ()
        if method.is_generator:
            value: Any = method.call(*arguments)
        elif method.is_async:
            value = await method.call(*arguments)
        else:
            value = await self.servable.call(method, arguments, {})
        if type(value) not in _CONTENT:
            if isinstance(value, Response):
                await value(scope, receive, send)
                return
            if inspect.isgenerator(value) or inspect.isasyncgen(value):
                await self._streamed(value, send)
                return
        kind, body = encoded(value)
        exchange = getattr(send, "__self__", None)
        if type(exchange) is Exchange:
            await exchange.answer(200, kind, body)
        else:  # a middleware stands between
            await _simple(send, 200, body, kind)

    async def _streamed(self, generator: Any, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", TEXT)]}
        begun = False
        async for each in self.servable.values(generator):
            if not begun:
                begun = True
                await send(start)
            body = each.encode() if isinstance(each, str) else encoded(each)[1]
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if not begun:
            await send(start)
        await send({"type": "http.response.body", "body": b""})

    async def _failed(self, scope: Scope, exchange: Exchange, error: Exception) -> None:
        if exchange.too_large:
            await exchange.refuse_body()
        elif scope["type"] == "websocket":
            self.logger.error("the WebSocket failed", exc_info=error)
            await exchange.send({"type": "websocket.close", "code": 1011, "reason": "Internal Server Error"})
        elif exchange.status:
            self.logger.error("the request failed after its response had begun", exc_info=error)
        elif isinstance(error, BackPressureError):
            retry = max(1, round(error.retry_after_s or 1))
            await exchange.text(error.status_code, error.message, [(b"retry-after", str(retry).encode())])
        elif isinstance(error, DeploymentUnavailableError):
            await exchange.text(503, error.message, [(b"retry-after", b"1")])
        elif isinstance(error, MultiPartException):
            await exchange.text(400, error.message)
        else:
            self.logger.error("the request failed", exc_info=error)
            await exchange.text(500, "Internal Server Error")


def on_one_line(path: str) -> str:
    """Return a path for the log, escaped so that it cannot add lines of its own."""
    return path if path.isprintable() else repr(path)


async def _simple(
    send: Send, status: int, body: bytes, kind: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    named = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": body})


async def _text(send: Send, status: int, text: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    await _simple(send, status, text.encode(), TEXT, headers)


async def system_path(table: Table, path: str, send: Send) -> None:
    """Answer a request for one of Serve's own paths."""
    if path == "/-/healthz":
        if table.populated:
            await _text(send, 200, "success")
        else:
            await _text(send, 503, "Route table is not populated yet.")
    elif path == "/-/metrics":
        try:
            text = await watch.current().controller.metrics.remote()
        except Exception:  # the controller is restarting, or this is its own server
            await _text(
                send,
                503,
                "the controller is not responding now; try again in a moment",
                [(b"retry-after", b"1")],
            )
        else:
            await _text(send, 200, text)
    elif path == "/-/routes":
        body = json.dumps(
            {route.prefix: route.app for route in sorted(table.routes, key=lambda each: each.prefix)}
        )
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        await send({"type": "http.response.body", "body": body.encode()})
    else:
        await _text(
            send, 404, f"Serve has no path {path!r}; its paths are /-/healthz, /-/routes and /-/metrics"
        )


async def _refuse(scope: Scope, send: Send, route: Route | None, path: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": f"nothing is served at {path}"})
    elif route is None:
        await _text(send, 404, f"Path '{path}' not found. Ping http://.../-/routes for available routes.")
    else:
        text = f"this connection now belongs to another application; send the request for {path} on a new one"
        await _text(send, 421, text, [(b"connection", b"close")])


class EmptyApplication:
    """The application of a server without applications: Serve's own paths, and 404."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith("/-/") and scope["type"] == "http":
            await system_path(self.dispatcher.table, path, send)
        else:
            await _refuse(scope, send, self.dispatcher.table.match(path), path)
