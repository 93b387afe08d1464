"""The connection of a driver to a node in another process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from skate import stack_dumps
from skate.client.process import Process
from skate.client.session.embedded import EndedLink
from skate.client.session.link import Throttle
from skate.client.task import exports
from skate.node.driver import handshake
from skate.node.driver.address import to_address
from skate.node.output.printer import Printer
from skate.node.settings import Settings
from skate.node.sigint import SigintHandler
from skate.node.worker.launcher import zygote_config
from skate.protocol import messages as m
from skate.wire.channel import Channel, ChannelClosed
from skate.wire.memory import Memory
from skate.wire.pump import Pump

EPOLLOUT = 4
STARTS_WORK = frozenset({m.SUBMIT, m.CALL, m.CREATE_ACTOR})
QUEUED_MAX = 24
#: How long a leaving driver waits for the remaining output of its workers.
FAREWELL_SECONDS = 3.0
#: Printed characters are reported to the node in steps of this size.
PRINTED_STEP = 1 << 16


class AttachedLink:
    """A link over the socket. A call is sent immediately while the link is idle, otherwise together with others."""

    def __init__(self, channel: Channel, process: Process, pump: Pump) -> None:
        self._channel = channel
        self._pending = process.pending
        self._process = process
        self._pump = pump
        self.throttle = Throttle(channel, pump).wait
        self.armed = False  # the background thread knows that something is queued

    def send(self, message: m.ToNode) -> None:
        """Queue a message, and make sure that it is sent soon."""
        channel = self._channel
        channel.push(message)
        if message[0] in STARTS_WORK:
            if len(self._process.pending) < 2 or len(channel.queued) >= QUEUED_MAX:
                self.flush()
            elif not self.armed:
                self.armed = True
                self._pump.wake_background()
                self._pump.kick()

    def flush(self) -> None:
        """Write queued data."""
        self.armed = False
        if not self._channel.flush():
            self._pump.want_write(self._channel.fd, True)

    def block(self, lasting: bool = True) -> bool:
        """Return False: a driver holds no CPU, so the node need not know."""
        self.flush()
        return False

    def unblock(self) -> None:
        """No-op: an attached driver never blocks the node."""


class AttachedMemory(Memory):
    """The node's memory, with its views counted, because memory in view must not be reused when the session ends."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.viewed: dict[int, int] = {}
        #: Called when the last view is gone, once the session has ended.
        self.unseen: Callable[[], object] | None = None

    def view(self, offset: int, size: int, on_release: Callable[[], object]) -> memoryview:
        """Return a read-only view; see `Memory.view`."""
        viewed = self.viewed
        viewed[offset] = viewed.get(offset, 0) + 1

        def released() -> None:
            viewed[offset] -= 1
            if not viewed[offset]:
                del viewed[offset]
            on_release()
            if self.unseen is not None and not viewed:
                self.unseen()

        return super().view(offset, size, released)


class OwnNode(Protocol):
    """A node, or a whole cluster, that is only for this process."""

    def forked(self) -> None:
        """Forget it in a forked child."""

    def end(self) -> None:
        """End it. Safe to call more than once."""


