"""Uvicorn's HTTP protocol behind a gate, which passes on only complete heads, and one request at a time.

So the code that routes a request has its complete head, and between two requests the connection, with all
unprocessed bytes, can move to another process. Behind the gate, httptools and h11 behave the same.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from skate.serve.ingress import sockets
from skate.serve.ingress.chunked_body import ChunkedBody
from skate.serve.ingress.dispatcher import HERE, Hold, Reject, Transfer
from skate.serve.ingress.relay import Relay
from skate.serve.ingress.request_head import (
    CHUNKED,
    BadRequest,
    HeadBuffer,
    framed,
    is_absolute,
    lacking,
    path_of,
    with_path,
)
from skate.serve.ingress.request_headers import model_of
from skate.serve.ingress.write_buffer import WriteBuffer
from skate.serve.replica.crash_responder import CELLS

#: A connection that no process accepts is offered again, for two seconds in total.
_RETRY_SECONDS, _TRIES_MAX = 0.005, 400
_RETRY = ("", "")
#: How much to read beyond a head while a connection waits for a replica or for the previous response.
_AHEAD_BYTES_MAX = 64 * 1024


class Gated(asyncio.Protocol):
    """The gate, above one of uvicorn's protocols."""

    # With them in the dict, uvicorn's protocol has more than the 29 attributes that CPython 3.11 stores inline.
    __slots__ = (
        "_chunks",
        "_left",
        "_limits",
        "_mark",
        "_marks",
        "_quiet",
        "_rest",
        "_serving",
        "_tries",
        "_upgraded",
        "_waits_for",
        "brought",
        "known",
        "read_before",
    )
    cycle: Any
    transport: Any
    loop: Any
    flow: Any
    tasks: Any
    client: Any
    server: Any
    scheme: Any
    timeout_keep_alive_task: Any

    def __init__(self, serving: Any) -> None:
        super().__init__(config=serving.config, server_state=serving.state, app_state={}, _loop=serving.loop)  # type: ignore[call-arg]
        self._serving = serving
        self._limits = serving.limits
        #: Bytes read but not passed on yet.
        self._rest = HeadBuffer()
        #: The missing bytes of the current body, or the parser of its chunks.
        self._left = 0
        self._chunks: ChunkedBody | None = None
        #: True if no part of a request was read, is awaited, or waits for a replica.
        self._quiet = False
        self._upgraded = False
        #: The byte that is 1 while a request has no response yet; see `CrashResponder`.
        self._marks = serving.marks
        self._mark = CELLS
        self._waits_for: Any = None
        self._tries = 0
        #: The number of body bytes received.
        self.brought = 0
        #: The state of the connection from the process that passed it on, and the bytes it had read.
        self.known: dict[str, Any] = {}
        self.read_before = b""

    # -- the connection

    def connection_made(self, transport: Any) -> None:
        limit = self._serving.options.unread_answer_timeout_s
        if transport.get_extra_info("ssl_object") is None:  # nobody else can write to an encrypted connection
            self._mark = min(transport.get_extra_info("socket").fileno(), CELLS)
        buffer = WriteBuffer(transport, self.loop, self._more_to_come, limit, self._marks, self._mark)
        super().connection_made(buffer)  # type: ignore[arg-type]
        self._serving.connected(self)
        known = self.known
        if known:
            self.client = tuple(known["client"]) if known.get("client") else None
            if known.get("scheme"):
                self.scheme = known["scheme"]
            if known.get("server"):
                self.server = tuple(known["server"])
        if known.get("idle"):
            self._idle_from_now()
        else:
            self._serving.heads.begin(self, self.loop.time())

    def _idle_from_now(self) -> None:
        limit = self._serving.options.keep_alive_timeout_s
        self.timeout_keep_alive_task = self.loop.call_later(limit, self._idled)

    def _idled(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._marks[self._mark] = 0
        self._serving.disconnected(self)
        self._waits_for = None
        self._quiet = False
        cycle = self.cycle
        super().connection_lost(exc)
        if cycle is not None and not cycle.response_complete:
            task = getattr(cycle, "serve_task", None)
            if task is not None:
                task.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._serving.unread.begin(self, self.loop.time(), self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._serving.unread.end(self)

    def handle_websocket_upgrade(self, *event: Any) -> None:
        """Switch the connection to a WebSocket, which carries no more requests and stays in this process."""
        if self._left or self._chunks is not None:
            raise BadRequest(400, "a request for a WebSocket must not have a body")
        self._upgraded = True
        self._marks[self._mark] = 0
        super().handle_websocket_upgrade(*event)  # type: ignore[misc]
        self._serving.connections_away(self)

    # -- input

    @property
    def _between(self) -> bool:
        """True if the next data is the beginning of a request."""
        cycle = self.cycle
        return not self._left and self._chunks is None and (cycle is None or cycle.response_complete)

    @property
    def _ends(self) -> bool:
        """True if incoming data is no longer read."""
        transport = self.transport
        return bool(transport.discards or transport.is_closing())

    def _more_to_come(self) -> bool:
        """Return True if the client has sent, or still sends, data that will not be read before the connection closes."""
        if self._upgraded:
            return False
        return bool(self._left or self._chunks is not None or self._rest.data)

    def data_received(self, data: bytes) -> None:
        # Usually the data is one request, or its beginning, on an idle connection and for this process.
        if self._quiet and self.cycle.response_complete and not self.transport.discards:
            dispatcher = self._serving.dispatcher
            if dispatcher.only_own and not dispatcher.draining and not dispatcher.full():
                left = lacking(data, self._limits)
                if left is not None:
                    if left:  # the rest of the body needs no copy either
                        self._left = left
                        self._quiet = False
                        self._serving.bodies.begin(self, self.loop.time(), self.brought)
                    self._marks[self._mark] = 1
                    super().data_received(data)
                    return
        self._take(data)

    def _take(self, data: bytes) -> None:
        if self._ends:
            self.transport.came = True
            return
        if self.read_before:  # the loop may read from the socket before the code that connected it resumes
            data, self.read_before = self.read_before + data, b""
        self._quiet = False
        try:
            if not self._rest.data and not self._between:
                data = self._fed_body(data)
            self._rest.add(data)
            self._go_on()
        except BadRequest as bad:
            self._refuse(bad.status, bad.reason)

    def _advance(self) -> None:
        """Process data that was read while the protocol waited."""
        try:
            self._go_on()
        except BadRequest as bad:
            self._refuse(bad.status, bad.reason)

    def _go_on(self) -> None:
        """Process as much of the received data as possible."""
        rest = self._rest
        while rest.data and self._waits_for is None and not self._ends:
            if not self._between:
                if not self._left and self._chunks is None:
                    self.cycle.on_response = self._answered  # finish the previous response first
                    break
                data = rest.take()
                rest.add(self._fed_body(data))
                continue
            length = rest.head(self._limits)
            if not length:
                self._await_head()
                break
            if not self._begin(length):
                break
        self._bound_reading()
        whole = not self._left and self._chunks is None
        if not whole and self not in self._serving.bodies:
            self._serving.bodies.begin(self, self.loop.time(), self.brought)
        self._quiet = whole and not rest.data and self._waits_for is None and self.cycle is not None

    def _await_head(self) -> None:
        if self._rest.data and self not in self._serving.heads:
            self._unset_keepalive()
            self._serving.heads.begin(self, self.loop.time())

    def _unset_keepalive(self) -> None:
        self._unset_keepalive_if_required()  # type: ignore[attr-defined]

    def _begin(self, length: int) -> bool:
        """Handle a complete head: serve its request, or respond otherwise. Return False if nothing follows."""
        serving = self._serving
        head = bytes(self._rest.data[:length])
        body = framed(head, self._limits)
        serving.heads.end(self)
        if is_absolute(head):
            head = with_path(head)
        model = model_of(head) if serving.dispatcher.has_models else ""
        decision = serving.dispatcher.decide(path_of(head), "tunnel" in self.known, model)
        if decision is not HERE and self._dispose(decision, body):
            return False
        self._rest.take(length)
        self._tries = 0
        if body == CHUNKED:
            self._chunks = ChunkedBody(self._limits.head_bytes)
        else:
            self._left = body
        before = self.cycle
        self._marks[self._mark] = not self.transport.get_write_buffer_size()
        super().data_received(head)
        if self._upgraded:
            early = self._rest.take()
            if early:
                self.transport.get_protocol().data_received(early)
            return False
        if body and self.cycle is before and not self._ends:
            raise BadRequest(400, "a request that upgrades the protocol must not have a body")
        return True

    def _fed_body(self, data: bytes) -> bytes:
        """Pass data of the current body to the parser; return the rest."""
        rest = b""
        self.brought += len(data)
        if self._chunks is not None:
            part, used = self._chunks.feed(data)
            rest = data[used:]
            if self._chunks.done:
                self._chunks = None
        elif self._left:
            part = data
            if len(data) > self._left:
                part, rest = data[: self._left], data[self._left :]
            self._left -= len(part)
        else:
            return data
        whole = self._chunks is None and not self._left
        if whole:
            self._serving.bodies.end(self)
        if part:
            if not self.cycle.response_started:
                self._marks[self._mark] = 1  # again, after `100 Continue`
            super().data_received(part)
        if whole and self.cycle.response_complete and not self._ends:
            self._unset_keepalive()
            self._idle_from_now()  # it was answered already, so the connection is idle now
        return rest

    def _bound_reading(self) -> None:
        """Pause reading while the buffer is full."""
        transport = self.transport
        if len(self._rest.data) > _AHEAD_BYTES_MAX and (self._waits_for is not None or not self._between):
            transport.stop_reading()
        elif transport.stopped and not self._ends:
            transport.go_on_reading(self.flow.read_paused)

    def _answered(self) -> None:
        """Continue with buffered data after the previous response is complete."""
        self.on_response_complete()  # type: ignore[attr-defined]
        self.loop.call_soon(self._advance)

    # -- decisions

    def _dispose(self, decision: Any, body: int) -> bool:
        """Carry out a decision; return False if the request is served here after all."""
        if isinstance(decision, Reject):
            self._refuse(decision.status, decision.reason, decision.retry_after_s)
            return True
        most = self._serving.options.max_request_body_bytes
        if most is not None and body > most:
            self._refuse(
                413, f"the body of the request has {body:,} bytes, but this server accepts at most {most:,}"
            )
            return True
        if isinstance(decision, Transfer):
            if self._hand_over(decision.mailboxes, decision.remote):
                return True
            if not decision.foreign:
                return False
            self._retry_later()
            return True
        assert isinstance(decision, Hold)
        self._waits_for = decision.key
        self._unset_keepalive()
        self._serving.hold(self, decision.key)
        return True

    def _retry_later(self) -> None:
        """Retry later, because the chosen process is busy, or has just ended."""
        self._waits_for = _RETRY
        # Count no try while unread data remains, because only the client can change that.
        self._tries += not self.transport.get_write_buffer_size()
        if self._tries > _TRIES_MAX:
            self.give_up(503, "the replicas of the application do not respond")
        else:
            self.loop.call_later(_RETRY_SECONDS, self._again)

    def _again(self) -> None:
        if self._waits_for is _RETRY:
            self.decide_again()

    def decide_again(self) -> None:
        """Decide again about a connection that waits, or that is idle in a process about to leave."""
        if self.transport.is_closing():
            self._waits_for = None
            return
        if self._serving.dispatcher.draining and self.idles:
            boxes = self._serving.successors()
            if boxes and self._hand_over(boxes):
                return
        if self._waits_for is not None:
            self._waits_for = None
            self._advance()

    @property
    def idles(self) -> bool:
        """True if no request is in progress, so that another process may take over the connection."""
        return self._between and not self._upgraded and not self._ends

    def give_up(self, status: int, reason: str) -> None:
        """Refuse a request that has waited too long."""
        self._waits_for = None
        self._refuse(status, reason, 1)

    def _hand_over(self, mailboxes: tuple[bytes, ...], remote: tuple[Any, ...] = ()) -> bool:
        """Give the connection to a process of this node, or else to a replica of another one; return False if none takes it."""
        transport = self.transport
        sock = transport.get_extra_info("socket")
        if sock is None or transport.get_write_buffer_size() or transport.holds or transport.discards:
            return False
        data = self.read_before + bytes(self._rest.data)
        known = {"client": self.client, "scheme": self.scheme, "server": self.server}
        known["idle"] = not data and self.cycle is not None
        relayed = transport.get_extra_info("ssl_object") is not None
        if relayed:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
        tunnel = self.known.get("tunnel")
        if tunnel is not None:
            self._serving.give_back(tunnel, _copy_of(sock), data)
        elif not any(
            sockets.send(mailbox, theirs if relayed else sock, data, **known) for mailbox in mailboxes
        ):
            if not remote:
                if relayed:
                    ours.close()
                    theirs.close()
                return False
            self._serving.open_tunnel(_copy_of(theirs if relayed else sock), data, known, remote)
        self._unset_keepalive()
        self._serving.connections_away(self)
        self._waits_for = None
        self._rest.take()
        self.read_before = b""
        self._quiet = False
        if relayed:
            theirs.close()
            transport.go_on_reading(False)
            transport.flush()
            relay = Relay(transport)
            transport.set_protocol(relay)
            task = self.loop.create_task(relay.connect(self.loop, ours))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            transport.abort()  # closes this process's copy; the connection stays open in the other
        return True

    # -- refusals

    def head_is_late(self) -> None:
        """Respond with a timeout if a head has begun; otherwise only close."""
        if self._rest.data and not self.transport.is_closing():
            self._refuse(408, "the head of the request did not arrive in time")
        else:
            self._idled()

    def body_is_late(self, brought: int) -> None:
        """Check that the body has made progress since the last deadline."""
        if not self._left and self._chunks is None:
            return
        if self.brought != brought or self.flow.read_paused or self.transport.stopped:
            self._serving.bodies.begin(self, self.loop.time(), self.brought)
            return
        self._refuse(408, "the body of the request did not arrive in time")

    def answer_is_unread(self, size: int) -> None:
        """Check that the client reads the response."""
        left = self.transport.get_write_buffer_size()
        if left and left >= size:
            self.transport.abort()
        elif left:
            self._serving.unread.begin(self, self.loop.time(), left)

    def _refuse(self, status: int, reason: str, retry_after_s: float | None = None) -> None:
        self._rest.take()
        self._quiet = False
        self._waits_for = None
        self._serving.heads.end(self)
        if self._ends or self._ended_within():
            return
        body = reason.encode()
        lines = [
            f"HTTP/1.1 {status} {_PHRASES.get(status, '')}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        if retry_after_s is not None:
            lines.append(f"retry-after: {max(1, round(retry_after_s))}")
        self.transport.linger()
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        self.transport.close()

    def _ended_within(self) -> bool:
        """End the current request, if any; return True if its response has begun, so that no other can be sent."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        task = getattr(cycle, "serve_task", None)
        if task is not None:
            task.cancel()
        if cycle.response_started:
            self.transport.close()
        return bool(cycle.response_started)


def _copy_of(sock: Any) -> socket.socket:
    """Return another descriptor of a socket, which stays open when the transport closes its own."""
    copy = socket.socket(fileno=os.dup(sock.fileno()))
    copy.setblocking(False)
    return copy


_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class ServingProtocol(Gated, AutoHTTPProtocol):  # type: ignore[misc, valid-type, unused-ignore]
    """One connection of an ingress."""
