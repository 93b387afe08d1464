"""The guard in front of all routes: only known hosts, origins, methods and tokens reach the application.

It allows what is known instead of denying what looks bad. CVE-2023-48022 (no token), CVE-2025-62593 (browsers recognized by a
header) and CVE-2026-27482 (a method forgotten in a list of forbidden ones) were gaps of the other approach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from skate.dashboard.access import CONTROL, READ, Access, allows

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READING = frozenset({"GET", "HEAD"})
WRITING = frozenset({"POST", "PUT", "DELETE"})
#: Paths that need no token, because probes have none. They reveal nothing but that the session lives.
OPEN = frozenset(
    {"/api/healthz", "/api/gcs_healthz", "/api/local_raylet_healthz", "/api/authentication_mode"}
)
#: The headers with the token: the usual one, and the one that Ray's clients use behind proxies.
TOKEN_HEADERS = ("authorization", "x-ray-authorization")
SAFETY = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]  # fmt: skip
_TEXTS = {
    400: "Bad request",
    401: "Unauthorized: a token is missing; send it as `Authorization: Bearer <token>`",
    403: "Forbidden",
    405: "Method not allowed",
    415: "A body must be application/json",
    421: "This server has another name; --allowed-host adds one",
}


class Guard:
    """An ASGI application that passes on what is allowed, and answers everything else itself."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no WebSockets yet
            await send({"type": "websocket.close", "code": 1008})
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SAFETY]
            await send(message)

        status, reason = self.refusal(scope)
        if status:
            await _answer(safely, status, reason)
        else:
            await self._app(scope, receive, safely)

    def refusal(self, scope: Scope) -> tuple[int, str]:
        """Return the status and the reason if a request is refused; (0, "") if it is allowed."""
        headers = _headers(scope)
        hosts = headers.get("host", [])
        if not scope.get("raw_path", scope["path"].encode()).startswith(b"/"):
            return 400, "the request names a whole URL"
        if len(hosts) != 1 or hosts[0].lower() not in self._access.hosts:
            return 421, ""
        origins = headers.get("origin", [])
        if origins and origins != [f"{scope['scheme']}://{hosts[0]}"]:
            return 403, "the request comes from another origin"
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", [])):
            return 403, "the request comes from another site"
        method = scope["method"]
        if method not in READING | WRITING:
            return 405, ""
        if method in READING and scope["path"] in OPEN:
            return 0, ""
        refused = self._without_right(headers, READ if method in READING else CONTROL)
        if refused[0] or method in READING:
            return refused
        if headers.get("content-type", [""])[0].partition(";")[0].strip().lower() != "application/json":
            return 415, ""
        return 0, ""

    def _without_right(self, headers: dict[str, list[str]], needed: str) -> tuple[int, str]:
        """Return why the token of a request does not allow it."""
        said = [each for name in TOKEN_HEADERS for each in headers.get(name, [])]
        if not said:
            return 401, ""
        kind, _, token = said[0].partition(" ")
        if len(said) > 1 or kind.lower() != "bearer":
            return 401, ""
        scope = self._access.scope_of(token.strip())
        if scope is None:
            return 403, "the token is invalid"
        if not allows(scope, needed):
            return 403, f"the token is for {scope}, but {needed} is needed"
        return 0, ""


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


async def _answer(send: Send, status: int, reason: str) -> None:
    text = _TEXTS[status] + (f": {reason}" if reason else "")
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
