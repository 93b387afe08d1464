"""Channels of a compiled graph: values are sent through rings in shared memory.

The node is not involved: one process packs a value, and another unpacks it. Only refs and handles inside values concern
the node; the writer keeps them until their slot is used again.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from skate.client import failures
from skate.client.runtime_context import node_ip_address
from skate.client.session import session
from skate.wire import values
from skate.wire.failures import format_remote_traceback, pack_exception
from skate.wire.rings import Closed, Place, RingFile, RingPlan, RingReader, RingWriter

__all__ = ["Closed", "Failure", "GraphFile", "Message", "Place", "RingPlan", "ValueReader", "ValueWriter"]

VALUE, FAILURE = 0, 1
#: The concurrency group of the loops of graphs. Its calls run beside all other calls of an actor.
SYSTEM_GROUP = "_ray_system"


class Failure:
    """Replaces a value that could not be computed."""

    __slots__ = ("payload",)

    def __init__(self, payload: bytes) -> None:
        self.payload = payload

    @classmethod
    def of(cls, error: BaseException, name: str, actor: Any = None) -> Failure:
        """Return the failure of a method, from which the driver rebuilds the exception."""
        text = format_remote_traceback(error)
        fields = {
            "function": name,
            "traceback": text,
            "cause": pack_exception(error, text),
            "pid": os.getpid(),
            "ip": node_ip_address(),
        }
        if actor is not None:
            try:
                fields["actor_repr"] = repr(actor)
            except Exception:  # the user's __repr__ failed
                fields["actor_repr"] = f"<{type(actor).__name__}>"
        return cls(pickle.dumps(("RayTaskError", fields), 5))

    def exception(self) -> BaseException:
        """Return a new exception to raise."""
        return failures.to_exception(pickle.loads(self.payload), None, session.current_or_none())


class Message:
    """A value or a failure as bytes, ready for any number of rings."""

    __slots__ = ("parts", "size", "kind", "met")

    def __init__(self, value: Any) -> None:
        if type(value) is Failure:
            self.parts: list[Any] = [value.payload]
            self.size, self.kind = len(value.payload), FAILURE
            self.met: list[Any] = []
            return
        packed = values.pack(value)
        self.parts = packed.parts()
        self.size = packed.size
        self.kind = VALUE
        self.met = packed.met
        if packed.met:
            process = session.current()
            with process.lock:
                for inner in packed.met:
                    process.escape(inner)
                process.link.flush()


class ValueWriter:
    """Writes values into a ring."""

    def __init__(self, file: GraphFile, ring: int) -> None:
        self._ring = RingWriter(file.rings, ring)
        self._kept: dict[int, list[Any]] = {}

    def wait_for_room(self, until: float | None) -> bool:
        """Wait for a free slot; return False after the deadline (monotonic). Raises Closed."""
        return self._ring.wait_for_room(until)

    def write(self, packed: Message) -> None:
        """Write into the next slot, which must be free."""
        slot = self._ring.write(packed.parts, packed.size, packed.kind)
        if packed.met or self._kept:
            self._kept[slot] = packed.met

    def close(self) -> None:
        """Release written values."""
        self._ring.close()
        self._kept = {}


class ValueReader:
    """Reads values from a ring."""

    def __init__(self, file: GraphFile, ring: int) -> None:
        self._file = file.rings
        self._ring = RingReader(file.rings, ring)

    @property
    def taken(self) -> int:
        """The number of messages read so far."""
        return self._ring.taken

    def ready(self) -> bool:
        """Return True if a message is ready."""
        return self._ring.ready()

    def read(self) -> Any:
        """Return the next value, or its Failure; one must be ready. Raises Closed if its writer is gone."""
        view, kind = self._ring.peek()
        try:
            if kind == FAILURE:
                return Failure(bytes(view))
            return values.unpack(view)
        finally:
            view = None
            self._ring.done()

    def skip(self) -> None:
        """Skip the next value, which must be ready."""
        self._ring.done()

    def wait(self, until: float | None) -> bool:
        """Wait for a message; return False after the deadline (monotonic). Raises Closed."""
        return self._file.wait(self._ring.ready, until)

    def close(self) -> None:
        """Release the messages read; arrays that were read stay valid."""
        self._ring.close()


class GraphFile:
    """The shared memory of one compiled graph, as one of its processes sees it."""

    def __init__(self, place: Place, member: int, create: bool = False) -> None:
        self.rings = RingFile(place, member, create)
        self.member = member
        self._parent = -1
        self.rings.enter()

    def watch(self, member: int) -> None:
        """Stop waiting once that member's process has ended."""
        pid = self.rings.pid_of(member)
        if pid == os.getpid():
            return
        try:
            fd = os.pidfd_open(pid)
        except (OSError, AttributeError):  # the process has ended, or the kernel is too old
            fd = -1
        self._parent = fd
        self.rings.look = lambda: _gone(pid, fd)

    def wait_any(self, ready: Callable[[], bool], until: float | None) -> bool:
        """Wait until `ready` is true; return False after the deadline (monotonic). Raises Closed."""
        return self.rings.wait(ready, until)

    def wait_until_left(self, members: list[int], seconds: float) -> list[int]:
        """Wait until these members have left or died; return those that have not after `seconds`."""
        until = time.monotonic() + seconds
        pause = 0.0002
        while True:
            left = [each for each in members if not self.rings.has_left(each)]
            left = [each for each in left if not _gone(self.rings.pid_of(each), -1)]
            if not left or time.monotonic() >= until:
                return left
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def own_members(self) -> list[int]:
        """Return the members, except the driver, that are threads of this process."""
        pids = {member: self.rings.pid_of(member) for member in range(1, self.rings.place.members)}
        return [member for member, pid in pids.items() if pid == os.getpid()]

    def close(self) -> None:
        """Release the rings."""
        self.rings.close()
        fd, self._parent = self._parent, -1
        if fd >= 0:
            os.close(fd)


