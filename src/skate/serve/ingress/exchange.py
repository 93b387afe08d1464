"""One request over HTTP or WebSocket: observes sent messages, and received ones if bodies are limited."""

from __future__ import annotations

import re
from collections.abc import Iterable
from encodings.aliases import aliases
from typing import Any

from starlette.types import Message, Receive, Send

from skate.serve.ingress.response_encoder import TEXT

try:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
except ImportError:  # h11 has its own states, and learns about a response from uvicorn only
    RequestResponseCycle = None  # type: ignore[assignment, misc]

REQUEST_HEADER = b"x-request-id"


class BodyTooLarge(Exception):
    """The body of a request exceeds the configured limit."""


class Exchange:
    """The ASGI `receive` and `send` of one request, with its status."""

    __slots__ = (
        "_cycle",
        "_inner_receive",
        "_inner_send",
        "_joining",
        "_limit",
        "_named",
        "_read",
        "status",
        "too_large",
    )

    def __init__(self, receive: Receive, send: Send, request_id: str, limit: int | None) -> None:
        self._inner_receive = receive
        self._inner_send = send
        self._named = (REQUEST_HEADER, request_id.encode("latin-1"))
        self._cycle = getattr(receive, "__self__", None)
        self._joining = getattr(self._cycle, "transport", None)
        self._limit = limit
        self._read = 0
        #: The status of the response; 0 until it begins.
        self.status = 0
        #: The reason why the body is refused, or empty.
        self.too_large = ""

    @property
    def asgi_receive(self) -> Receive:
        """The `receive` callable for the application."""
        return self._inner_receive if self._limit is None else self.receive

    async def send(self, message: Message) -> None:
        """Forward a message of the application."""
        kind = message["type"]
        if kind == "http.response.start":
            if self.too_large:
                await self.refuse_body()
                return
            self.status = message["status"]
            headers = message.get("headers")
            message["headers"] = [*headers, self._named] if headers else [self._named]
            if self._joining is not None:
                self._joining.hold(True)
        elif self.too_large:
            return
        elif kind == "websocket.accept":
            self.status = 101
        elif kind == "websocket.close" and not self.status:
            self.status = 403
        await self._inner_send(message)

    async def answer(
        self, status: int, kind: bytes, body: bytes, more: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send a complete response."""
        if self.too_large and status != 413:
            await self.refuse_body()
            return
        self.status = status
        if status == 200 and not more and send_whole(self._cycle, self._named[1], kind, body):
            return
        joining = self._joining
        if joining is not None:
            joining.hold(False)
        headers = [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", kind),
            self._named,
            *more,
        ]
        try:
            await self._inner_send({"type": "http.response.start", "status": status, "headers": headers})
            await self._inner_send({"type": "http.response.body", "body": body})
        finally:
            if joining is not None:
                joining.flush()

    async def text(self, status: int, text: str, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Answer with plain text."""
        await self.answer(status, TEXT, text.encode(), more)

    # -- bodies that are too long

    def announced_too_large(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """True if the request's headers announce a body over the limit."""
        limit = self._limit
        if limit is None:
            return False
        for name, value in headers:
            if name == b"content-length":
                try:
                    size = int(value)
                except ValueError:  # invalid HTTP, which the server below reports
                    return False
                if size > limit:
                    self.too_large = f"the body of the request has {size:,} bytes"
                    return True
        return False

    async def receive(self) -> Message:
        """Receive a message. Raise BodyTooLarge if the body exceeds its limit."""
        if self.too_large:
            raise BodyTooLarge(self.too_large)
        message = await self._inner_receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            assert self._limit is not None
            if self._read > self._limit:
                self.too_large = f"the body of the request has {self._read:,} bytes so far"
                raise BodyTooLarge(self.too_large)
        return message

    async def refuse_body(self) -> None:
        """Respond with 413, once, and stop reading the body."""
        if self.status:
            return
        if self._joining is not None:
            self._joining.linger()
        message = f"{self.too_large}, but this server accepts at most {self._limit:,}"
        await self.text(413, message, [(b"connection", b"close")])


# -- a response in one piece, without the steps that uvicorn takes for one in parts

#: A longer body is sent without copying it behind the head.
_BODY_BYTES_MAX = 64 * 1024
#: The headers that uvicorn adds to each response, and their bytes. They change every second, with the date.
_default: tuple[Any, bytes] = (None, b"")


def send_whole(cycle: Any, request_id: bytes, kind: bytes, body: bytes) -> bool:
    """Send a response with status 200. Return False, without an effect, if it has to go the usual way.

    The head is the one that uvicorn would write. The id may come from the client; the parser of heads has checked it.
    """
    global _default
    if (
        type(cycle) is not RequestResponseCycle
        or cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.access_log
        or cycle.flow.write_paused
        or cycle.scope["method"] == "HEAD"
        or len(body) > _BODY_BYTES_MAX
    ):
        return False
    headers, lines = _default
    if headers is not cycle.default_headers:
        headers = cycle.default_headers
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        _default = (headers, lines)
    cycle.response_started = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(
        b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: %b\r\nx-request-id: %b\r\n\r\n%b"
        % (lines, len(body), kind, request_id, body)
    )
    cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True


# -- the charset of a multipart form

# Starlette decodes the fields of a form by whatever codec of Python the request names. Some of these take quadratic time
# ("punycode": 20 s for 1 MiB), and Python keeps every name that it does not know for the life of the process.

#: Codecs that are not text encodings, and those of Python that are slow or raise unusual errors.
_REFUSED = frozenset(
    {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec", "mbcs", "punycode", "idna"}
)  # fmt: skip
_KNOWN = frozenset(
    name for pair in aliases.items() if pair[1] not in _REFUSED for name in pair if name not in _REFUSED
)
#: Also matches the continued and encoded parameters of RFC 2231; each of their values must be known.
_CHARSET = re.compile(rb'charset[^=;]*=\s*"?([^;"]*)', re.IGNORECASE)


def unsupported_charset(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the unknown or refused charset of a multipart request; None for all other requests."""
    for name, value in headers:
        if name == b"content-type":
            if value[:10].lower() != b"multipart/":
                return None
            for charset in _CHARSET.findall(value):
                known = charset.strip().lower().decode("latin-1").replace("-", "_").replace(" ", "_")
                if known not in _KNOWN:
                    return str(charset[:40].decode("latin-1"))
            return None
    return None
