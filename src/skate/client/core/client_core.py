"""The tables of one process and the messages that change them, without a lock, link or thread.

Messages from the node come in through `handlers`. Messages to the node go out through `emit`, and `kick` requests a `tidy`
soon. Waiters are callbacks, in the `_waiters` of a ref or the `waiters` of a stream. `client.Process` adds the engine lock,
the link and the input loop; the simulator drives this class directly. Callers hold the lock, except for methods that are
documented as callable from a finalizer.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client.actor.actor_hold import ActorHold
from skate.client.object.id_generator import IdGenerator
from skate.client.object.object_ref import ObjectRef
from skate.protocol import messages as m
from skate.protocol.messages import ARENA, ERROR, INLINE, PENDING, REMOTE, UNKNOWN

if TYPE_CHECKING:
    from skate.client.core.stream import Stream
    from skate.client.core.wait import Wait

ErrorValue = tuple[str, dict[str, Any]]


class ClientCore(IdGenerator):
    """The tables of one process: refs, holds, streams, questions and waits."""

    __slots__ = (
        "_number", "abandoned", "actors", "answers", "cid", "closed", "context", "emit", "exiting", "failed", "pending_releases",
        "handlers", "immortal", "is_driver", "kick", "known", "lost", "pending", "streams", "unhandled", "waits",
        "waits_count",
    )  # fmt: skip

    def __init__(
        self,
        cid: int,
        node_tag: bytes,
        job: bytes,
        emit: Callable[[m.ToNode], None],
        kick: Callable[[], None],
    ) -> None:
        self.cid = cid
        self.job = job
        #: Last 16 bytes of every task id made here.
        self.tail = node_tag[:8] + cid.to_bytes(4, "little") + job
        self.emit = emit
        self.kick = kick
        self.is_driver = False
        self.closed = False
        self.exiting = False  # the interpreter is shutting down, so only daemon threads can still wait
        self.lost = ""  # why the node is gone, if it was not shut down
        self.count = 0
        self.puts = 0
        #: The number of values received that are errors.
        self.failed = 0
        #: Refs whose results have not arrived. Held here, so that a ref dropped by the user still receives its result.
        self.pending: dict[bytes, ObjectRef[Any]] = {}
        #: Refs that this process holds with the node's knowledge.
        self.known: dict[bytes, weakref.ref[ObjectRef[Any]]] = {}
        #: Held actors, by id.
        self.actors: dict[bytes, weakref.ref[Any]] = {}
        self.pending_releases: deque[tuple[bytes, int]] = deque()
        self.unhandled: deque[tuple[Any, Any]] = deque()
        #: Streams whose reader is gone.
        self.abandoned: deque[Any] = deque()
        self.answers: dict[int, tuple[bool, Any] | None] = {}
        self.streams: dict[bytes, Stream] = {}
        #: Waits reported to the node, by number.
        self.waits: dict[int, Wait] = {}
        self.waits_count = 0
        self.immortal: list[Any] = []
        #: The running task, by its `task_id()`; None in a driver's own code.
        self.context: Any = None
        self._number = 0
        self.handlers: dict[int, Callable[[Any], None]] = {
            m.RESULT: self._result,
            m.VALUE: self._value,
            m.REPLY: self._reply,
            m.STREAM: self._stream,
            m.STREAM_END: self._stream_end,
            m.RECALL: self._recall,
            m.CONFIRM: self._confirm,
            m.DEADLOCK: self._deadlock,
        }

    # -- out

    def send(self, message: m.ToNode) -> None:
        """Send a message, after any pending releases."""
        if self.pending_releases:
            self.tidy()
        self.emit(message)

    def submitted(self) -> None:
        """Continue after a submission."""

    def next_number(self) -> int:
        """Return a number for a new request."""
        self._number = number = self._number + 1
        self.answers[number] = None
        return number

    def ask(self, verb: str, *arguments: Any) -> int:
        """Send a request; its answer will be in `answers` under the returned number."""
        number = self.next_number()
        self.send(m.Request(m.REQUEST, number, verb, arguments))
        return number

    def ask_for_memory(self, oid: bytes, size: int) -> int:
        """Request memory in the arena for a value: the answer is its offset, or None if the value is already there."""
        number = self.next_number()
        self.send(m.Allocate(m.ALLOCATE, number, oid, size))
        return number

    def _check_open(self) -> None:
        if self.closed:
            if self.lost:
                raise self.ended()
            raise RuntimeError("the session has been shut down; call init() to start another")

    # -- refs that travel

    def new_pending(self, task_id: bytes, returns: int) -> list[ObjectRef[Any]]:
        """Create the refs for the results of a task about to be submitted."""
        refs = []
        for index in range(1, returns + 1):
            ref: ObjectRef[Any] = ObjectRef(task_id + index.to_bytes(4, "little"), self, PENDING)
            self.pending[ref._id] = ref
            refs.append(ref)
        return refs

    def escape(self, ref: Any) -> bytes:
        """Make a ref or handle known to the node before it is passed on; return its id."""
        if not isinstance(ref, ObjectRef):
            actor_id: bytes = ref._skate_id
            hold = ref if isinstance(ref, ActorHold) else ref._skate_hold
            if hold is not None and hold.process is not self:
                raise ValueError(
                    f"{ref!r} belongs to a session that has ended; actors end with shutdown(); start it again"
                )
            return actor_id
        if ref._process is not self:
            if ref._process is None and ref._kind == UNKNOWN:
                return ref._id
            raise ValueError(
                f"{ref!r} belongs to a session that has ended; refs do not outlive shutdown(); create the value again"
            )
        if ref._grants:
            return ref._id
        ref._grants = 1
        self.known[ref._id] = weakref.ref(ref)
        if ref._kind == PENDING:
            self.send(m.Escape(m.ESCAPE, ref._id))
        else:
            inside = ref._held if isinstance(ref._held, list) else ()  # or a mark, if it failed
            held = tuple(self.escape(inner) for inner in inside)
            self.send(m.Publish(m.PUBLISH, ref._id, ref._kind, ref._value, held, True))
        return ref._id

    def intern(self, oid: bytes) -> ObjectRef[Any]:
        """Return the ref for an id found inside a value, and tell the node that this process holds it."""
        return self._adopt(oid, 0)

    def adopt(self, any_id: bytes, granted: int) -> Any:
        """Return the ref or hold for a received id. Without a grant, tell the node that this process holds it."""
        return self._adopt(any_id, granted) if len(any_id) == 28 else self.hold_actor(any_id, granted)

    def adopt_any(self, any_id: bytes) -> Any:
        """Take over a grant that came with a message, of an object or an actor."""
        return self.adopt(any_id, 1)

    def _adopt(self, oid: bytes, granted: int) -> ObjectRef[Any]:
        ref = self.pending.get(oid)
        if ref is None:
            ref = self._known(oid)
        if ref is None:
            ref = ObjectRef(oid, self, UNKNOWN)
            self.known[oid] = weakref.ref(ref)
            if not granted:
                ref._grants = 1  # before `send`, which may tidy and drop refs without grants
                self.send(m.Hold(m.HOLD, oid))
        ref._grants += granted
        return ref

    def _known(self, oid: bytes) -> ObjectRef[Any] | None:
        """Return the live ref for an id in `known`, or None. A ref that is being finalized has no grants and does not count."""
        weak = self.known.get(oid)
        ref = weak() if weak is not None else None
        return ref if ref is not None and ref._grants else None

    def hold_actor(self, actor_id: bytes, granted: int) -> ActorHold:
        """Return this process's hold on an actor."""
        hold = self.know_actor(actor_id)
        if not hold.grants and not granted:
            hold.grants = 1
            self.send(m.Hold(m.HOLD, actor_id))
        hold.grants += granted
        return hold

    def know_actor(self, actor_id: bytes) -> ActorHold:
        """Return the state shared by an actor's handles in this process. Does not keep the actor alive."""
        weak = self.actors.get(actor_id)
        hold: ActorHold | None = weak() if weak is not None else None
        if hold is None or not hold.grants:
            hold = ActorHold(actor_id, self)
            self.actors[actor_id] = weakref.ref(hold)
        return hold

    def keep_inside(self, ref: ObjectRef[Any], met: list[Any]) -> None:
        """Make a small value of this process keep the refs and handles inside it alive."""
        for inner in met:  # they come back by their ids when the value is unpacked
            self.escape(inner)
        ref._held = [
            inner if isinstance(inner, (ObjectRef, ActorHold)) else inner._skate_hold for inner in met
        ]

    def place(self, ref: ObjectRef[Any], place: tuple[int, int], met: list[Any]) -> None:
        """Record that a ref's value is in the arena, and notify the node, which may move it from now on."""
        held = tuple(self.escape(inner) for inner in met)
        ref._value = place
        ref._kind = ARENA
        ref._grants = 1
        self.known[ref._id] = weakref.ref(ref)
        self.send(m.Put(m.PUT, ref._id, held))

    def cannot_store(self, oid: bytes, text: str) -> ErrorValue:
        """Publish that a value of this process could not be written, and return the error."""
        error = ("OutOfDiskError", {"message": text})
        self.send(m.Publish(m.PUBLISH, oid, ERROR, error, (), False))
        return error

    def withdraw(self, oid: bytes) -> None:
        """Free the memory requested for a value that will not be written."""
        if not self.closed:
            self.send((m.FREE, oid, 0))

    def keep_forever(self, ref: ObjectRef[Any]) -> None:
        """Keep a ref that was pickled outside of any task. It can no longer be counted, so its value stays for the session."""
        self.escape(ref)
        self.immortal.append(ref)

    def release_later(self, any_id: bytes, grants: int) -> None:
        """Record that a ref or hold is gone. Callable from a finalizer, in any thread, at any time."""
        first = not self.pending_releases
        self.pending_releases.append((any_id, grants))
        if first and not self.closed:
            self.kick()

    def report_unhandled(self, error: tuple[str, dict[str, Any]], site: Any) -> None:
        """Record that a failed ref was dropped before its error was read. Callable from a finalizer."""
        wanted = self.is_driver and not self.closed and error[0] == "RayTaskError"
        if wanted and not error[1].get("cancelled") and not sys.is_finalizing():
            self.unhandled.append((error, site))
            self.kick()

    def abandon(self, stream: Any) -> None:
        """Drop a stream that has no reader any more; callable from a finalizer."""
        if not self.closed and not sys.is_finalizing():
            self.abandoned.append(stream)
            self.release_later(stream.task_id, 0)  # which has `tidy` called

    def tidy(self) -> None:
        """Send pending releases to the node."""
        while self.abandoned:
            self.abandoned.popleft().abandon()
        while self.unhandled:
            self.show_unhandled(*self.unhandled.popleft())
        pending_releases = self.pending_releases
        while pending_releases:
            any_id, grants = pending_releases.popleft()
            if not grants:  # of a stream
                continue
            table: dict[bytes, Any] = self.known if len(any_id) == 28 else self.actors
            weak = table.get(any_id)
            if weak is not None:
                found = weak()
                if found is None or not (found._grants if table is self.known else found.grants):
                    del table[any_id]
            self.emit((m.FREE, any_id, grants))

    def show_unhandled(self, error: tuple[str, dict[str, Any]], site: Any) -> None:
        """Handle an error that was never read."""

    # -- in

    def _result(self, message: m.Result) -> None:
        _, oid, kind, payload, held, kept = message
        ref = self.pending.pop(oid, None)
        if ref is None:
            self._return_grants(oid, held, kept)
        elif kind == INLINE and not (kept or held or ref._grants):  # most of them
            ref._value = payload
            ref._kind = INLINE
            if ref._waiters is not None:
                self.wake(ref)
        else:
            self._fill(ref, kind, payload, held, kept)

    def _return_grants(self, oid: bytes, held: tuple[bytes, ...], kept: int) -> None:
        # After close the node reclaims everything that a leaving driver holds, so there is nothing to return.
        if self.closed:
            return
        if kept:
            self.send((m.FREE, oid, 1))
        else:
            for other in held:
                self.send((m.FREE, other, 1))

    def _fill(self, ref: ObjectRef[Any], kind: int, payload: Any, held: tuple[bytes, ...], kept: int) -> None:
        if kept:
            if not ref._grants:
                self.known[ref._id] = weakref.ref(ref)
            ref._grants += 1
        elif held:
            ref._held = [self.adopt(other, 1) for other in held]
        ref._value = payload
        ref._kind = kind
        if kind == ERROR:
            self.failed += 1
        if ref._grants and not kept:  # the ref escaped before its result arrived
            inner = tuple(self.escape(other) for other in ref._held or ())
            self.send(m.Publish(m.PUBLISH, ref._id, kind, payload, inner, False))
        self.wake(ref)

    def wake(self, ref: ObjectRef[Any]) -> None:
        """Call the waiters of a ref, whose value has arrived."""
        waiters = ref._waiters
        if waiters is not None:
            ref._waiters = None
            for waiter in waiters:
                waiter()

    def _value(self, message: m.Value) -> None:
        _, oid, kind, payload, _held = message
        ref = self.pending.pop(oid, None)
        if ref is None:
            if kind == ARENA:
                self.send((m.FREE, oid, 1))
            return
        if kind == ARENA:
            ref._grants += 1
        elif kind == ERROR:
            self.failed += 1
        ref._value = payload
        ref._kind = kind
        self.wake(ref)

    def _reply(self, message: m.Reply) -> None:
        _, number, ok, value = message
        if number in self.answers:
            self.answers[number] = (ok, value)

    def _stream(self, message: m.Stream) -> None:
        _, task_id, index, kind, payload, held, kept = message
        stream = self.streams.get(task_id)
        oid = task_id + index.to_bytes(4, "little")
        if stream is None or index <= stream.arrived:
            self._return_grants(oid, held, kept)
            return
        if kept or held or kind == ERROR or oid in self.known:
            ref = self._known(oid) or ObjectRef(oid, self, PENDING)
            self._fill(ref, kind, payload, held, kept)
        else:
            ref = ObjectRef(oid, self, kind, payload)
        ref._site = stream.site
        stream.add(index, ref)

    def _stream_end(self, message: m.StreamEnd) -> None:
        _, task_id, count = message
        stream = self.streams.pop(task_id, None)
        if stream is not None:
            stream.end(count)

    def _recall(self, message: m.Recall) -> None:
        """RECALL: forget where a value is, unless a view of it is in use.

        The answer carries the grants counted here. If the node counts more, a message that it sent is still unread.
        """
        _, number, oid = message
        weak = self.known.get(oid)
        ref = weak() if weak is not None else None
        if ref is None:
            self.send(m.Recalled(m.RECALLED, number, oid, 0))
        elif ref._views:
            self.send(m.Recalled(m.RECALLED, number, oid, -1))
        else:
            if ref._kind == ARENA:
                # The value exists but is not in memory: `wait` need not fetch it.
                ref._kind = REMOTE
                ref._value = ref._value[1]
            self.send(m.Recalled(m.RECALLED, number, oid, ref._grants))

    # -- waits and values

    def begin_wait(self, wait: Wait) -> None:
        """Report a long wait, so that the node checks it for deadlocks."""
        self.waits_count += 1
        wait.number = self.waits_count
        self.waits[wait.number] = wait
        self.send(wait.message())

    def end_wait(self, wait: Wait) -> None:
        """Report that a wait is over."""
        self.waits.pop(wait.number, None)
        if not self.closed:
            self.send(m.WaitOver(m.WAIT_OVER, wait.number))

    def _confirm(self, message: m.Confirm) -> None:
        """CONFIRM: report all waits again, after pending releases."""
        _, round_number = message
        if round_number:
            self.tidy()
        for wait in list(self.waits.values()):
            self.send(wait.message())
        self.send(m.Still(m.STILL, round_number))

    def _deadlock(self, message: m.Deadlock) -> None:
        """DEADLOCK: a wait can never end."""
        _, number, text = message
        wait = self.waits.get(number)
        if wait is not None:
            wait.verdict = text

    def ask_for(self, ref: ObjectRef[Any]) -> None:
        """Request the value of a borrowed ref."""
        if ref._process is not self:
            raise ValueError(
                f"{ref!r} belongs to another session (or to none); its value is not available here"
            )
        if ref._kind >= UNKNOWN:
            ref._kind = PENDING
            self.pending[ref._id] = ref
            self.send(m.Fetch(m.FETCH, ref._id))

    # -- the end

    def ended(self) -> BaseException:
        """Return the exception to raise from a wait that the end of the session interrupts."""
        if self.exiting:
            # Ends a daemon thread silently. Any other exception would print a traceback after the program's last output.
            return SystemExit()
        if self.lost:
            from skate.exceptions import NodeGoneError  # only errors need the tree

            return NodeGoneError(self.lost)
        return RuntimeError(
            "the session was shut down meanwhile; call init() to start another, and create its values again"
        )

    def give_up(self) -> list[ObjectRef[Any]]:
        """Turn every value that has not arrived into an error; return the refs."""
        pending, self.pending = list(self.pending.values()), {}
        text = self.lost or "the session was shut down before this value was ready"
        for ref in pending:
            ref._value = ("NodeGoneError" if self.lost else "RuntimeError", {"message": text})
            ref._held = ()  # this error needs no report if it is never read
            ref._kind = ERROR
        return pending

    def end(self) -> None:
        """End the session: send nothing more, and wake every waiting thread."""
        self.closed = True
        for ref in self.give_up():
            self.wake(ref)
        for stream in self.streams.values():
            stream.wake()
        self.known.clear()
        self.actors.clear()
        self.pending_releases.clear()
        self.streams.clear()
        self.immortal.clear()

    def __repr__(self) -> str:
        what = "driver" if self.is_driver else "worker"
        return (
            f"<{type(self).__name__} {what} {self.cid} pending={len(self.pending)} known={len(self.known)}>"
        )
