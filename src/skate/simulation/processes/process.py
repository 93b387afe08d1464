"""A scripted process: the real client core, driven by a program instead of user code.

Programs consist of *operations* (see `programs.spec`). Each operation runs as a generator that yields where other events could
happen before the real process continues. It yields None to continue at its next turn, or a function that returns True once it
can. Refs, holds, streams and all messages about them come from `skate.client.core`. This module adds the turns of the process,
its channels, values (tuples instead of pickles), and the checks of incoming messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client.core.client_core import ClientCore
from skate.client.core.wait import Wait
from skate.protocol import messages as m
from skate.simulation.processes.frame import Frame, Ref
from skate.simulation.processes.object_operations import ObjectOperations
from skate.simulation.processes.placement_operations import PlacementOperations
from skate.simulation.programs.spec import Operation, Spec, Thread

if TYPE_CHECKING:
    from skate.simulation.nodes.cluster import Cluster

NODE_TAG = b"nodenode"
JOB = b"job0"
# A process forgets all its keys at this number; it is small, so that this happens often.
EXPORTED_MAX = 3


class Caller:
    """The task whose program runs: the parent of the tasks that it submits."""

    parent = b""

    def task_id(self) -> bytes:
        """Its id; empty for a driver's own program."""
        return self.parent


class Process(ClientCore, ObjectOperations, PlacementOperations):
    """One driver, or the part of a worker that drivers have too."""

    is_worker = False
    started = True  # it takes messages

    def __init__(self, cid: int, cluster: Cluster) -> None:
        self.outbox: deque[tuple[Any, ...]] = deque()
        super().__init__(cid, NODE_TAG, JOB, self._emit, lambda: None)
        self.cluster = cluster
        self.alive = True
        #: Times until which incoming messages, outgoing messages and the process itself are held.
        self.held_in = self.held_out = self.stopped = 0.0
        self.inbox: deque[tuple[Any, ...]] = deque()
        self.exported: set[bytes] = set()
        self.frame = Frame()
        self.todo: deque[Operation] = deque()
        self.thread: Thread | None = None
        self.waiting: Callable[[], bool] | None = None
        self.is_driver = not self.is_worker
        self.context = Caller()
        #: Requests whose asker was interrupted.
        self.withdrawn: set[int] = set()

    # -- turns

    def can_act(self) -> bool:
        """Return True if its program can take another step."""
        if self.thread is None:
            return bool(self.todo)
        return self.waiting is None or self.waiting()

    def act(self) -> None:
        """Advance by one step."""
        if self.thread is None:
            self.thread = self.perform(self.todo.popleft(), self.frame, b"")
        try:
            self.waiting = next(self.thread)
        except StopIteration:
            self.thread = self.waiting = None

    def frames(self) -> list[Frame]:
        """Return the variables of all programs that run."""
        return [self.frame]

    def hear(self, message: tuple[Any, ...]) -> None:
        """Handle one message from the node."""
        self.handlers[message[0]](message)

    def end(self) -> None:
        """End the process: it sends nothing more."""
        super().end()
        self.alive = False
        self.thread = self.waiting = None
        self.todo.clear()
        self.inbox.clear()
        self.frame.clear()
        self.pending_releases.clear()

    def _emit(self, message: tuple[Any, ...]) -> None:
        assert self.alive, f"{self} has ended, and sends {message}"
        self.outbox.append(message)

    # -- checks of incoming messages

    def _result(self, message: m.Result) -> None:
        _, oid, kind, payload, _, _ = message
        assert oid in self.pending, f"a result came twice, or unasked: {message}"
        self.cluster.observer.saw(oid, kind, payload)
        super()._result(message)

    def _value(self, message: m.Value) -> None:
        assert message[1] in self.pending, f"a value came twice, or unasked: {message}"
        self.cluster.observer.received(message[1], message[2], message[3])
        super()._value(message)

    def _reply(self, message: m.Reply) -> None:
        number = message[1]
        if number in self.withdrawn:
            self.withdrawn.discard(number)
        else:
            assert number in self.answers and self.answers[number] is None, message
        super()._reply(message)

    def _stream(self, message: m.Stream) -> None:
        _, task_id, index, *_ = message
        assert index == self.streams[task_id].arrived + 1, f"an item is missing or came twice: {message}"
        super()._stream(message)

    def _stream_end(self, message: m.StreamEnd) -> None:
        _, task_id, count = message
        assert self.streams[task_id].arrived == count, message
        super()._stream_end(message)
        self.cluster.observer.saw(task_id + b"\0\0\0\0", m.INLINE, None)

    def _deadlock(self, message: m.Deadlock) -> None:
        if self.cluster.condemns(self, message[1]):
            super()._deadlock(message)

    # -- parts of operations

    def perform(self, operation: Operation, frame: Frame, parent: bytes) -> Thread:
        """Run one operation of a program."""
        word, *arguments = operation
        thread: Thread = getattr(self, "do_" + word)(frame, parent, *arguments)
        result = yield from thread
        return result

    def do_several(self, frame: Frame, parent: bytes, operations: tuple[Operation, ...]) -> Thread:
        """Run several operations in order."""
        for operation in operations:
            yield from self.perform(operation, frame, parent)

    def answer(self, number: int) -> Thread:
        """Wait for the reply to a request: (ok, value)."""
        try:
            yield lambda: self.answers[number] is not None
        finally:
            answer = self.answers.pop(number)
            if answer is None:
                self.withdrawn.add(number)
        return answer

    def block(self, ready: Callable[[], bool], parent: bytes, what: Any) -> Thread:
        """Wait until `ready` is true, or until this takes too long, or never ends; `what` is a ref or a generator.

        A real process reports only waits that last; here all are reported, so that the node has the more to judge.
        """
        wait = Wait([what], 0, parent)
        self.begin_wait(wait)
        try:
            yield lambda: ready() or wait.verdict is not None or self.cluster.timed_out(self)
        finally:
            self.end_wait(wait)

    def template(self, spec: Spec) -> bytes:
        """Register a function and its options; return the key to submit it by."""
        key = spec.key
        if len(self.exported) > EXPORTED_MAX:
            self.send(m.Forget(m.FORGET, tuple(sorted(self.exported))))
            self.exported.clear()
        if key not in self.exported:
            self.exported.add(key)
            if spec.function:
                self.exported.add(spec.function)
                self.send(m.Function(m.FUNCTION, spec.function, b"code", ()))
            self.send(m.Template(m.TEMPLATE, key, spec.fields()))  # type: ignore[arg-type]
        return key

    def load(self, ref: Ref) -> list[Any]:
        """Return the refs inside a value."""
        if ref._kind == m.INLINE and isinstance(ref._value, tuple):
            return [self.adopt(each, 0) for each in ref._value[1]]
        if ref._kind == m.ARENA:
            self.cluster.observer.reads(self.cluster, ref, ref._value)
            return [self.adopt(each, 0) for each in self.cluster.memory[ref._value[0]][1]]
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.cid}>"
