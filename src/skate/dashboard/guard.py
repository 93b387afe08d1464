"""The guard in front of all routes: only known hosts, origins, methods and tokens reach the application.

It allows what is known instead of denying what looks bad. CVE-2023-48022 (no token), CVE-2025-62593 (browsers recognized by a
header) and CVE-2026-27482 (a method forgotten in a list of forbidden ones) were gaps of the other approach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from skate.dashboard.access import CONTROL, READ, SUBMIT, Access, allows

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READING = frozenset({"GET", "HEAD"})
WRITING = frozenset({"POST", "PUT", "DELETE"})
#: Paths that need no token, because probes and new tabs have none. They reveal nothing but that the session lives.
OPEN = frozenset(
    {"/", "/api/healthz", "/api/gcs_healthz", "/api/local_raylet_healthz", "/api/authentication_mode"}
)
#: The files of the page, which a browser fetches without a token. They have no data of the session.
PAGE = "/page/"
#: Changes below these paths run code, or prepare that.
SUBMITTING = ("/api/jobs", "/api/packages/", "/api/serve/")
#: Reading these paths interferes with a running process.
PROFILING = ("/task/", "/worker/", "/memory_profile")
#: Packages are the only bodies that are not JSON.
PACKAGES = "/api/packages/"
PACKAGE_TYPES = frozenset({"", "application/octet-stream", "application/zip"})
#: What everybody may open by a link, also from a notebook's page: it has no data.
FRONT = "/"
#: The first word of a line about a change.
AUDIT = "audit:"
TARGET_CHARACTERS = 200
#: The scope of a request's token is found under this name by the routes.
GRANTED = "skate.scope"
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
    """An ASGI application that passes on what is allowed, and answers everything else itself.

    Args:
        audit: called with a line about each change by a client with a token, once it is answered.
    """

    def __init__(self, app: App, access: Access, audit: Callable[[str], object] | None = None) -> None:
        self._app = app
        self._access = access
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._stream(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _safe(message.get("headers", ()))
                if self._audit is not None and scope["method"] not in READING and GRANTED in scope:
                    self._audit(_line_about(scope, message["status"]))
            await send(message)

        status, reason = self.refusal(scope)
        if status:
            await _answer(safely, status, reason)
        else:
            await self._app(scope, receive, safely)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a WebSocket. It begins as a GET, and is refused as one."""
        schemes = {"ws": "http", "wss": "https"}
        status, reason = self.refusal({**scope, "method": "GET", "scheme": schemes[scope["scheme"]]}, scope)
        if not status:
            await self._app(scope, receive, send)
        elif "websocket.http.response" in scope.get("extensions", {}):
            await _answer(send, status, reason, "websocket.http.response")
        else:
            await send({"type": "websocket.close", "code": 1008})

    def refusal(self, scope: Scope, granted: Scope | None = None) -> tuple[int, str]:
        """Return the status and the reason if a request is refused; (0, "") if it is allowed.

        The scope of its token is entered into `granted`, by default into `scope`.
        """
        headers = _headers(scope)
        hosts = headers.get("host", [])
        if not scope.get("raw_path", scope["path"].encode()).startswith(b"/"):
            return 400, "the request names a whole URL"
        if len(hosts) != 1 or hosts[0].lower() not in self._access.hosts:
            return 421, ""
        origins = headers.get("origin", [])
        own = f"{scope['scheme']}://{hosts[0]}"
        if (
            origins
            and origins != [own]
            and (len(origins) > 1 or origins[0].lower() not in self._access.origins)
        ):
            return 403, "the request comes from another origin"
        method = scope["method"]
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", [])):
            if not (method in READING and scope["path"] == FRONT and _opens_a_page(headers)):
                return 403, "the request comes from another site"
        if method not in READING | WRITING:
            return 405, ""
        if method in READING and (scope["path"] in OPEN or scope["path"].startswith(PAGE)):
            return 0, ""
        changing = SUBMIT if scope["path"].startswith(SUBMITTING) else CONTROL
        reading = CONTROL if scope["path"].startswith(PROFILING) else READ
        target = scope if granted is None else granted
        refused = self._without_right(headers, reading if method in READING else changing, target)
        if refused[0] or method in READING:
            return refused
        return _body_refusal(headers, scope["path"])

    def _without_right(self, headers: dict[str, list[str]], needed: str, granted: Scope) -> tuple[int, str]:
        """Return why the token of a request does not allow it."""
        tokens = [each for name in TOKEN_HEADERS for each in headers.get(name, [])]
        if not tokens:
            return 401, ""
        kind, _, token = tokens[0].partition(" ")
        if len(tokens) > 1 or kind.lower() != "bearer":
            return 401, ""
        scope = self._access.scope_of(token.strip())
        if scope is None:
            return 403, "the token is invalid"
        if not allows(scope, needed):
            return 403, f"the token is for {scope}, but {needed} is needed"
        granted[GRANTED] = scope
        return 0, ""


def _safe(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer with those that keep it safe. Only the page has a policy of its own."""
    found = list(headers)
    named = {name for name, _ in found}
    return [*found, *(each for each in SAFETY if each[0] not in named)]


def _opens_a_page(headers: dict[str, list[str]]) -> bool:
    """Return True for a click on a link: it shows a page, of which the other site sees nothing."""
    return headers.get("sec-fetch-mode") == ["navigate"] and headers.get("sec-fetch-dest") == ["document"]


def _line_about(scope: Scope, status: int) -> str:
    """Return who has changed what, and how that was answered. The target is still encoded, so it has no line ends."""
    host, port = scope.get("client") or ("?", 0)
    target = scope.get("raw_path", b"").decode("ascii", "replace")[:TARGET_CHARACTERS]
    return f"{AUDIT} {host}:{port} {scope[GRANTED]} {scope['method']} {target} {status}"


def _body_refusal(headers: dict[str, list[str]], path: str) -> tuple[int, str]:
    """Return why the type of a body is refused. Forms of other pages can only send the types that are refused."""
    media_type = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
    if media_type == "application/json" or (path.startswith(PACKAGES) and media_type in PACKAGE_TYPES):
        return 0, ""
    is_empty = headers.get("content-length", ["0"]) == ["0"] and "transfer-encoding" not in headers
    return (0, "") if not media_type and is_empty else (415, "")


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


async def _answer(send: Send, status: int, reason: str, kind: str = "http.response") -> None:
    text = _TEXTS[status] + (f": {reason}" if reason else "")
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if kind != "http.response":
        headers += SAFETY
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": text.encode()})
