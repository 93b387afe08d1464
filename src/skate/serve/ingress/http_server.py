"""An HTTP server inside a replica (or, while no replica accepts, inside the controller)."""

from __future__ import annotations

import asyncio
import email.utils
import errno
import logging
import resource
import socket
import sys
import time
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from skate.serve.config.http import HTTPOptions
from skate.serve.ingress import sockets
from skate.serve.ingress.deadlines import Deadlines
from skate.serve.ingress.dispatcher import Dispatcher
from skate.serve.ingress.protocol import ServingProtocol
from skate.serve.ingress.request_head import Limits
from skate.serve.ingress.socket_owner import fetch_from_any
from skate.serve.replica.crash_responder import CELLS, Marks
from skate.serve.replica.order import ReplicaPort
from skate.serve.routing import watch
from skate.serve.routing.counter_page import ACCEPTING, CONNECTIONS, ONGOING, CounterPage
from skate.serve.routing.demand import Demand
from skate.serve.routing.table import Key, ReplicaEntry, Table

if TYPE_CHECKING:
    from skate.serve.proxy.tunnel import TunnelServer

#: How many connections to accept at once: a few if other replicas share the socket, all of them if none does.
_ACCEPT_AT_ONCE, _ACCEPT_ALONE = 16, 1024
#: How long a process that leaves has to give its connections away.
_LEAVE_SECONDS, _LEAVE_PAUSE_SECONDS = 2.0, 0.002
#: Errors after which the process pauses before it accepts again.
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SHORT_PAUSE_SECONDS = 0.1
#: Connections leave this many descriptors, or an eighth of all, to the application. If none is left for a new connection, one
#: that has been silent for so long is closed.
_DESCRIPTORS_KEPT, _SILENT_SECONDS, _ROOM_AT_ONCE = 64, 1.0, 8
#: The largest block that malloc takes from the heap, not from a new mapping. The heap keeps twice as many free bytes.
_HEAP_BLOCK_BYTES_MAX = 16 << 20
#: The headers that uvicorn's middleware for proxies reads.
_FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-proto"))
#: Messages that uvicorn logs for each invalid request.
_MISTAKES = ("Invalid HTTP request received.", "Unsupported upgrade request.")


class DemandReport(Protocol):
    """Receives the number of requests that wait for each deployment."""

    def demand(self, waiting: dict[Key, int]) -> None:
        """Report the current number of waiting requests."""


