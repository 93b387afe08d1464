"""The state of one process: its refs, known values, and requests to the node with their replies.

One `Process` per driver or worker. It communicates with its node through a *link*: in an embedded driver a direct
call, in a worker the channel. Everything that changes state happens under the engine lock; values are packed and
unpacked outside of it.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from skate.client import failures
from skate.client.actor.actor_hold import ActorHold
from skate.client.object import blocking_wait, large_values, views
from skate.client.object.id_generator import IdGenerator
from skate.client.object.object_ref import ObjectRef
from skate.client.session.link import Link
from skate.protocol import messages as m
from skate.protocol.messages import ARENA, ERROR, INLINE, PENDING, UNKNOWN
from skate.wire import values
from skate.wire.pump import Pump

DRAIN_EVERY = 16


class Process(IdGenerator):
    """The tables of one process and the messages that change them."""

    def __init__(self, cid: int, pump: Pump, node_tag: bytes, job: bytes) -> None:
        self.cid = cid
        self.pump = pump
        self.lock = pump.lock
        self.link: Link
        self.mapping: Any = None
        self.closed = False
        self.exiting = False  # the interpreter ends, and only daemon threads can still wait
        self.is_driver = False
        self.namespace = ""
        self.node_id = b"\0" * 28
        self.job = job
        self.job_environment: dict[str, Any] | None = None
        #: The job in hexadecimal where a node serves several, as a part of what names functions; empty where it is alone.
        self.realm = ""
        self.lost = ""  # what became of the node, if it has gone without being asked to
        #: Last 16 bytes of every task id made here.
        self.tail = node_tag[:8] + cid.to_bytes(4, "little") + job
        self.count = 0
        self.puts = 0
        #: How many values have come that are errors.
        self.failed = 0
        #: Refs whose results are to come; held here, so that a forgotten ref needs no care.
        self.pending: dict[bytes, ObjectRef[Any]] = {}
        #: Refs that the node knows this process holds.
        self.known: dict[bytes, weakref.ref[ObjectRef[Any]]] = {}
        #: Held actors, by id.
        self.actors: dict[bytes, weakref.ref[Any]] = {}
        self.graves: deque[tuple[bytes, int]] = deque()
        self.unhandled: deque[tuple[Any, Any]] = deque()
        #: Streams that nobody reads any more.
        self.abandoned: deque[Any] = deque()
        self.answers: dict[int, tuple[bool, Any] | None] = {}
        self.streams: dict[bytes, Any] = {}
        #: Keys that the node knows, by what keeps them in use here; and those that were let go of.
        self.exported: dict[bytes, weakref.ref[Any]] = {}
        self.unused: deque[bytes] = deque()
        #: Waits that last, by their number.
        self.waits: dict[int, Any] = {}
        self.waits_count = 0
        self.immortal: list[Any] = []
        #: Tensors that stay here, for who has the refs of their values; see `client.tensor_store`.
        self.tensors: Any = None
        self.context: Any = None
        self._number = 0
        self._since_drain = 0
        self._loops: dict[int, Any] = {}
        self.handlers: dict[int, Callable[[Any], None]] = {
            m.RESULT: self._result,
            m.VALUE: self._value,
            m.REPLY: self._reply,
            m.STREAM: self._stream,
            m.STREAM_END: self._stream_end,
            m.SURVEY: self._survey,
            **blocking_wait.handlers(self),
            m.RECALL: lambda message: views.recall(self, message),
        }

    # -- out

    def send(self, message: m.ToNode) -> None:
        """Say something to the node, after what has been let go; the lock is held."""
        if self.graves:
            self.tidy()
        self.link.send(message)

    def submitted(self) -> None:
        """After a submission: now and then take in what has arrived meanwhile; the lock is held."""
        self._since_drain = since = self._since_drain + 1
        if since >= DRAIN_EVERY:
            self._since_drain = 0
            if self.pending:
                self.pump.drain()

    def request(self, verb: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Send a request to the node and wait for the reply; raises the node's error."""
        with self.lock:
            self._check_open()
            number = self.next_number()
            self.send(m.Request(m.REQUEST, number, verb, arguments))
            return self._answer(number, timeout)

    def next_number(self) -> int:
        """A number for a question; the lock is held."""
        self._number = number = self._number + 1
        self.answers[number] = None
        return number

    def _answer(self, number: int, timeout: float | None = None) -> Any:
        answers = self.answers
        if answers[number] is None:
            self.link.flush()
            self.pump.wait(lambda: answers[number] is not None or self.closed, timeout)
        answer = answers.pop(number)
        if answer is None:
            if self.lost:
                raise self.ended()
            raise RuntimeError("the session ended during a request to its node")
        ok, value = answer
        if not ok:
            raise failures.to_exception(value, None, self)
        return value

    def allocate(self, oid: bytes, size: int) -> int | None:
        """Memory in the arena for a value: its offset, or None if the value is already there; the lock is held."""
        number = self.next_number()
        self.send(m.Allocate(m.ALLOCATE, number, oid, size))
        offset: int | None = self._answer(number)
        return offset

    def _check_open(self) -> None:
        if self.closed:
            if self.lost:
                raise self.ended()
            raise RuntimeError("the session has been shut down; call init() to start another")

    # -- refs that travel

    def new_pending(self, task_id: bytes, returns: int) -> list[ObjectRef[Any]]:
        """Refs for the results of a task about to be submitted; the lock is held."""
        refs = []
        for index in range(1, returns + 1):
            ref: ObjectRef[Any] = ObjectRef(task_id + index.to_bytes(4, "little"), self, PENDING)
            self.pending[ref._id] = ref
            refs.append(ref)
        return refs

    def escape(self, ref: Any) -> bytes:
        """A ref or handle is about to be passed on: the node must know it; returns its id. The lock is held."""
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
        """The ref of an id that came inside a value; the node learns that this process holds it."""
        with self.lock:
            return self._adopt(oid, 0)

    def _adopt(self, oid: bytes, granted: int) -> ObjectRef[Any]:
        ref = self.pending.get(oid)
        if ref is None:
            ref = self._known(oid)
        if ref is None:
            ref = ObjectRef(oid, self, UNKNOWN)
            self.known[oid] = weakref.ref(ref)
            if not granted:
                granted = 1
                self.send(m.Hold(m.HOLD, oid))
        ref._grants += granted
        return ref

    def _known(self, oid: bytes) -> ObjectRef[Any] | None:
        """The living ref of an id that the node knows this process to hold; one that ends just now has no grants any more."""
        weak = self.known.get(oid)
        ref = weak() if weak is not None else None
        return ref if ref is not None and ref._grants else None

    def adopt_any(self, any_id: bytes) -> Any:
        """Take over a grant that came with a message, of an object or an actor; the lock is held."""
        if len(any_id) == 28:
            return self._adopt(any_id, 1)
        return self.hold_actor(any_id, 1)

    def hold_actor(self, actor_id: bytes, granted: int) -> Any:
        """This process's hold on an actor; the lock is held."""
        hold = self.know_actor(actor_id)
        if not hold.grants and not granted:
            granted = 1
            self.send(m.Hold(m.HOLD, actor_id))
        hold.grants += granted
        return hold

    def know_actor(self, actor_id: bytes) -> Any:
        """The shared state of an actor's handles in this process; does not keep the actor alive."""
        weak = self.actors.get(actor_id)
        hold = weak() if weak is not None else None
        if hold is None or not hold.grants:
            hold = ActorHold(actor_id, self)
            self.actors[actor_id] = weakref.ref(hold)
        return hold

    def keep_forever(self, ref: ObjectRef[Any]) -> None:
        """Keep a ref that was pickled outside of any task: it cannot be counted any more, so its value stays for
        the session.
        """
        with self.lock:
            self.escape(ref)
            self.immortal.append(ref)
            self.link.flush()

    def bury(self, any_id: bytes, grants: int) -> None:
        """A ref or hold has ended; callable from a finalizer, in any thread, at any moment."""
        first = not self.graves
        self.graves.append((any_id, grants))
        if first and not self.closed:
            self.pump.kick()

    def report_unhandled(self, error: tuple[str, dict[str, Any]], site: Any) -> None:
        """Report a failed ref that was dropped without a look at its error; callable from a finalizer."""
        wanted = self.is_driver and not self.closed and error[0] == "RayTaskError"
        if wanted and not error[1].get("cancelled") and not sys.is_finalizing():
            self.unhandled.append((error, site))
            self.pump.kick()

    def abandon(self, stream: Any) -> None:
        """Drop a stream that has no reader any more; callable from a finalizer."""
        if not self.closed and not sys.is_finalizing():
            self.abandoned.append(stream)
            self.bury(stream.task_id, 0)  # which has `tidy` called

    def tidy(self) -> None:
        """Send pending releases to the node; the lock is held."""
        while self.abandoned:
            self.abandoned.popleft().abandon()
        while self.unhandled:
            failures.print_unhandled(*self.unhandled.popleft())
        graves = self.graves
        while graves:
            any_id, grants = graves.popleft()
            if not grants:  # of a stream
                continue
            table: dict[bytes, Any] = self.known if len(any_id) == 28 else self.actors
            weak = table.get(any_id)
            if weak is not None:
                found = weak()
                if found is None or not (found._grants if table is self.known else found.grants):
                    del table[any_id]
            self.link.send((m.FREE, any_id, grants))

    # -- in

    def on_message(self, message: tuple[Any, ...]) -> None:
        """Take one message of the node; the lock is held."""
        self.handlers[message[0]](message)

    def _result(self, message: m.Result) -> None:
        _, oid, kind, payload, held, kept = message
        ref = self.pending.pop(oid, None)
        if ref is None:
            self._return_grants(oid, held, kept)
            return
        self._fill(ref, kind, payload, held, kept)

    def _return_grants(self, oid: bytes, held: tuple[bytes, ...], kept: int) -> None:
        # An answer that crossed the farewell: the node takes back all of a driver that leaves.
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
            ref._held = [self.adopt_any(other) for other in held]
        ref._value = payload
        ref._kind = kind
        if kind == ERROR:
            self.failed += 1
        if ref._grants and not kept:  # it escaped while its result was on the way
            inner = tuple(self.escape(other) for other in ref._held or ())
            self.send(m.Publish(m.PUBLISH, ref._id, kind, payload, inner, False))
        self.wake(ref)

    def wake(self, ref: ObjectRef[Any]) -> None:
        """A ref has its value: call who waits for it; the lock is held."""
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
        ref = self._known(oid) or ObjectRef(oid, self, PENDING)
        ref._site = stream.site
        self._fill(ref, kind, payload, held, kept)
        stream.add(index, ref)

    def _stream_end(self, message: m.StreamEnd) -> None:
        _, task_id, count = message
        stream = self.streams.pop(task_id, None)
        if stream is not None:
            stream.end(count)

    def _survey(self, message: m.Survey) -> None:
        from skate.client.state import survey  # only who is asked pays for it

        survey.answer(self, message)

    # -- values

    def ask_for(self, ref: ObjectRef[Any]) -> None:
        """Have a borrowed ref's value sent here; the lock is held."""
        if ref._process is not self:
            raise ValueError(
                f"{ref!r} belongs to another session (or to none); its value is not available here"
            )
        if ref._kind >= UNKNOWN:
            ref._kind = PENDING
            self.pending[ref._id] = ref
            self.send(m.Fetch(m.FETCH, ref._id))

    def when_ready(self, ref: ObjectRef[Any], call: Callable[[], None]) -> None:
        """Call back, under the lock, when a ref has its value; at once if it has."""
        with self.lock:
            self._check_open()
            self.ask_for(ref)
            if ref._kind != PENDING:
                call()
                return

            def arrived() -> None:
                if ref._kind >= UNKNOWN and not self.closed:  # it was made on another node
                    self.when_ready(ref, call)
                else:
                    call()

            if ref._waiters is None:
                ref._waiters = []
            ref._waiters.append(arrived)
            self.link.flush()
            self.pump.attend()

    def load(self, ref: ObjectRef[Any]) -> Any:
        """The value of a ready ref, unpacked; raises the error it is, if it is one."""
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
                    found = None  # else the traceback would keep the memory
                    raise failures.unreadable(error) from error
            if self.closed:
                raise self.ended()

    def store(self, value: Any, oid: bytes | None = None) -> ObjectRef[Any]:
        """A ref to a value of this process's; a small one stays here, a large one goes into the arena."""
        packed = values.pack(value)
        if packed.size <= values.INLINE_BYTES_MAX:
            blob = packed.joined()
            with self.lock:
                self._check_open()
                ref: ObjectRef[Any] = ObjectRef(oid or self.next_object_id(), self, INLINE, blob)
                if packed.met:
                    for inner in packed.met:  # they come back by their ids when the value is unpacked
                        self.escape(inner)
                    ref._held = [
                        inner if type(inner) is ObjectRef else inner._skate_hold for inner in packed.met
                    ]
            return ref
        with self.lock:
            self._check_open()
            ref = ObjectRef(oid or self.next_object_id(), self, PENDING)
            place = large_values.write(self, ref._id, packed)
            held = tuple(self.escape(inner) for inner in packed.met)
            large_values.adopt(self, ref, place)
            self.send(m.Put(m.PUT, ref._id, held))
            self.link.flush()
        return ref

    def ended(self) -> BaseException:
        """The exception of a wait that the end of the session interrupts."""
        if self.exiting:
            # Ends a daemon thread without a word; anything else would print a traceback over the program's last lines.
            return SystemExit()
        if self.lost:
            from skate.exceptions import NodeGoneError  # only errors need the tree

            return NodeGoneError(self.lost)
        return RuntimeError(
            "the session was shut down meanwhile; call init() to start another, and create its values again"
        )

    def give_up(self) -> list[ObjectRef[Any]]:
        """Make an error of every value that is still to come; returns their refs."""
        pending, self.pending = list(self.pending.values()), {}
        text = self.lost or "the session was shut down before this value was ready"
        for ref in pending:
            ref._value = ("NodeGoneError" if self.lost else "RuntimeError", {"message": text})
            ref._held = ()  # nobody need be told that this error was not looked at
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
        self.graves.clear()
        self.streams.clear()
        self.immortal.clear()

    def __repr__(self) -> str:
        what = "driver" if self.is_driver else "worker"
        return f"<Process {what} {self.cid} pending={len(self.pending)} known={len(self.known)}>"
