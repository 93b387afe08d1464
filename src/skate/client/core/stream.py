"""The values of a streaming call that have arrived, and the credit its reader gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client.object.object_ref import ObjectRef
from skate.protocol import messages as m
from skate.protocol.messages import PENDING

if TYPE_CHECKING:
    from skate.client.core.owner import Owner

PICKLED_NONE = b"\x80\x05N."
#: The number of values reported as taken once the reader is gone, so that a generator under backpressure runs to its end.
ALL = 2**62


class Stream:
    """The values of a stream that have arrived but were not taken yet."""

    __slots__ = (
        "task_id",
        "process",
        "ready",
        "arrived",
        "count",
        "taken",
        "site",
        "waiters",
        "whole",
        "last",
        "failure",
        "dropped",
        "backpressure",
    )

    def __init__(self, task_id: bytes, process: Owner, site: Any = None, backpressure: bool = False) -> None:
        self.task_id = task_id
        self.process = process
        self.ready: deque[ObjectRef[Any]] = deque()
        self.arrived = 0
        self.count: int | None = None
        self.taken = 0
        self.site = site
        self.waiters: list[Callable[[], None]] = []
        #: Index 0 stands for the whole task; the items begin at 1.
        self.whole: ObjectRef[Any] = ObjectRef(task_id + b"\0\0\0\0", process, PENDING)
        self.whole._site = site
        self.last: ObjectRef[Any] | None = None  # the error that it ends with
        self.failure: tuple[str, dict[str, Any]] | None = None  # as (class name, fields), once it has ended
        self.dropped = False  # the reader is gone
        #: True if the generator waits for its reader. Only then is the reader's progress reported.
        self.backpressure = backpressure

    def add(self, index: int, ref: ObjectRef[Any]) -> None:
        """Add the next value."""
        self.arrived = index
        self.last = ref if ref._kind == m.ERROR else None
        if self.dropped:
            ref._held = ()
        else:
            self.ready.append(ref)
        if self.waiters:
            self.wake()

    def end(self, count: int) -> None:
        """Mark the end of the stream."""
        self.count = count
        last, self.last = self.last, None
        self.failure = None if last is None else last._value
        self.settle(last)
        self._publish()
        self.process.wake(self.whole)
        self.wake()

    def settle(self, last: ObjectRef[Any] | None) -> None:
        """Give the ref of the whole task its value. As in Ray, it is None also if the generator itself has raised."""
        whole = self.whole
        if last is not None and not self.raised():
            whole._value, whole._kind = last._value, m.ERROR
            self.process.failed += 1
            whole._held = ()  # the last item reports the error if it is never read
        else:
            whole._value, whole._kind = PICKLED_NONE, m.INLINE

    def raised(self) -> bool:
        """Return True if the generator has ended with an exception of its own: it ran, and was not cancelled."""
        if self.failure is None:
            return False
        name, fields = self.failure
        return name == "RayTaskError" and not fields.get("cancelled") and not fields.get("through")

    def _publish(self) -> None:
        """Publish the value of the whole task's ref, if the ref escaped while the task ran."""
        whole, process = self.whole, self.process
        if whole._grants:
            inside = whole._held if isinstance(whole._held, list) else ()
            held = tuple(process.escape(ref) for ref in inside)
            process.send(m.Publish(m.PUBLISH, whole._id, whole._kind, whole._value, held, False))

    def wake(self) -> None:
        """Call the waiters for the stream's next value or its end."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()

    def drop(self) -> None:
        """Discard present and future values, including errors."""
        self.dropped = True
        for ref in (*self.ready, self.whole):
            if not isinstance(ref._held, list):
                ref._held = ()
        self.ready.clear()

    def abandon(self) -> None:
        """Release a generator from waiting for its reader, which is gone."""
        if self.backpressure and self.count is None and not self.dropped:
            self.process.send(m.Consumed(m.CONSUMED, self.task_id, ALL))
        self.drop()

    def moved(self) -> bool:
        """Return True if there is a value to take, or the stream has ended."""
        return bool(self.ready) or self.count is not None or self.process.closed

    def take(self) -> ObjectRef[Any] | None:
        """Return the next ref, or None at the end. Call it only if `moved()` is true."""
        if self.ready:
            ref = self.ready.popleft()
            self.taken += 1
            if self.backpressure and self.count is None:
                self.process.send(m.Consumed(m.CONSUMED, self.task_id, self.taken))
            return ref
        if self.count is None:
            raise self.process.ended()
        return None
