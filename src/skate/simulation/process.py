"""A scripted process: refs, grants and what it says to its node, after the manner of `skate.client.process`.

What user code would do comes as *operations* (see `programs`); each runs as a generator that yields where the real process
could be overtaken by something else. It yields None to go on whenever its turn comes, or a function that says whether it can.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.simulation import views
from skate.simulation.patience import Patience
from skate.simulation.placement_operations import PlacementOperations, Thread
from skate.simulation.programs import Operation, Spec
from skate.simulation.refs import Frame, Hold, Ref, Stream

if TYPE_CHECKING:
    from skate.simulation.cluster import Cluster

NODE_TAG = b"nodenode"
JOB = b"job0"
LARGE_BYTES = 200_000
# With so many keys known to the node a process forgets them all; few, so that it happens often.
EXPORTED_MAX = 3


class Interrupted(BaseException):
    """Raised inside an operation of a task that is being cancelled."""


class Process(PlacementOperations):
    """One driver, or what a worker has in common with one."""

    is_worker = False
    started = True  # it takes messages

    def __init__(self, cid: int, cluster: Cluster) -> None:
        self.cid = cid
        self.cluster = cluster
        self.alive = True
        #: Until when what comes in or goes out is held, and until when it does nothing.
        self.held_in = self.held_out = self.stopped = 0.0
        self.inbox: deque[tuple[Any, ...]] = deque()
        self.outbox: deque[tuple[Any, ...]] = deque()
        self.pending: dict[bytes, Ref] = {}
        self.known: dict[bytes, weakref.ref[Ref]] = {}
        self.actors: dict[bytes, weakref.ref[Hold]] = {}
        self.graves: deque[tuple[bytes, int]] = deque()
        self.answers: dict[int, tuple[bool, Any] | None] = {}
        self.streams: dict[bytes, Stream] = {}
        self.exported: set[bytes] = set()
        self.frame = Frame()
        self.todo: deque[Operation] = deque()
        self.thread: Thread | None = None
        self.waiting: Callable[[], bool] | None = None
        self.tail = NODE_TAG + cid.to_bytes(4, "little") + JOB
        self.count = self.puts = self.number = 0
        self.patience = Patience(self)
        self.handlers: dict[int, Callable[[tuple[Any, ...]], None]] = {
            m.RESULT: self._result,
            m.VALUE: self._value,
            m.REPLY: self._reply,
            m.STREAM: self._stream,
            m.STREAM_END: self._stream_end,
            m.CONFIRM: self.patience.confirm,
            m.DEADLOCK: self.patience.condemned,
            m.RECALL: lambda message: views.recall(self, message),
        }

    # -- turns

    def can_act(self) -> bool:
        """True if its program can go a step further."""
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

    def hear(self, message: tuple[Any, ...]) -> None:
        """Take one message of the node."""
        self.handlers[message[0]](message)

    def end(self) -> None:
        """End the process: it sends nothing more."""
        self.alive = False
        self.thread = None
        self.todo.clear()
        self.inbox.clear()
        self.pending.clear()
        self.streams.clear()
        self.frame.clear()
        self.graves.clear()

    # -- out

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a message, after pending releases."""
        if self.graves:
            self.tidy()
        self.outbox.append(message)

    def tidy(self) -> None:
        """Release what is no longer held."""
        while self.graves:
            any_id, grants = self.graves.popleft()
            table: dict[bytes, Any] = self.known if len(any_id) == 28 else self.actors
            weak = table.get(any_id)
            if weak is not None and weak() is None:
                del table[any_id]
            self.outbox.append((m.FREE, any_id, grants))

    def ask(self, message: tuple[Any, ...]) -> int:
        """Send a message that holds a request number in its second field; returns the number."""
        self.number += 1
        self.answers[self.number] = None
        self.send((message[0], self.number, *message[1:]))
        return self.number

    def answer(self, number: int) -> Thread:
        """Wait for the answer to a request: (ok, value)."""
        yield lambda: self.answers[number] is not None
        return self.answers.pop(number)

    def escape(self, thing: Any) -> bytes:
        """Something is about to be passed on: the node must know it."""
        oid: bytes = thing.oid
        if isinstance(thing, Hold) or thing.grants:
            return oid
        thing.grants = 1
        self.known[oid] = weakref.ref(thing)
        if thing.kind == m.PENDING:
            self.send((m.ESCAPE, oid))
        else:
            held = tuple(self.escape(inner) for inner in thing.held)
            self.send((m.PUBLISH, oid, thing.kind, thing.value, held, True))
        return oid

    def adopt(self, any_id: bytes, granted: int) -> Any:
        """Return the ref or hold of a received id; without a grant the node is notified that this process holds it."""
        if len(any_id) != 28:
            return self.hold(any_id, granted)
        ref = self.pending.get(any_id)
        if ref is None:
            weak = self.known.get(any_id)
            ref = weak() if weak is not None else None
        if ref is None:
            ref = Ref(any_id, self, m.UNKNOWN)
            self.known[any_id] = weakref.ref(ref)
            if not granted:
                granted = 1
                self.send((m.HOLD, any_id))
        ref.grants += granted
        return ref

    def hold(self, actor_id: bytes, granted: int) -> Hold:
        """The process's hold on an actor."""
        weak = self.actors.get(actor_id)
        hold = weak() if weak is not None else None
        if hold is None:
            hold = Hold(actor_id, self)
            self.actors[actor_id] = weakref.ref(hold)
            if not granted:
                granted = 1
                self.send((m.HOLD, actor_id))
        hold.grants += granted
        return hold

    # -- in

    def _result(self, message: tuple[Any, ...]) -> None:
        _, oid, kind, payload, held, kept = message
        ref = self.pending.pop(oid, None)
        assert ref is not None, f"a result came twice, or unasked: {message}"
        self.cluster.onlooker.saw(oid, kind, payload)
        self._fill(ref, kind, payload, held, kept)

    def _fill(self, ref: Ref, kind: int, payload: Any, held: tuple[bytes, ...], kept: int) -> None:
        if kept:
            if not ref.grants:
                self.known[ref.oid] = weakref.ref(ref)
            ref.grants += 1
        elif held:
            ref.held = [self.adopt(other, 1) for other in held]
        ref.value = payload
        ref.kind = kind
        if ref.grants and not kept:
            inner = tuple(self.escape(other) for other in ref.held)
            self.send((m.PUBLISH, ref.oid, kind, payload, inner, False))

    def _value(self, message: tuple[Any, ...]) -> None:
        _, oid, kind, payload, _held = message
        ref = self.pending.pop(oid, None)
        assert ref is not None, f"a value came twice, or unasked: {message}"
        if kind == m.ARENA:
            ref.grants += 1
        ref.value = payload
        ref.kind = kind

    def _reply(self, message: tuple[Any, ...]) -> None:
        _, number, ok, value = message
        assert number in self.answers and self.answers[number] is None, message
        self.answers[number] = (ok, value)

    def _stream(self, message: tuple[Any, ...]) -> None:
        _, task_id, index, kind, payload, held, kept = message
        stream = self.streams[task_id]
        oid = task_id + index.to_bytes(4, "little")
        assert index == stream.arrived + 1, f"an item is missing or came twice: {message}"
        weak = self.known.get(oid)
        ref = (weak() if weak is not None else None) or Ref(oid, self, m.PENDING)
        self._fill(ref, kind, payload, held, kept)
        stream.arrived = index
        stream.ready.append(ref)

    def _stream_end(self, message: tuple[Any, ...]) -> None:
        _, task_id, count = message
        stream = self.streams.pop(task_id)
        assert stream.arrived == count, message
        stream.count = count
        self.cluster.onlooker.saw(task_id + b"\0\0\0\0", m.INLINE, None)

    # -- operations

    def perform(self, operation: Operation, frame: Frame, parent: bytes) -> Thread:
        """Run one operation of a program."""
        word, *arguments = operation
        thread: Thread = getattr(self, "do_" + word)(frame, parent, *arguments)
        result = yield from thread
        return result

    def do_several(self, frame: Frame, parent: bytes, operations: tuple[Operation, ...]) -> Thread:
        """Do one thing after the other."""
        for operation in operations:
            yield from self.perform(operation, frame, parent)

    def next_task_id(self) -> bytes:
        """A new task id."""
        self.count += 1
        return self.count.to_bytes(8, "little") + self.tail

    def next_object_id(self) -> bytes:
        """A new id for a value that is put."""
        self.puts += 1
        return b"\xff" * 4 + bytes(4) + self.tail + (self.puts | 0x80000000).to_bytes(4, "little")

    def template(self, spec: Spec) -> bytes:
        """Make a function and its options known; returns the key to submit by."""
        key = spec.key
        if len(self.exported) > EXPORTED_MAX:
            self.send((m.FORGET, tuple(sorted(self.exported))))
            self.exported.clear()
        if key not in self.exported:
            self.exported.add(key)
            if spec.function:
                self.exported.add(spec.function)
                self.send((m.FUNCTION, spec.function, b"code", ()))
            self.send((m.TEMPLATE, key, spec.fields()))
        return key

    def packed(
        self, frame: Frame, args: tuple[int, ...], inner: tuple[int, ...]
    ) -> tuple[Any, Any, list[Any]]:
        """Return the refs for numbers: as arguments, and inside of arguments; and what must live until they are
        sent.
        """
        given = [ref for ref in map(frame.pick, args) if ref is not None]
        inside: list[Any] = [ref for ref in map(frame.pick, inner) if ref is not None]
        if frame.holds and inner:
            inside.append(frame.holds[inner[0] % len(frame.holds)])
        deps = tuple((place, self.escape(ref)) for place, ref in enumerate(given))
        held = tuple(self.escape(thing) for thing in inside)
        return deps, held, given + inside

    def do_submit(self, frame: Frame, parent: bytes, spec: Spec, args: Any = (), inner: Any = ()) -> Thread:
        """Submit a task."""
        key = self.template(spec)
        deps, held, _kept = self.packed(frame, args, inner)
        task_id = self.next_task_id()
        self.expect(frame, task_id, spec)
        self.send((m.SUBMIT, task_id, key, (spec, held), deps, held, parent))
        yield None
        return task_id

    def expect(self, frame: Frame, task_id: bytes, spec: Spec) -> None:
        """Make the refs of a call's results."""
        self.cluster.onlooker.submitted(self, task_id, spec)
        if spec.streaming:
            stream = self.streams[task_id] = Stream(task_id)
            frame.streams.append(stream)
            return
        for index in range(1, spec.returns + 1):
            ref = Ref(task_id + index.to_bytes(4, "little"), self, m.PENDING)
            self.pending[ref.oid] = ref
            frame.refs.append(ref)

    def do_create(
        self, frame: Frame, parent: bytes, spec: Spec, life: dict[str, Any], args: Any = (), inner: Any = ()
    ) -> Thread:
        """Start an actor."""
        key = self.template(spec)
        deps, held, _kept = self.packed(frame, args, inner)
        self.count += 1
        actor_id = self.tail[:3] + self.tail[8:12] + self.count.to_bytes(5, "little") + JOB
        hold = self.hold(actor_id, 1)
        self.cluster.onlooker.created(actor_id, spec, life)
        self.send((m.CREATE_ACTOR, actor_id, key, (spec, held), deps, held, parent, life))
        frame.holds.append(hold)
        yield None
        return actor_id

    def do_call(
        self, frame: Frame, parent: bytes, actor: int, spec: Spec, args: Any = (), inner: Any = ()
    ) -> Thread:
        """Call a method of an actor."""
        if frame.holds:
            hold = frame.holds[actor % len(frame.holds)]
            key = self.template(spec)
            deps, held, _kept = self.packed(frame, args, inner)
            task_id = self.next_task_id()
            self.expect(frame, task_id, spec)
            self.cluster.onlooker.called(self, task_id, hold.oid)
            self.send((m.CALL, task_id, hold.oid, key, (spec, held), deps, held, parent))
            yield None
            return task_id
        return None

    def do_put(self, frame: Frame, parent: bytes, large: bool, inner: Any = ()) -> Thread:
        """Put a value."""
        kept = [ref for ref in map(frame.pick, inner) if ref is not None]
        oid = self.next_object_id()
        if not large:
            ref = Ref(oid, self, m.INLINE, (oid[-4:], tuple(self.escape(each) for each in kept)))
            ref.held = kept
        else:
            ref = Ref(oid, self, m.PENDING)
            place = yield from self.write(oid, tuple(each.oid for each in kept))
            if place is None:
                return
            held = tuple(self.escape(each) for each in kept)
            self.send((m.PUT, oid, held))
            ref.value, ref.kind, ref.grants = place, m.ARENA, 1
            self.known[oid] = weakref.ref(ref)
        frame.refs.append(ref)
        yield None

    def write(self, oid: bytes, inner: tuple[bytes, ...]) -> Thread:
        """Write a large value into the arena; return its place, or None if there is no room."""
        number = self.ask((m.ALLOCATE, oid, LARGE_BYTES))
        try:
            ok, offset = yield from self.answer(number)
        except Interrupted:
            self.answers[number] = None
            self.send((m.FREE, oid, 0))
            raise
        if not ok:
            self.cluster.onlooker.counts["fault full disk"] += 1
            return None
        if offset is None:
            return (0, 0)
        self.cluster.memory[offset] = (oid, inner)
        return (offset, LARGE_BYTES)

    def do_get(self, frame: Frame, parent: bytes, number: int) -> Thread:
        """Wait for a value; what is in it is kept."""
        ref = frame.pick(number)
        if ref is None:
            return
        yield from views.read(self, frame, parent, ref)

    def block(self, ready: Callable[[], bool], parent: bytes, what: bytes) -> Thread:
        """Wait until `ready` is true."""
        return self.patience.wait(ready, parent, what)

    def load(self, ref: Ref) -> list[Any]:
        """The refs inside a value."""
        if ref.kind == m.INLINE and isinstance(ref.value, tuple):
            return [self.adopt(each, 0) for each in ref.value[1]]
        if ref.kind == m.ARENA:
            self.cluster.onlooker.reads(self.cluster, ref)
            return [self.adopt(each, 0) for each in self.cluster.memory[ref.value[0]][1]]
        return []

    def do_nested(self, frame: Frame, parent: bytes, spec: Spec, args: Any = ()) -> Thread:
        """Submit a task and wait for what it returns."""
        yield from self.do_submit(frame, parent, spec, args)
        if spec.returns and not spec.streaming:
            yield from self.do_get(frame, parent, len(frame.refs) - 1)

    def do_drop(self, frame: Frame, parent: bytes, number: int) -> Thread:
        """Drop a ref."""
        if frame.refs:
            del frame.refs[number % len(frame.refs)]
        yield None

    def do_drop_actor(self, frame: Frame, parent: bytes, number: int) -> Thread:
        """Drop a handle."""
        if frame.holds:
            del frame.holds[number % len(frame.holds)]
        yield None

    def do_cancel(self, frame: Frame, parent: bytes, number: int, force: bool, recursive: bool) -> Thread:
        """Cancel the task of a ref."""
        ref = frame.pick(number)
        if ref is not None:
            self.send((m.CANCEL, ref.oid[:24], force, recursive))
        yield None

    def do_kill(self, frame: Frame, parent: bytes, number: int, no_restart: bool) -> Thread:
        """Kill an actor."""
        if frame.holds:
            self.send((m.KILL, frame.holds[number % len(frame.holds)].oid, no_restart))
        yield None

    def do_next(self, frame: Frame, parent: bytes, number: int) -> Thread:
        """Take the next item of a stream."""
        if not frame.streams:
            return
        stream = frame.streams[number % len(frame.streams)]
        yield from self.block(lambda: bool(stream.ready) or stream.count is not None, parent, stream.task_id)
        if stream.ready:
            frame.refs.append(stream.ready.popleft())
            stream.taken += 1
            if stream.count is None:
                self.send((m.CONSUMED, stream.task_id, stream.taken))

    def do_request(self, frame: Frame, parent: bytes, verb: str, *arguments: Any) -> Thread:
        """Send a request to the node and wait for the reply."""
        ok, value = yield from self.answer(self.ask((m.REQUEST, verb, arguments)))
        return value if ok else None

    def do_name(self, frame: Frame, parent: bytes, name: str) -> Thread:
        """Get a named actor, if there is one."""
        found = yield from self.do_request(frame, parent, "get_actor", "", name)
        if found is not None:
            frame.holds.append(Hold(found[0], self))  # which does not keep it alive

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.cid}>"