class HttpServer:
    """Accepts connections, serves them, and holds those that wait for a replica elsewhere."""

    def __init__(
        self,
        options: HTTPOptions,
        dispatcher: Dispatcher,
        app: ASGIApp,
        counter_page: CounterPage | None,
        watching: DemandReport,
    ) -> None:
        self.options = options
        self.dispatcher = dispatcher
        self.app = app
        self.loop = asyncio.get_running_loop()
        self.config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=options.keep_alive_timeout_s,
            server_header=False,
            root_path="",
            ws=websocket,  # type: ignore[arg-type]  # it calls it as it would the class
            ws_max_size=64 << 20,
        )
        self.config.load()
        proxied: Any = self.config.loaded_app
        assert isinstance(proxied, ProxyHeadersMiddleware)
        self._behind_proxy: ASGIApp = proxied  # type: ignore[assignment]
        self._served: ASGIApp = proxied.app  # type: ignore[assignment]
        self.config.loaded_app = self._entered
        self.state = uvicorn.server.ServerState()
        self.limits = Limits(options.max_request_head_bytes, options.max_request_headers)
        #: Deadlines for the next request head, the rest of a body, and the reading of a response.
        self.heads = Deadlines(options.request_head_timeout_s)
        self.bodies = Deadlines(options.request_body_timeout_s)
        self.unread = Deadlines(options.unread_answer_timeout_s)
        #: The maximum number of connections; more wait in the kernel.
        self._most = _most_connections()
        _uvicorn.addFilter(_no_mistake)
        self._closed = False
        self._tick()
        self.receiver = sockets.SocketReceiver()
        self.mailbox = self.receiver.name
        self.protocols: set[ServingProtocol] = set()
        #: The marks of connections; see `CrashResponder`.
        self.marks: Marks = bytearray(CELLS + 1)
        self.held: dict[Key, deque[ServingProtocol]] = {}
        self.counter_page = counter_page
        self.docs_path: str | None = None
        #: The ends of tunnels from other nodes.
        self.tunnels: TunnelServer | None = None
        self._listening: socket.socket | None = None
        self._accepting = False
        #: Tasks that open connections, with their start times.
        self._tasks: dict[Any, float] = {}
        self._tls = _tls_context(options)
        dispatcher.queued = lambda key: len(self.held.get(key, ()))
        self.loop.add_reader(self.receiver.sock.fileno(), self._arrived)
        self._watching = watching

    def _entered(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Start the application. Few requests pass a proxy, so the others skip the middleware for those."""
        for name, _ in scope["headers"]:
            if name in _FORWARDED:
                return self._behind_proxy(scope, receive, send)
        return self._served(scope, receive, send)

    # -- the table

    def _changed(self, table: Table) -> None:
        self.dispatcher.update(table)
        if self.dispatcher.own is not None:
            deployment = table.deployments.get(self.dispatcher.own)
            known = deployment is not None and any(
                each.mailbox == self.mailbox for each in deployment.entries
            )
            self.accept(known and not self.dispatcher.draining)
        held, self.held = self.held, {}
        for waiting in held.values():
            for protocol in waiting:
                protocol.decide_again()
        if held:
            self.demand()

    def own_siblings(self) -> list[ReplicaEntry]:
        """Return the other replicas of this deployment on this node, which get its connections when it leaves."""
        deployment = (
            self.dispatcher.table.deployments.get(self.dispatcher.own) if self.dispatcher.own else None
        )
        if deployment is None:
            return []
        return [
            each
            for each in deployment.entries
            if each.mailbox and each.mailbox != self.mailbox and each.node == self.dispatcher.node
        ]

    def successors(self) -> tuple[bytes, ...]:
        """Return the targets for connections when this process leaves: its siblings, or else any process."""
        entries = self.own_siblings() or [
            entry
            for deployment in self.dispatcher.table.deployments.values()
            for entry in deployment.entries
            if entry.mailbox and entry.mailbox != self.mailbox and entry.node == self.dispatcher.node
        ]
        return tuple(entry.mailbox for entry in self.dispatcher.not_stopped(entries))

    # -- connections

    def listen(self, sock: socket.socket) -> None:
        """Accept from this socket. A replica starts once it is in the table, and so knows all others."""
        self._listening = sock
        if self.dispatcher.own is None:
            self.accept(True)
        else:
            self._changed(self.dispatcher.table)

    def accept(self, wanted: bool) -> None:
        """Start or stop accepting."""
        sock = self._listening
        if sock is None or wanted == self._accepting or (wanted and self._closed):
            return
        self._accepting = wanted
        if wanted:
            self.loop.add_reader(sock.fileno(), self._accept)
        else:
            self.loop.remove_reader(sock.fileno())
        if self.counter_page is not None:
            self.counter_page.cells[ACCEPTING] = int(wanted)

    def _accept(self) -> None:
        assert self._listening is not None
        made = 0
        for _ in range(_ACCEPT_AT_ONCE if self.own_siblings() else _ACCEPT_ALONE):
            if len(self.protocols) + len(self._tasks) >= self._most:
                if not self._make_room():
                    self._pause_accepting()
                    return
                made += 1
            try:
                sock, _ = self._listening.accept()
            except BlockingIOError:  # another replica was first
                return
            except OSError as error:
                if error.errno in _SHORT:  # no descriptors or memory: connections wait in the socket
                    self._pause_accepting()
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._keep(self._open(sock, None, b""))
            if self.dispatcher.own is not None and self.dispatcher.full() and self.own_siblings():
                return  # others may have room
            if made >= _ROOM_AT_ONCE:
                return  # closed connections keep their descriptors until the next iteration of the loop

    def _make_room(self) -> bool:
        """Close a silent connection to make room for a waiting one; return False if there is none."""
        now = self.loop.time()
        opening, since = next(iter(self._tasks.items()), (None, now))
        if opening is not None and now - since >= _SILENT_SECONDS:  # its TLS handshake is late
            del self._tasks[opening]
            opening.cancel()
            return True
        silent = self.heads.oldest()
        if silent is None or self.heads.waited(silent, now) < _SILENT_SECONDS:
            silent = next((each for each in self.protocols if each.idles and each.cycle is not None), None)
        if silent is None:
            return False
        self.disconnected(silent)
        silent.transport.abort()
        return True

    def _pause_accepting(self) -> None:
        if self._accepting:
            self.accept(False)
            self.loop.call_later(_SHORT_PAUSE_SECONDS, self._accept_again)

    def _accept_again(self) -> None:
        if not self._closed:
            self._changed(self.dispatcher.table) if self.dispatcher.own is not None else self.accept(True)

    def _keep(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine)
        self._tasks[task] = self.loop.time()
        task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    async def _open(self, sock: socket.socket, known: dict[str, Any] | None, head: bytes) -> None:
        protocol = ServingProtocol(self)
        if known:
            protocol.known = known
            protocol.read_before = head
        tls = None if known is not None else self._tls
        limit = self.options.request_head_timeout_s
        try:
            await self.loop.connect_accepted_socket(
                lambda: protocol, sock, ssl=tls, ssl_handshake_timeout=limit if tls is not None else None
            )
        except OSError:  # it disconnected, or did not speak TLS
            sock.close()
            return
        if protocol.read_before:
            protocol.data_received(b"")

    def _arrived(self) -> None:
        while True:
            taken = self.receiver.take()
            if taken is None:
                return
            message, head, sock = taken
            if message.get("wants") == "listener":
                if self._listening is not None:
                    sockets.send(message["reply"], self._listening, b"", listener=True)
                sock.close()
                continue
            self.serve_connection(sock, message, head)

    def serve_connection(self, sock: socket.socket, known: dict[str, Any], head: bytes) -> None:
        """Serve a connection that another process has accepted, and of which it has read `head`."""
        self._keep(self._open(sock, known, head))

    def open_tunnel(
        self, sock: socket.socket, head: bytes, known: dict[str, Any], replicas: tuple[Any, ...]
    ) -> None:
        """Carry a connection to a replica on another node."""
        self._in_background(self._carry(sock, head, known, replicas))

    async def _carry(
        self, sock: socket.socket, head: bytes, known: dict[str, Any], replicas: tuple[Any, ...]
    ) -> None:
        from skate.serve.proxy.tunnel import TunnelClient  # only in clusters

        rest = await TunnelClient(sock, head, known).run(replicas)
        if rest is not None:
            self.serve_connection(sock, {**known, "idle": not rest}, rest)

    def give_back(self, tunnel: str, sock: socket.socket, data: bytes) -> None:
        """Return a connection that came through a tunnel, because its next request is not for this process."""
        assert self.tunnels is not None
        self._in_background(self.tunnels.give_back(tunnel, sock, data))

    def _in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine)
        self.state.tasks.add(task)
        task.add_done_callback(self.state.tasks.discard)

    def connected(self, protocol: ServingProtocol) -> None:
        """Register a new connection."""
        self.protocols.add(protocol)
        if self.counter_page is not None:
            self.counter_page.cells[CONNECTIONS] = len(self.protocols)

    def disconnected(self, protocol: ServingProtocol) -> None:
        """Remove a closed connection."""
        self.protocols.discard(protocol)
        for each in (self.heads, self.bodies, self.unread):
            each.end(protocol)
        if self.counter_page is not None:
            self.counter_page.cells[CONNECTIONS] = len(self.protocols)
        key = protocol._waits_for
        if key is not None and key in self.held:
            waiting = self.held[key]
            if protocol in waiting:
                waiting.remove(protocol)

    connections_away = disconnected

    def hold(self, protocol: ServingProtocol, key: Key) -> None:
        """Hold a connection that waits for a replica of this deployment."""
        self.held.setdefault(key, deque()).append(protocol)
        self.demand()
        limit = self.options.request_timeout_s
        if limit is not None:

            def late() -> None:
                if protocol._waits_for == key:
                    self.disconnected(protocol)
                    protocol.give_up(408, f"no replica was available within {limit} s")

            self.loop.call_later(limit, late)

    def demand(self) -> None:
        """Report waiting requests to the controller, which starts replicas if there are none."""
        self._watching.demand({key: len(each) for key, each in self.held.items() if each})

    # -- the end

    @property
    def leaving(self) -> bool:
        """True if new connections belong to other processes."""
        return self.dispatcher.draining

    @property
    def idle(self) -> bool:
        """True if no request is in progress."""
        return not self._tasks and all(
            each.cycle is None or each.cycle.response_complete for each in self.protocols
        )

    def stop_accepting(self) -> None:
        """Leave new and idle connections to other processes."""
        self.dispatcher.draining = True
        self.accept(False)
        for protocol in list(self.protocols):
            protocol.decide_again()

    async def close(self) -> None:
        """Close all remaining connections."""
        self._closed = self.dispatcher.draining = True
        self.accept(False)
        deadline = self.loop.time() + _LEAVE_SECONDS
        # A mailbox holds few messages: the kernel's net.unix.max_dgram_qlen, 10 by default.
        while True:
            self._arrived()  # connections sent by others before they knew
            for protocol in list(self.protocols):
                protocol.decide_again()
            leaves = self._tasks or (self.successors() and any(each.idles for each in self.protocols))
            if not leaves or self.loop.time() > deadline:
                break
            await asyncio.sleep(_LEAVE_PAUSE_SECONDS)
        await asyncio.sleep(0)
        for protocol in list(self.protocols):
            protocol.shutdown()
        while any(each.transport.discards for each in self.protocols) and self.loop.time() < deadline:
            await asyncio.sleep(_LEAVE_PAUSE_SECONDS)  # or responses would be lost with the process
        self.loop.remove_reader(self.receiver.sock.fileno())
        self.receiver.close()
        end = getattr(self.app, "end", None)
        if end is not None:
            await end()

    def _tick(self) -> None:
        date = email.utils.formatdate(time.time(), usegmt=True).encode()
        self.state.default_headers = [(b"date", date), *self.config.encoded_headers]
        if self._closed:
            return
        self.loop.call_later(1, self._tick)
        now = self.loop.time()
        for protocol, _ in self.heads.due(now):
            protocol.head_is_late()
        for protocol, brought in self.bodies.due(now):
            protocol.body_is_late(brought)
        for protocol, size in self.unread.due(now):
            protocol.answer_is_unread(size)


def websocket(*args: Any, **kwargs: Any) -> Any:
    """Create the protocol of a WebSocket. Its import takes 15 ms, so it waits for the first WebSocket."""
    try:
        from skate.serve.ingress.websocket import BoundedWebSocket  # imported only if used
    except ImportError:  # an older uvicorn with a different protocol
        from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol  # imported only if used
    else:
        return BoundedWebSocket(*args, **kwargs)
    if AutoWebSocketsProtocol is None:
        raise RuntimeError("WebSockets require the package websockets: pip install 'skate[serve]'")
    return AutoWebSocketsProtocol(*args, **kwargs)


def _tls_context(options: HTTPOptions) -> Any:
    if not options.ssl_certfile:
        return None
    import ssl  # only with HTTPS

    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, options.ssl_keyfile_password)
    if options.ssl_ca_certs:
        made.load_verify_locations(options.ssl_ca_certs)
    return made


def _most_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(soft // 2, soft - max(_DESCRIPTORS_KEPT, soft // 8))


def _no_mistake(record: logging.LogRecord) -> bool:
    """Return False for a client's mistake, which the response reports, so that the log need not."""
    return record.msg not in _MISTAKES


_uvicorn = logging.getLogger("uvicorn.error")


async def open_ingress(replica: ReplicaPort, http: dict[str, Any]) -> HttpServer:
    """Serve HTTP in a replica, on the shared socket."""
    from skate.serve.ingress.application import Ingress  # imports starlette

    _reuse_memory_of_bodies()
    order = replica.order
    watching = watch.current()
    dispatcher = Dispatcher((order.app, order.name), order.replica, watching.node)
    app = Ingress(replica, dispatcher, http["options"])
    await app.begin()
    serving = HttpServer(http["options"], dispatcher, app, replica.counter_page, Demand(watching))
    serving.docs_path = app.docs_path
    serving.marks = replica.crash_responder.marks
    limiter, tasks = replica.limiter, serving.state.tasks
    cells = limiter.cells
    # Requests that were just read have tasks, but have not reached the limiter yet.
    dispatcher.full = lambda: cells[ONGOING] >= limiter.limit or len(tasks) >= limiter.limit
    sock = await fetch_from_any(http["keepers"])
    if sock is None:
        sock = await fetch_from_any(await watching.controller.keepers_of.remote(watching.node))
    if sock is not None:
        replica.crash_responder.listens(sock.getsockname()[1])
        serving.listen(sock)

    def changed(table: Table) -> None:
        # Update immediately, in any thread: once this process acknowledges the table, a request may arrive before the loop runs.
        serving.dispatcher.table = table
        serving.loop.call_soon_threadsafe(serving._changed, table)

    watching.on_change(changed)
    return serving


def _reuse_memory_of_bodies() -> None:
    """Make malloc reuse the memory of request bodies instead of returning it to the kernel after each of them.

    Freeing one block raises the thresholds of glibc's malloc to its size. A body of 1 MB otherwise costs 350 page faults. The
    block is never touched, so it takes no memory.
    """
    bytes(_HEAP_BLOCK_BYTES_MAX)
