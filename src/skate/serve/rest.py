"""The REST API: `/api/serve/applications/`, with a bearer token, on an address of its own.

GET     the complete state
PUT     serve exactly the config in the body
DELETE  delete all applications

and POST `/api/v1/applications/{app}/deployments/{deployment}/scale` with `{"target_num_replicas": n}`.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import skate
from skate.serve import api, config_loader
from skate.serve.identity import NAMESPACE
from skate.serve.routing import watch

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_PATH = "/api/serve/applications/"
_BODY_BYTES_MAX = 16 << 20
#: Additional host names under which the API may be accessed.
HOSTS_VARIABLE = "SKATE_SERVE_ALLOWED_HOSTS"
#: The actor that serves the API on a standing node.
ACTOR_NAME = "SERVE_REST_API"
_START_SECONDS = 20.0


class Api:
    """The REST API as an ASGI application."""

    def __init__(self, token: str, host: str = "127.0.0.1") -> None:
        if not token:
            raise ValueError(
                "the REST API requires a token, because its clients can run any code on this machine"
            )
        self._token = token.encode()
        more = os.environ.get(HOSTS_VARIABLE, "").split(",")
        names = [host, "localhost", socket.gethostname(), socket.getfqdn(), *more]
        self._hosts = frozenset(each.strip().lower() for each in names if each.strip())
        #: Allow one change at a time, because concurrent configs would be mixed.
        self._changing = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        reason = self._rejection_of(headers)
        if reason:
            await _answer(send, 403, {"error": reason})
            return
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + self._token):
            await _answer(send, 401, {"error": "a bearer token is required: Authorization: Bearer ..."})
            return
        parts, size = [], 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > _BODY_BYTES_MAX:
                await _answer(send, 413, {"error": f"the body is larger than {_BODY_BYTES_MAX} bytes"})
                return
        body = b"".join(parts)
        loop = asyncio.get_running_loop()
        status, answer = await loop.run_in_executor(None, self._act, scope["method"], scope["path"], body)
        await _answer(send, status, answer)

    def _rejection_of(self, headers: dict[bytes, bytes]) -> str:
        """Return why a request is rejected; empty if it is not. This protects from web pages that redirect
        their own name here, or send requests from their own site.
        """
        for name in (b"host", b"origin"):
            host = headers.get(name, b"").decode("latin-1")
            if host and not self._known(host.partition("://")[2] if name == b"origin" else host):
                return f"{name.decode()} {host!r:.100} is not an allowed host; add hosts to {HOSTS_VARIABLE}, separated by commas"
        return ""

    def _known(self, place: str) -> bool:
        """Return True for names of this machine, and for IP addresses, which DNS cannot redirect."""
        host = place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host.lower() in self._hosts
        return True

    def _act(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if method == "GET":
            return act(method, path, body)
        with self._changing:
            return act(method, path, body)


def act(method: str, path: str, body: bytes) -> tuple[int, Any]:
    """Execute a request; return status and response."""
    try:
        if path.rstrip("/") == _PATH.rstrip("/"):
            if method == "GET":
                return 200, details()
            if method == "PUT":
                config_loader.deploy(config_loader.checked(json.loads(body)), apart=True)
                return 200, {}
            if method == "DELETE":
                api.shutdown()
                return 200, {}
            return 405, {"error": f"the method must be GET, PUT or DELETE, got {method}"}
        words = path.strip("/").split("/")
        if len(words) == 7 and words[4] == "deployments" and words[6] == "scale":
            if method != "POST":
                return 405, {"error": f"the method must be POST, got {method}"}
            return _scale(words[3], words[5], json.loads(body))
    except RecursionError:
        return 400, {"error": "the JSON of the body is nested too deeply"}
    except ValueError as error:  # invalid JSON or an invalid config
        where = getattr(error, "where", ())
        field = {"field": config_loader.spelt(where)} if where else {}
        return 400, {"error": f"validation error: {error}", **field}
    except Exception as error:  # the deployed code may raise anything
        return 500, {
            "error": str(error) if type(error) is RuntimeError else f"{type(error).__name__}: {error}"
        }
    return 404, {"error": f"the API has no path {path}; use {_PATH}"}


def details() -> dict[str, Any]:
    """Return the complete state; an instance without applications if Serve is not running."""
    from skate.serve.schema.details import ServeInstanceDetails  # rarely needed

    try:
        controller = watch.controller()
    except ValueError:
        return ServeInstanceDetails.get_empty_schema_dict()
    found: dict[str, Any] = skate.get(controller.details.remote())
    return found


def _scale(app: str, deployment: str, body: Any) -> tuple[int, Any]:
    want = body.get("target_num_replicas") if isinstance(body, dict) else None
    if isinstance(want, bool) or not isinstance(want, int) or want < 0:
        return 400, {"error": f"target_num_replicas must be an integer >= 0, got {want!r}"}
    apps = details()["applications"]
    if app not in apps or deployment not in apps[app]["deployments"]:
        return 404, {"error": f"there is no deployment {deployment!r} in application {app!r}"}
    if not apps[app]["external_scaler_enabled"]:
        return 412, {
            "error": f"application {app!r} was deployed without external_scaler_enabled, so it cannot be "
            "scaled externally"
        }
    skate.get(watch.controller().scale.remote(app, deployment, want))
    return 200, {"message": f"scaling {deployment!r} of {app!r} to {want} replicas"}


async def _answer(send: Send, status: int, answer: Any) -> None:
    body = json.dumps(answer, default=str).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class RestServer:
    """Serves the API in a thread of this process until `close`. Raises RuntimeError if the port is in use."""

    def __init__(self, token: str, host: str = "127.0.0.1", port: int = 8265) -> None:
        from skate.serve.ingress.sockets import listen
        from skate.util.http.bounded_server import (  # imported only if the API is requested
            QuietServer,
            configured,
        )

        served = Api(token, host)
        self._sock = listen(host, port, "the REST API", "another --rest-port")
        self.port: int = self._sock.getsockname()[1]
        # Not uvloop, because this may be a user's process, and uvloop leaves a pipe open.
        self._server = QuietServer(configured(served, loop="asyncio"))
        self._thread = threading.Thread(
            target=self._server.run, args=([self._sock],), name="skate-serve-rest", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self._server.should_exit = True
        self._thread.join(10)
        self._sock.close()


class RestActor:
    """Serves the API as long as its node runs."""

    def __init__(self, token: str, host: str, port: int) -> None:
        self._server = RestServer(token, host, port)

    def port(self) -> int:
        """The listening port."""
        return self._server.port


def have_a_node_answer(token: str, host: str, port: int) -> int:
    """Serve the API on this session's node from now on; return the port. Raises RuntimeError if the port is
    in use.
    """
    made: Any = skate.remote(RestActor)
    actor = made.options(
        name=ACTOR_NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=8,
    ).remote(token, host, port)
    try:
        found: int = skate.get(actor.port.remote(), timeout=_START_SECONDS)
    except Exception as error:  # the cause is the constructor's error, however it is wrapped
        skate.kill(actor)
        raise RuntimeError(str(config_loader.cause_of(error))) from None
    return found
