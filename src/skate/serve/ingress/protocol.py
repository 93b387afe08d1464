"""Uvicorn's HTTP protocol with one thing added: between two requests a connection may go to another process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any
from urllib.parse import unquote

import h11
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from skate.serve.ingress import sockets
from skate.serve.ingress.front import HERE, Elsewhere, Later, Refused
from skate.serve.ingress.joining import Joining

#: A request line may be so long before it is somebody's attack.
_LINE_BYTES_MAX = 64 * 1024
#: A connection that nobody takes is offered again, for two seconds in all.
_RETRY_SECONDS, _TRIES_MAX = 0.005, 400
_RETRY = ("", "")


def _between_h11(protocol: Any) -> bool:
    """True if what comes next on the connection is the beginning of a request."""
    cycle = protocol.cycle
    if cycle is None:
        return True
    conn = protocol.conn
    # Both sides become idle together; the client's turns to anything else only with a cycle of its own.
    return bool(cycle.response_complete and conn.our_state is h11.IDLE and not conn.trailing_data[0])


def _between_httptools(protocol: Any) -> bool:
    cycle = protocol.cycle
    return cycle is None or bool(cycle.response_complete and not cycle.more_body and not protocol.pipeline)


_between = _between_h11 if AutoHTTPProtocol.__name__.startswith("H11") else _between_httptools


class ServingProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type, unused-ignore]
    """One connection of an ingress."""

    def __init__(self, serving: Any) -> None:
        super().__init__(config=serving.config, server_state=serving.state, app_state={}, _loop=serving.loop)
        self._serving = serving
        self._head = b""
        self._waits_for: Any = None
        self._tries = 0
        #: What the process before this one knew of the connection, and what it had read.
        self.known: dict[str, Any] = {}
        self.read_before = b""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Joining(transport, self.loop))
        self._serving.connected(self)
        if self.known:
            self.client = tuple(self.known["client"]) if self.known.get("client") else None
            if self.known.get("scheme"):
                self.scheme = self.known["scheme"]
            if self.known.get("server"):
                self.server = tuple(self.known["server"])

    def connection_lost(self, exc: Exception | None) -> None:
        self._serving.disconnected(self)
        cycle = self.cycle
        super().connection_lost(exc)
        if cycle is not None and not cycle.response_complete:
            task = getattr(cycle, "serve_task", None)
            if task is not None:
                task.cancel()

    def handle_websocket_upgrade(self, *event: Any) -> None:
        """From here on the connection is a WebSocket's: no requests come on it, and it stays in this process."""
        super().handle_websocket_upgrade(*event)
        self._serving.connections_away(self)

    def data_received(self, data: bytes) -> None:
        if self.transport.discards:
            return
        if self.read_before:  # a loop may read the socket before whoever connected it goes on
            data, self.read_before = self.read_before + data, b""
        if self._waits_for is not None:
            self._head += data
            return
        if _between(self):
            front = self._serving.front
            if front.only_own and not front.draining and not self._head and not front.full():
                super().data_received(data)
                return
            data = self._head + data if self._head else data
            end = data.find(b"\r\n")
            if end < 0 and len(data) < _LINE_BYTES_MAX:
                self._head = data
                return
            self._head = b""
            decision = self._decide(data[:end])
            if decision is not HERE and self._dispose(decision, data):
                return
        super().data_received(data)

    def _decide(self, line: bytes) -> Any:
        words = line.split(b" ", 2)
        if len(words) != 3:
            return HERE  # which answers that this is no HTTP
        target = words[1]
        if target.startswith(b"http"):  # a whole URL, as to a proxy
            target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
        path = target.partition(b"?")[0].decode("latin-1")
        if "%" in path:
            path = unquote(path)
        return self._serving.front.decide(path)

    def _dispose(self, decision: Any, data: bytes) -> bool:
        """Do what was decided; False if the request is served here after all."""
        if isinstance(decision, Elsewhere):
            if self._hand_over(decision.mailboxes, data):
                return True
            if not decision.foreign:
                return False
            self._try_later(data)
            return True
        if isinstance(decision, Refused):
            self._refuse(decision)
            return True
        assert isinstance(decision, Later)
        self._head = data
        self._waits_for = decision.key
        self._unset_keepalive_if_required()
        self._serving.hold(self, decision.key)
        return True

    def _try_later(self, data: bytes) -> None:
        """Another process that is to have the connection takes none just now: it is busy, or has just ended."""
        self._head = data
        self._waits_for = _RETRY
        self._tries += 1
        if self._tries > _TRIES_MAX:
            self.give_up(503, "the replicas of the application do not answer")
        else:
            self.loop.call_later(_RETRY_SECONDS, self._again)

    def _again(self) -> None:
        if self._waits_for is _RETRY:
            self.decide_again()

    def decide_again(self) -> None:
        """Something has changed for a connection that waits, or that idles in a process which leaves."""
        if self.transport.is_closing():
            self._waits_for = None
            return
        if self._waits_for is None:
            if _between(self) and not self._head:
                boxes = self._serving.own_siblings()
                if boxes:
                    self._hand_over(boxes, b"")
            return
        data, self._head, self._waits_for = self._head, b"", None
        self.data_received(data)

    def give_up(self, status: int, reason: str) -> None:
        """A connection that waits has waited too long."""
        self._waits_for = None
        self._refuse(Refused(status, reason, 1))

    def _hand_over(self, mailboxes: tuple[bytes, ...], data: bytes) -> bool:
        transport = self.transport
        sock = transport.get_extra_info("socket")
        if sock is None or transport.get_write_buffer_size():
            return False
        known = {"client": self.client, "scheme": self.scheme, "server": self.server}
        relayed = transport.get_extra_info("ssl_object") is not None
        if relayed:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
        for mailbox in mailboxes:
            if sockets.send(mailbox, theirs if relayed else sock, data, **known):
                break
        else:
            if relayed:
                ours.close()
                theirs.close()
            return False
        self._unset_keepalive_if_required()
        if relayed:
            theirs.close()
            relay = Relay(transport)
            self._serving.connections_away(self)
            transport.set_protocol(relay)
            task = self.loop.create_task(relay.connect(self.loop, ours))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            transport.abort()  # closes this process's copy; the connection lives on in the other
        return True

    def _refuse(self, refused: Refused) -> None:
        body = refused.reason.encode()
        lines = [
            f"HTTP/1.1 {refused.status} {_PHRASES.get(refused.status, '')}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        if refused.retry_after_s is not None:
            lines.append(f"retry-after: {max(1, round(refused.retry_after_s))}")
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        self.transport.close()


_PHRASES = {408: "Request Timeout", 429: "Too Many Requests", 503: "Service Unavailable"}


class Relay(asyncio.Protocol):
    """Carries what a TLS connection brings to the process that serves it, and back: the keys cannot be handed over."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.inner: Any = None
        self._early: list[bytes] = []

    async def connect(self, loop: Any, sock: socket.socket) -> None:
        """Begin to carry."""
        self.inner, _ = await loop.connect_accepted_socket(lambda: _Back(self.outer), sock)
        for each in self._early:
            self.inner.write(each)

    def data_received(self, data: bytes) -> None:
        if self.inner is None:
            self._early.append(data)
        else:
            self.inner.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.inner is not None:
            self.inner.close()

    def pause_writing(self) -> None:
        if self.inner is not None:
            self.inner.pause_reading()

    def resume_writing(self) -> None:
        if self.inner is not None:
            with contextlib.suppress(RuntimeError):
                self.inner.resume_reading()


class _Back(asyncio.Protocol):
    def __init__(self, outer: Any) -> None:
        self.outer = outer

    def data_received(self, data: bytes) -> None:
        self.outer.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.outer.close()

    def pause_writing(self) -> None:
        self.outer.pause_reading()

    def resume_writing(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.outer.resume_reading()