class Attachment:
    """A session of this process on a node in another process."""

    def __init__(self, path: str, settings: Settings, given: dict[str, Any]) -> None:
        self.path = path
        self.address = to_address(path)
        #: True if the program asked for the client of a cluster, with ray://.
        self.is_client = False
        #: The node, if it is only for this process.
        self.node: OwnNode | None = None
        pump = Pump(threading.RLock(), "loop", open_now=False)
        self._pump = pump
        self._control_c = SigintHandler(pump)
        self._said_farewell = False
        self._unreported = 0
        with pump.lock:
            self._control_c.take()
            try:
                pump.open()
                sock, welcome, fds = handshake.call(path, **_view(settings, given))
            except BaseException:  # includes KeyboardInterrupt: clean up the whole session
                self._control_c.give_back()
                pump.close()
                raise
            stack_dumps.offer()
            self.pid: int = welcome["pid"]
            #: The function that sets up tracing in all drivers of the node; empty for none.
            self.tracing_hook: str = welcome["tracing_hook"]
            self._channel = channel = Channel(sock)
            self.process = process = Process(welcome["cid"], pump, welcome["node_id"], welcome["job"])
            self.link = AttachedLink(channel, process, pump)
            process.connect(self.link)
            arena, overflow = [*fds, -1][:2]
            self._memory = AttachedMemory(arena, welcome["arena_bytes"], overflow, welcome["overflow_bytes"])
            for fd in fds:
                os.close(fd)
            process.mapping = self._memory
            process.is_driver = True
            process.looks = bool(given.get("_looks"))
            process.namespace = settings.namespace
            process.node_id = welcome["node_id"]
            process.node_ip_address = welcome["node_ip_address"]
            process.realm = process.job.hex()
            process.packages = welcome["packages"]
            process.job_environment = settings.runtime_env
            self._printer = Printer(self._printed)
            process.handlers.update({m.PRINTED: self._print, m.LEFT: self._farewell})
            pump.add(channel.fd, self._readable)
            pump.before_poll = self._before_poll
            pump.start()

    # -- input

    def _readable(self, events: int) -> None:
        channel = self._channel
        if events & EPOLLOUT:
            if channel.flush():
                self._pump.want_write(channel.fd, False)
            if not events & ~EPOLLOUT:
                return
        try:
            messages = channel.read()
        except ChannelClosed:
            self._lost("its process {pid} has died, or was killed")
            return
        handlers = self.process.handlers
        for message in messages:
            handler = handlers.get(message[0])
            if handler is not None:
                handler(message)

    def _before_poll(self) -> None:
        process = self.process
        if process.closed:
            return
        if process.pending_releases or process.unhandled:
            process.tidy()
        self.link.flush()

    def _print(self, message: m.Printed) -> None:
        _, is_error, text = message
        self._printer.hold(is_error, text)

    def _printed(self, size: int) -> None:
        """Report progress to the node from time to time; called in the printing thread."""
        self._unreported += size
        if self._unreported < PRINTED_STEP:
            return
        with self._pump.lock:
            size, self._unreported = self._unreported, 0
            if not self.process.closed:
                self.link.send(m.Shown(m.SHOWN, size))
                self.link.flush()

    def _farewell(self, message: m.Left) -> None:
        _, reason = message
        if reason:
            self._lost(reason)
        else:
            self._said_farewell = True

    def _lost(self, how: str) -> None:
        """Handle the loss of the node: raise an error in all waiting calls."""
        process = self.process
        self._pump.remove(self._channel.fd)
        self._said_farewell = True
        if process.closed:
            return
        how = how.replace("{pid}", str(self.pid))  # it may have other braces, from a message
        process.lost = (
            f"the node at {self.path} is gone ({how}), and with it the tasks, actors and values of "
            "this session; start another node (`skate start --head`), then shutdown() and init() here"
        )
        process.connect(EndedLink(process))
        process.end()
        self._pump.wake_ready()

    # -- the end

    def preload(self, name: str) -> bool:
        """Return False: workers belong to the node."""
        return False

    def forked(self) -> None:
        """Close the connection in a forked child; it belongs to the parent."""
        self._channel.close()
        if self.node is not None:
            self.node.forked()
        self._control_c.give_back()

    def shutdown(self) -> None:
        """Leave the node, which stays unless it is only for this process; everything that was only for this driver ends."""
        try:
            self._leave()
        finally:
            if self.node is not None:
                self.node.end()

    def _leave(self) -> None:
        process = self.process
        pump = self._pump
        with self._control_c.put_off():
            with pump.lock:
                if not process.closed:
                    process.tidy()
                    process.report_metrics()
                    self.link.send(m.Leave(m.LEAVE, self._in_view()))
                    self.link.flush()
                    process.end()
                    process.connect(EndedLink(process))
                pump.wake_ready()
                pump.wait(lambda: self._said_farewell, FAREWELL_SECONDS)
            self._printer.close()
            pump.close()
            # Arrays in the node's memory may outlive the session. The node keeps their values until the connection closes.
            self._memory.unseen = self._channel.close
            if not self._memory.viewed:
                self._channel.close()
            self._memory.close()
            stack_dumps.withdraw()
            self._control_c.give_back()

    def _in_view(self) -> tuple[bytes, ...]:
        """Return the ids of the values whose arrays are still in use here."""
        viewed = self._memory.viewed
        if not viewed:
            return ()
        found = []
        for oid, weak in self.process.known.items():
            ref = weak()
            if ref is not None and ref._kind == m.ARENA and ref._value[0] in viewed:
                found.append(oid)
        return tuple(found)


def _view(settings: Settings, given: dict[str, Any]) -> dict[str, Any]:
    """The program's settings that its workers adopt."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    view = zygote_config(sys.path, settings.preload, {"main": main, "namespace": settings.namespace})
    return {
        **view,
        "python": [sys.executable],
        "command": " ".join(sys.argv)[:200],
        "log_to_driver": settings.log_to_driver,
        "looks": bool(given.get("_looks")),
    }


def join(address: str, given: dict[str, Any]) -> Attachment:
    """Attach as a driver to the node at an address, or to a new one that joins the cluster at that address.

    Raise ConnectionError if there is none, and ValueError for settings that belong to the node.
    """
    from skate.node.driver import address as places  # with the socket module behind it

    cluster = places.cluster_in(address)
    if cluster:
        attachment = _join_cluster(cluster, given, places.is_client(address))
    else:
        path = places.find(places.directory()) if address == "auto" else places.to_path(address)
        assert path is not None
        attachment = Attachment(path, Settings.joining(address, given), given)
    attachment.is_client = places.is_client(address)
    try:
        exports.share_job_environment(attachment.process)
    except BaseException:  # a folder that is too large, or Ctrl-C meanwhile
        attachment.shutdown()
        raise
    return attachment


def _join_cluster(cluster: str, given: dict[str, Any], is_client: bool) -> Attachment:
    from skate.node.driver.address import directory
    from skate.node.network import node_of  # few drivers name the address of a cluster

    path = node_of(cluster, directory())
    if path is not None:
        return Attachment(path, Settings.joining(cluster, given), given)
    from skate.client.session.remote_cluster import DriverNode  # starts a process

    settings = Settings.joining(cluster, given)
    node = DriverNode(cluster, is_client, given)
    try:
        attachment = Attachment(node.path, settings, given)
    except BaseException:  # also Ctrl-C
        node.end()
        raise
    attachment.node = node
    return attachment
