"""A scripted worker: the tables of `skate.worker.worker_core`, with programs instead of user code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client.object import views
from skate.core.cluster.lineage import PUT
from skate.protocol import messages as m
from skate.protocol.version import VERSION
from skate.simulation.processes.frame import Frame
from skate.simulation.processes.object_operations import Interrupted, id_of
from skate.simulation.processes.process import Process
from skate.simulation.programs.spec import Spec, Thread
from skate.wire.status import SLOT_BYTES, begun_in
from skate.worker import worker_core
from skate.worker.worker_core import DEFAULT_GROUP, CancelCall, Interrupt, LeaveByForce, WorkerCore

if TYPE_CHECKING:
    from skate.simulation.nodes.cluster import Cluster


LAST_TURNS = 12  # of an actor that has exited, until its process has ended


class Failed(Exception):
    """A program ends with an error."""

    def __init__(self, retriable: bool) -> None:
        super().__init__(retriable)
        self.retriable = retriable


class Left(BaseException):
    """An actor exits on its own."""


class Running(worker_core.Running):
    """One task that runs, with its program."""

    def __init__(self, task_id: bytes, spec: Spec, attempt: int, template: Any = None) -> None:
        super().__init__(task_id, template, attempt)
        self.spec = spec
        self.frame = Frame()
        self.thread: Thread
        self.waiting: Callable[[], bool] | None = None
        self.interrupt = False
        self.items = 0
        self.give: tuple[int, ...] = ()

    def can_go_on(self) -> bool:
        """Return True if the task is not waiting."""
        return self.interrupt or self.waiting is None or self.waiting()


class Template:
    """A function with its options, as sent to a worker."""

    def __init__(self, key: bytes, fields: dict[str, Any], functions: dict[bytes, Any]) -> None:
        self.fields = fields
        self.group: str = fields.get("group", "")
        assert not fields["function"] or fields["function"] in functions, f"{fields} before its function"


class Worker(Process):
    """A worker process of the cluster: the real worker core around scripted programs."""

    is_worker = True

    def __init__(self, cid: int, cluster: Cluster) -> None:
        super().__init__(cid, cluster)
        self.started = False
        self.deaf = cluster.rng.random() < 0.2  # in C code, which cannot handle the message to exit
        self.actor_id = b""
        self.has_left = False  # an actor that has exited on its own
        self.turns_left = 0  # what it still does before it ends
        self.stash: list[Any] = []  # an actor's own refs
        self.waited_on: Any = None  # the lease with which it last waited for others
        self.status = bytearray(SLOT_BYTES)
        self.tables = WorkerCore(
            self.handlers, Template, self.outbox.append, self.send, self.release_later, self.status
        )
        self.handlers[m.STOP_TASK] = self._stop_task

    # -- messages

    def hear(self, message: tuple[Any, ...]) -> None:
        """Check that a worker may be sent a message of the node, then handle it."""
        tables = self.tables
        word = message[0]
        if word == m.FUNCTION:
            assert message[1] not in tables.functions, f"sent twice: {message}"
        elif word == m.TEMPLATE:
            assert message[1] not in tables.templates, f"sent twice: {message}"
        elif word == m.FORGET:
            known = tables.functions.keys() | tables.templates.keys()
            assert known.issuperset(message[1]), f"{self} has not all of {message}"
        elif word in (m.EXECUTE, m.INVOKE, m.CONSTRUCT):
            assert message[2] in tables.templates, f"{self} was not sent the template of {message}"
        elif word == m.LEASE:
            idle = tables.running is None and not self.queued
            assert idle, f"{self} gets another lease while it works"
        super().hear(message)

    def _stop_task(self, message: tuple[Any, ...]) -> None:
        match self.tables.stop_task(m.StopTask(*message)):
            case LeaveByForce(running):
                if self.deaf:
                    self._interrupt(running)
                else:
                    self.cluster.left(self)
            case Interrupt(running) | CancelCall(running):
                self._interrupt(running)

    def _interrupt(self, running: worker_core.Running) -> None:
        assert isinstance(running, Running)
        running.interrupt = True

    @property
    def queued(self) -> list[tuple[Any, ...]]:
        """The work that has not begun."""
        waiting: list[tuple[Any, ...]] = [
            message for _, message in self.tables.queue if message[0] != m.LEASE
        ]
        for group in self.tables.groups.values() if self.tables.groups is not None else ():
            waiting += [message for _, _, message in group.waiting]
        return waiting

    @property
    def begun(self) -> int:
        """The number of the last task that was begun."""
        return begun_in(self.status)[0]

    @property
    def works(self) -> bool:
        """True while it runs something, or is an actor."""
        return self.alive and (bool(self.at_work()) or bool(self.actor_id))

    def at_work(self) -> list[Running]:
        """Return the running tasks."""
        tables = self.tables
        running: list[Any] = [tables.running] if tables.running is not None else []
        return running + list(tables.side.values())

    def runs(self, task_id: bytes, beside: Running | None = None) -> bool:
        """Return True if it runs this task, not counting one attempt."""
        return self.alive and any(each.task_id == task_id and each is not beside for each in self.at_work())

    def frames(self) -> list[Frame]:
        """Return the variables of all programs that run."""
        return [self.frame, *(running.frame for running in self.at_work())]

    # -- turns

    def can_act(self) -> bool:
        """Return True if it can start, continue, begin something or leave."""
        if not self.started:
            return True
        running: Any = self.tables.running
        if running is not None:
            return bool(running.can_go_on())
        if self.tables.queue or self.tables.leaving:
            return True
        return any(running.can_go_on() for running in self.at_work())

    def act(self) -> None:
        """Perform one step."""
        tables, rng = self.tables, self.cluster.rng
        if not self.started:
            self.started = True
            self.outbox.append((m.READY, 1000 + self.cid, VERSION))
            return
        running: Any = tables.running
        if running is not None:
            self.go_on(running)
            return
        able = [running for running in self.at_work() if running.can_go_on()]
        if tables.queue and (not able or rng.random() < 0.5):
            self.take(*tables.queue.popleft())
        elif able and not (tables.leaving and rng.random() < 0.5):
            self.go_on(able[rng.randrange(len(able))])
        elif self.turns_left:
            self.turns_left -= 1
        elif tables.leaving:
            self.cluster.left(self)

    def take(self, sequence: int, message: tuple[Any, ...]) -> None:
        """Take a message out of the queue: begin the task, or make it wait for its concurrency group."""
        word = message[0]
        if word == m.LEASE:
            self.cluster.observer.leased(self, message[1])
            return
        _, task_id, key, (spec, _), _, last = message
        if word == m.CONSTRUCT:
            self.actor_id = task_id
            last = last["restarts"]
        running = Running(task_id, spec, last, self.tables.templates[key])
        if self.tables.groups is None:
            self.tables.begin(sequence, running)
        elif not self.tables.admit(sequence, running, message):  # type: ignore[arg-type]
            return
        self.start_call(running, message)

    def start_call(self, running: Running, message: tuple[Any, ...]) -> None:
        """Start the program of a task that has begun."""
        word, _, _, (_, inner), deps, _ = message
        self.cluster.observer.began(self, running, word)
        running.thread = self.run(running, inner, deps)
        next(running.thread)

    def go_on(self, running: Running) -> None:
        """Run a task up to its next stop; send the answer if it has ended."""
        try:
            if running.interrupt:
                running.interrupt = False
                running.waiting = running.thread.throw(Interrupted())
            else:
                running.waiting = next(running.thread)
            return
        except StopIteration as stop:
            self.answer_for(running, m.OK, stop.value, False)
        except Failed as failed:
            error = ("RayTaskError", {"function": running.spec.name, "retriable": failed.retriable})
            self.answer_for(running, m.FAILED, error, failed.retriable)
        except Interrupted:
            self.answer_for(running, m.CANCELLED, (), False)
        except Left:
            self.has_left = True
            self.turns_left = self.cluster.rng.randrange(LAST_TURNS)
            self.tables.exit_actor("exit_actor()")
            self.call_ended(running)

    def answer_for(self, running: Running, status: int, returns: Any, retriable: bool) -> None:
        """Send the answer for a task, unless the process is killed just before; it may also be killed just after."""
        running.frame.clear()
        if self.cluster.answering(self):
            if running.task_id == self.actor_id and status == m.OK:
                self.made(running)
            self.tables.done(running, status, returns, running.spec.micros, retriable)
            self.cluster.answered(self)
        running.kept.clear()
        if self.alive:
            self.call_ended(running)

    def made(self, running: Running) -> None:
        """Make this process an actor once the constructor has run."""
        self.tables.actor = self
        fields = running.template.fields
        limits = {DEFAULT_GROUP: fields["max_concurrency"], **(fields.get("groups") or {})}
        if limits[DEFAULT_GROUP] > 1:
            self.tables.run_side_by_side(limits)

    def call_ended(self, running: Running) -> None:
        """Begin the next call of a group after one has ended."""
        tables = self.tables
        tables.acked.pop(running.task_id, None)
        if running.task_id in tables.side:
            following = tables.end(running)
            if following is not None:
                self.start_call(*following)  # type: ignore[arg-type]

    # -- programs

    def run(self, running: Running, inner: tuple[bytes, ...], deps: tuple[Any, ...]) -> Thread:
        """The whole life of a task; ends with what DONE carries."""
        frame = running.frame
        granted = []
        for _, oid, kind, payload in deps:
            if kind == m.ARENA:
                ref = self.adopt(oid, 1)
                views.keep(ref)
                ref._kind, ref._value = kind, payload
                granted.append((ref, payload))
        yield None
        for each in inner:
            frame.take(self.adopt(each, 0))
        for _place, oid, kind, payload in deps:
            assert kind in (m.INLINE, m.ARENA), (
                f"{running.spec} was sent an argument that is no value: {kind}"
            )
            if kind == m.ARENA:
                ref = self.adopt(oid, 0)
                frame.refs.append(ref)
                for each in self.load(ref):
                    frame.take(each)
            elif isinstance(payload, tuple):
                for each in payload[1]:
                    frame.take(self.adopt(each, 0))
        yield None
        for ref, place in granted:
            self.cluster.observer.reads(self.cluster, ref, place)
            views.let_go(ref)
        granted.clear()
        for operation in running.spec.program:
            if operation[0] in ("fail", "crash", "exit", "item", "give", "work", "gate", "stash", "unstash"):
                yield from getattr(self, "task_" + operation[0])(running, *operation[1:])
            else:
                yield from self.perform(operation, frame, running.task_id)
        if running.task_id == self.actor_id or running.spec.streaming:
            return ()
        returns = []
        for index in range(1, running.spec.returns + 1):
            value = yield from self.pack(
                running, running.task_id + index.to_bytes(4, "little"), running.spec.large, running.give
            )
            returns.append(value)
        return tuple(returns)

    def pack(self, running: Running, oid: bytes, large: bool, picks: tuple[int, ...]) -> Thread:
        """Pack one result, with its refs, which are kept until it is sent."""
        kept: list[Any] = [ref for ref in map(running.frame.pick, picks) if ref is not None]
        if running.frame.holds and picks:
            kept.append(running.frame.holds[picks[0] % len(running.frame.holds)])
        running.kept += kept
        if large:
            place = yield from self.write(oid, tuple(map(id_of, kept)))
            if place is None:
                raise Failed(retriable=False)
            return (m.ARENA, place, tuple(self.escape(each) for each in kept))
        held = tuple(self.escape(each) for each in kept)
        return (m.INLINE, (running.spec.name, held), held)

    def task_work(self, running: Running) -> Thread:
        """Work for a while."""
        yield None

    def task_gate(self, running: Running, name: str) -> Thread:
        """Continue when the test opens the gate."""
        yield lambda: name in self.cluster.gates

    def task_fail(self, running: Running, retriable: bool, attempts: int) -> Thread:
        """Raise an error in the first few attempts."""
        if running.attempt < attempts:
            raise Failed(retriable)
        yield None

    def task_crash(self, running: Running, attempts: int) -> Thread:
        """Crash the process in the first few attempts."""
        if running.attempt < attempts:
            self.cluster.strike(self)
        yield None

    def task_exit(self, running: Running) -> Thread:
        """Leave, as `exit_actor()` does."""
        yield None
        raise Left

    def task_item(self, running: Running, large: bool, picks: tuple[int, ...]) -> Thread:
        """Yield one value of a stream."""
        running.items += 1
        index = running.items
        kind, payload, held = yield from self.pack(
            running, running.task_id + index.to_bytes(4, "little"), large, picks
        )
        self.tables.item(running, index, kind, payload, held)
        limit = running.spec.backpressure
        if limit:
            yield (
                lambda: self.tables.may_yield(running.task_id, index, limit) or self.cluster.timed_out(self)
            )
        yield None

    def task_give(self, running: Running, picks: tuple[int, ...]) -> Thread:
        """Add the refs of these numbers to the results."""
        running.give = picks
        yield None

    def task_stash(self, running: Running, number: int) -> Thread:
        """Store a ref in the actor."""
        ref = running.frame.pick(number)
        if ref is not None:
            self.stash.append(ref)
        yield None

    def task_unstash(self, running: Running, number: int) -> Thread:
        """Take a ref of a value that was put out of the actor, which keeps it too: such values never wait for anything."""
        kept = [ref for ref in self.stash if ref._id[:4] == PUT]
        if kept:
            running.frame.refs.append(kept[number % len(kept)])
        yield None

    def block(self, ready: Callable[[], bool], parent: bytes, what: Any) -> Thread:
        """Wait in `get`: other tasks may use the CPU, and tasks queued behind this one run elsewhere."""
        known = self.cluster.core.scheduler.workers.get(self.cid)
        self.waited_on = known.lease if known is not None else None
        self.tables.block(parent, in_main=parent not in self.tables.side)
        try:
            yield from super().block(ready, parent, what)
        finally:
            if self.alive:
                self.tables.unblock(parent)

    def end(self) -> None:
        """End the process."""
        super().end()
        self.tables.leave()
        self.tables.side.clear()
        self.stash.clear()