def _gone(pid: int, fd: int) -> bool:
    if not pid:
        return False
    if fd >= 0:
        import select  # only long waits need it

        return bool(select.select([fd], [], [], 0)[0])
    try:
        os.kill(pid, 0)
    except OSError:
        return True
    return False


def adopt_call() -> Callable[[], None]:
    """Return a function that makes another thread part of the current call."""
    process = session.current()
    context = process.context
    running = None if context is None else context.current()

    def enter() -> None:
        if running is not None:
            context.enter(running)

    return enter


class Watch:
    """Calls a function, in its own thread, when one of several processes ends. `close` ends the thread."""

    def __init__(self, pids: dict[int, int], on_end: Callable[[int], None]) -> None:
        import select  # only a graph needs it

        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._fds: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(self._stop, select.POLLIN)
        self._on_end = on_end
        self._early: list[int] = []
        for key, pid in pids.items():
            try:
                fd = os.pidfd_open(pid)
            except OSError:  # the process has already ended
                self._early.append(key)
                continue
            self._fds[fd] = key
            self._poll.register(fd, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="skate-graph-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for key in self._early:
            self._on_end(key)
        ended = bool(self._early)
        while not ended:
            for fd, _ in self._poll.poll():
                ended = True
                if fd != self._stop:
                    self._on_end(self._fds[fd])
        for fd in (*self._fds, self._stop):
            os.close(fd)
        self._on_end = lambda key: None

    def close(self) -> None:
        """Stop watching."""
        if self._thread.is_alive():
            try:
                os.eventfd_write(self._stop, 1)
            except OSError:  # the thread has just ended
                return
            if self._thread is not threading.current_thread():
                self._thread.join(1)


def at_shutdown(call: Callable[[], None]) -> None:
    """Register a function that `shutdown` calls while the session still runs."""
    session.endings.append(call)
