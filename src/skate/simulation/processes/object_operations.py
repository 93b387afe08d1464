"""Operations of a scripted process on tasks, actors and values, as `skate.client` performs them around its core."""

from __future__ import annotations

from typing import Any

from skate.client.actor.actor_hold import ActorHold
from skate.client.object import views
from skate.client.object.generators import open_stream
from skate.client.object.object_ref import ObjectRef
from skate.client.task import submission
from skate.protocol import messages as m
from skate.simulation.processes.frame import Frame, Ref
from skate.simulation.programs.spec import Spec, Thread

LARGE_BYTES = 200_000
LOOKS = 4  # turns for which a program reads a large value


class Interrupted(BaseException):
    """Raised inside an operation of a task that is being cancelled."""


class ObjectOperations:
    """Operations of a process, which is what `self` is."""

    # -- submit

    def packed(self: Any, frame: Frame, spec: Spec, args: tuple[int, ...], inner: tuple[int, ...]) -> Any:
        """Arguments by the numbers of refs, as `submission` packs them: the blob, the refs by place, what is in the blob."""
        given = [ref for ref in map(frame.pick, args) if ref is not None]
        inside: list[Any] = [ref for ref in map(frame.pick, inner) if ref is not None]
        if frame.holds and inner:
            inside.append(frame.holds[inner[0] % len(frame.holds)])
        return (spec, tuple(map(id_of, inside))), list(enumerate(given)), inside

    def start(self: Any, frame: Frame, parent: bytes, actor_id: bytes, spec: Spec, *numbers: Any) -> bytes:
        """Submit a task or a call; returns its id."""
        key = self.template(spec)
        packed = self.packed(frame, spec, *numbers)
        self.context.parent = parent
        if spec.streaming:
            frame.streams.append(open_stream(self, actor_id, key, packed, None, spec.backpressure > 0))
        else:
            frame.refs += submission.submit(self, actor_id, key, spec.returns, packed, None)
        task_id: bytes = self.count.to_bytes(8, "little") + self.tail
        self.cluster.observer.submitted(self, task_id, spec)
        return task_id

    def do_submit(
        self: Any, frame: Frame, parent: bytes, spec: Spec, args: Any = (), inner: Any = ()
    ) -> Thread:
        """Submit a task."""
        task_id = self.start(frame, parent, b"", spec, args, inner)
        yield None
        return task_id

    def do_call(
        self: Any, frame: Frame, parent: bytes, actor: int, spec: Spec, args: Any = (), inner: Any = ()
    ) -> Thread:
        """Call a method of an actor."""
        if frame.holds:
            actor_id = frame.holds[actor % len(frame.holds)].actor_id
            task_id = self.start(frame, parent, actor_id, spec, args, inner)
            self.cluster.observer.called(self, task_id, actor_id)
            yield None
            return task_id
        return None

    def do_create(
        self: Any,
        frame: Frame,
        parent: bytes,
        spec: Spec,
        life: dict[str, Any],
        args: Any = (),
        inner: Any = (),
    ) -> Thread:
        """Start an actor."""
        key = self.template(spec)
        packed = self.packed(frame, spec, args, inner)
        actor_id = self.next_actor_id()
        frame.holds.append(self.hold_actor(actor_id, 1))
        self.cluster.observer.created(actor_id, spec, life)
        self.context.parent = parent
        submission.create_actor(self, actor_id, key, packed, life)  # type: ignore[arg-type]
        del packed
        yield None
        return actor_id

    def do_nested(self: Any, frame: Frame, parent: bytes, spec: Spec, args: Any = ()) -> Thread:
        """Submit a task and wait for what it returns."""
        yield from self.do_submit(frame, parent, spec, args)
        if spec.returns and not spec.streaming:
            yield from self.do_get(frame, parent, len(frame.refs) - 1)

    # -- values

    def do_put(self: Any, frame: Frame, parent: bytes, large: bool, inner: Any = ()) -> Thread:
        """Put a value."""
        kept = [ref for ref in map(frame.pick, inner) if ref is not None]
        oid = self.next_object_id()
        ids = tuple(map(id_of, kept))
        if not large:
            ref: Ref = ObjectRef(oid, self, m.INLINE, (oid[-4:], ids))
            if kept:
                self.keep_inside(ref, kept)
        else:
            ref = ObjectRef(oid, self, m.PENDING)
            place = yield from self.write(oid, ids)
            if place is None:
                return
            self.place(ref, place, kept)
        frame.refs.append(ref)
        yield None

    def write(self: Any, oid: bytes, inner: tuple[bytes, ...]) -> Thread:
        """Write a large value into the arena; return its place, or None if there is no room."""
        try:
            ok, offset = yield from self.answer(self.ask_for_memory(oid, LARGE_BYTES))
        except Interrupted:
            self.withdraw(oid)
            raise
        if not ok:
            self.cluster.observer.counts["fault full disk"] += 1
            self.cannot_store(oid, "no room")
            return None
        if offset is None:
            return (0, 0)
        self.cluster.memory[offset] = (oid, inner)
        return (offset, LARGE_BYTES)

    def do_get(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """Wait for a value, read it, and keep its contents."""
        ref = frame.pick(number)
        if ref is None:
            return
        looks = 0
        try:
            while ref._kind >= m.UNKNOWN or ref._kind == m.PENDING:
                if ref._kind >= m.UNKNOWN:
                    looks += 1  # so that it stays when it has come
                    self.ask_for(ref)
                    views.keep(ref)
                yield from self.block(ref._is_ready, parent, ref)
                if ref._kind == m.PENDING:
                    break
            looks += 1
            views.keep(ref)
            place = ref._value if ref._kind == m.ARENA else None
            for thing in self.load(ref):
                frame.take(thing)
            for _ in range(LOOKS if place is not None else 1):
                yield None
                if place is not None:
                    self.cluster.observer.reads(self.cluster, ref, place)
        finally:
            for _ in range(looks):
                views.let_go(ref)

    def do_drop(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """Drop a ref."""
        if frame.refs:
            del frame.refs[number % len(frame.refs)]
        yield None

    def do_cancel(
        self: Any, frame: Frame, parent: bytes, number: int, force: bool, recursive: bool
    ) -> Thread:
        """Cancel the task of a ref."""
        ref = frame.pick(number)
        if ref is not None:
            self.send((m.CANCEL, ref._id[:24], force, recursive))
        yield None

    # -- streams

    def do_next(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """Take the next item of a stream."""
        if not frame.streams:
            return
        generator = frame.streams[number % len(frame.streams)]
        stream = generator._stream
        yield from self.block(stream.moved, parent, generator)
        ref = stream.take() if stream.moved() else None
        if ref is not None:
            frame.refs.append(ref)

    def do_drop_stream(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """Drop a generator that may not have been read to its end."""
        if frame.streams:
            del frame.streams[number % len(frame.streams)]
        yield None

    def do_whole(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """Get the ref that is ready when a stream has ended."""
        if frame.streams:
            frame.refs.append(frame.streams[number % len(frame.streams)].completed())
        yield None

    # -- actors

    def do_drop_actor(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """Drop a handle."""
        if frame.holds:
            del frame.holds[number % len(frame.holds)]
        yield None

    def do_kill(self: Any, frame: Frame, parent: bytes, number: int, no_restart: bool) -> Thread:
        """Kill an actor."""
        if frame.holds:
            self.send((m.KILL, frame.holds[number % len(frame.holds)].actor_id, no_restart))
        yield None

    def do_name(self: Any, frame: Frame, parent: bytes, name: str) -> Thread:
        """Get a named actor, if there is one."""
        found = yield from self.do_request(frame, parent, "get_actor", "", name)
        if found is not None:
            frame.holds.append(ActorHold(found[0], self))  # which does not keep it alive

    def do_request(self: Any, frame: Frame, parent: bytes, verb: str, *arguments: Any) -> Thread:
        """Send a request to the node and wait for the reply."""
        ok, value = yield from self.answer(self.ask(verb, *arguments))
        return value if ok else None


def id_of(thing: Any) -> bytes:
    """Return the id of a ref or of the actor of a hold."""
    found: bytes = thing._id if isinstance(thing, ObjectRef) else thing.actor_id
    return found
