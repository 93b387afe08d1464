"""One process as a client of its node: the tables of `ClientCore`, with a lock, a link and the packing of values.

There is one `Process` per driver or worker. It reaches its node through a *link*: a direct call in an embedded driver,
the channel in a worker. State changes only under the engine lock; values are packed and unpacked outside it.
"""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from skate.client import failures
from skate.client.core.client_core import ClientCore
from skate.client.object import large_values, views
from skate.client.object.object_ref import ObjectRef
from skate.client.session.link import THROTTLE_EVERY, Link
from skate.protocol import messages as m
from skate.protocol.messages import ARENA, ERROR, INLINE, PENDING, UNKNOWN
from skate.protocol.values import LOOPBACK
from skate.wire import values
from skate.wire.pump import Pump


class Process(ClientCore):
    """The client core of this process, and its link to the node."""

    __slots__ = (
        "_since_drain", "began_ms", "exported", "job_environment", "link", "lock", "looks", "mapping", "namespace", "node_id",
        "node_ip_address", "packages", "pump", "realm", "tensors", "unused",
    )  # fmt: skip

    link: Link

    def __init__(self, cid: int, pump: Pump, node_tag: bytes, job: bytes) -> None:
        super().__init__(cid, node_tag, job, _unconnected, pump.kick)
        self.pump = pump
        self.lock = pump.lock
        self.mapping: Any = None
        self.namespace = ""
        self.node_id = b"\0" * 28
        self.node_ip_address = LOOPBACK
        self.job_environment: dict[str, Any] | None = None
        #: The node's cache of packages, if other machines fetch them from there; else empty.
        self.packages = ""
        #: The job id in hexadecimal, a part of function keys, if the node serves several jobs; else empty.
        self.realm = ""
        #: Keys that the node knows, with the objects that keep them in use here; and the keys that are no longer used.
        self.exported: dict[bytes, weakref.ref[Any]] = {}
        self.unused: deque[bytes] = deque()
        #: Tensors that stay in this process, for holders of the refs; see `client.tensor_store`.
        self.tensors: Any = None
        #: It only reads the state of the session, so lists of programs leave it out.
        self.looks = False
        #: When this process joined the session, in milliseconds since the epoch.
        self.began_ms = int(time.time() * 1000)
        self._since_drain = 0
        self.handlers[m.SURVEY] = self._survey

    def identify(self, cid: int) -> None:
        """Take the number under which the node knows this process, if it was made before that was known."""
        self.cid = cid
        self.tail = self.tail[:8] + cid.to_bytes(4, "little") + self.job
        self.began_ms = int(time.time() * 1000)

    # -- out

    def connect(self, link: Link) -> None:
        """Send through this link from now on."""
        self.link = link
        self.emit = link.send

    def submitted(self) -> None:
        """Read incoming messages after every few submissions. The lock is held."""
        self._since_drain = since = self._since_drain + 1
        if since >= THROTTLE_EVERY:
            self._since_drain = 0
            self.link.throttle()
            if self.pending:
                self.pump.drain()

    def request(self, verb: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Send a request to the node and return its reply; raise the node's error."""
        with self.lock:
            self._check_open()
            return self._answer(self.ask(verb, *arguments), timeout)

    def _answer(self, number: int, timeout: float | None = None) -> Any:
        answer = self.wait_for_answer(number, timeout)
        if answer is None:
            if self.lost:
                raise self.ended()
            raise RuntimeError("the session ended during a request to its node")
        ok, value = answer
        if not ok:
            raise failures.to_exception(value, None, self)
        return value

    def wait_for_answer(self, number: int, timeout: float | None = None) -> tuple[bool, Any] | None:
        """Wait for the answer to a request; return None after `timeout` or if the session ends. The lock is held."""
        answers = self.answers
        try:
            if answers[number] is None:
                self.link.flush()
                self.pump.wait(lambda: answers[number] is not None or self.closed, timeout)
        finally:
            answer = answers.pop(number)  # an answer that arrives after an interrupt is dropped
        return answer

    def allocate(self, oid: bytes, size: int) -> int | None:
        """Allocate arena memory for a value; return its offset, or None if the value is already there. The lock is held."""
        offset: int | None = self._answer(self.ask_for_memory(oid, size))
        return offset

    # -- refs that travel

    def intern(self, oid: bytes) -> ObjectRef[Any]:
        """Return the ref for an id found inside a value, and tell the node that this process holds it."""
        with self.lock:
            return self._adopt(oid, 0)

    def keep_forever(self, ref: ObjectRef[Any]) -> None:
        """Keep a ref that was pickled outside of any task; see `ClientCore`."""
        with self.lock:
            super().keep_forever(ref)
            self.link.flush()

    def show_unhandled(self, error: tuple[str, dict[str, Any]], site: Any) -> None:
        """Print an error that was never read."""
        failures.print_unhandled(error, site)

    # -- in

    def _confirm(self, message: m.Confirm) -> None:
        """CONFIRM: report all waits again, after releasing what the garbage collector frees. The lock is held."""
        _, round_number = message
        if round_number:
            gc.collect()
        super()._confirm(message)
        self.link.flush()

    def ask_everybody(self, kinds: tuple[str, ...], timeout: float) -> None:
        """Ask all processes of the session for something, and wait until they have done it, or for some seconds."""
        from skate.client.state import survey  # as below

        survey.ask(self, kinds, timeout, {}, 0, False)

    def _survey(self, message: m.Survey) -> None:
        from skate.client.state import survey  # imported only when a survey is requested

        survey.answer(self, message)
        self.link.flush()  # the loop of an asyncio actor may poll again only much later

    def report_metrics(self) -> None:
        """Send the metrics that this process has recorded, if any, to the node."""
        metrics = sys.modules.get("skate.client.metrics")
        if metrics is not None:
            with self.lock:
                metrics.report(self)

    # -- values

    def when_ready(self, ref: ObjectRef[Any], call: Callable[[], None]) -> None:
        """Call `call` under the lock when a ref has its value, or at once if it already has."""
        with self.lock:
            self._check_open()
            self.ask_for(ref)
            if ref._kind != PENDING:
                call()
                return

            def arrived() -> None:
                if ref._kind >= UNKNOWN and not self.closed:  # the value is on another node
                    self.when_ready(ref, call)
                else:
                    call()

            if ref._waiters is None:
                ref._waiters = []
            ref._waiters.append(arrived)
            self.link.flush()
            self.pump.wake_background()

    def load(self, ref: ObjectRef[Any]) -> Any:
        """Unpack the value of a ready ref, or raise it if it is an error."""
        while True:
            kind = ref._kind
            if kind == INLINE:
                try:
                    return values.unpack(ref._value)
                except Exception as error:  # the user's code may raise anything
                    raise failures.unreadable(error) from error
            if kind == ERROR:
                ref._forgive()
                raise failures.to_exception(ref._value, ref._site, self)
            found = views.view(self, ref) if kind == ARENA else views.awaited_view(self, ref)
            if found is not None:
                try:
                    return values.unpack(found)
                except Exception as error:  # the user's code may raise anything
                    found = None  # or the traceback would keep the memory alive
                    raise failures.unreadable(error) from error
            if self.closed:
                raise self.ended()

    def store(self, value: Any, oid: bytes | None = None) -> ObjectRef[Any]:
        """Store a value and return its ref: a small value stays in the process, a large one goes into the arena."""
        packed = values.pack(value)
        if packed.size <= values.INLINE_BYTES_MAX:
            blob = packed.joined()
            with self.lock:
                self._check_open()
                ref: ObjectRef[Any] = ObjectRef(oid or self.next_object_id(), self, INLINE, blob)
                if packed.met:
                    self.keep_inside(ref, packed.met)
            return ref
        with self.lock:
            self._check_open()
            ref = ObjectRef(oid or self.next_object_id(), self, PENDING)
            self.place(ref, large_values.write(self, ref._id, packed), packed.met)
            self.link.flush()
        return ref


def _unconnected(message: m.ToNode) -> None:
    raise RuntimeError("this process is not connected to a node yet")
