"""A scripted worker: takes tasks in order, runs their programs and answers for them, after the manner of
`skate.worker.executor`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client.object import views
from skate.protocol import messages as m
from skate.protocol.version import VERSION
from skate.simulation.frame import Frame
from skate.simulation.object_operations import Interrupted, id_of
from skate.simulation.process import Process
from skate.simulation.programs import SIDE_BY_SIDE_MAX, Spec, Thread

if TYPE_CHECKING:
    from skate.simulation.cluster import Cluster


class Failed(Exception):
    """A program ends with an error."""

    def __init__(self, retriable: bool) -> None:
        super().__init__(retriable)
        self.retriable = retriable


class Left(BaseException):
    """An actor leaves by its own will."""


class Running:
    """One task that runs."""

    def __init__(self, task_id: bytes, spec: Spec, attempt: int) -> None:
        self.task_id = task_id
        self.spec = spec
        self.attempt = attempt
        self.frame = Frame()
        self.thread: Thread
        self.waiting: Callable[[], bool] | None = None
        self.cancelled = False
        self.interrupt = False
        self.items = 0
        self.give: tuple[int, ...] = ()
        self.kept: list[Any] = []

    def can_go_on(self) -> bool:
        """True if the task is not waiting."""
        return self.interrupt or self.waiting is None or self.waiting()


class Worker(Process):
    """A worker process of the cluster."""

    is_worker = True

    def __init__(self, cid: int, cluster: Cluster) -> None:
        super().__init__(cid, cluster)
        self.started = False
        self.queue: deque[tuple[int, tuple[Any, ...]]] = deque()
        self.running: Running | None = None  # in the main thread
        self.side: dict[bytes, Running] = {}  # calls of a concurrent actor
        self.defined: set[bytes] = set()  # functions and templates that it was sent
        self.received = 0
        self.begun = 0
        self.leaving = False
        self.deaf = cluster.rng.random() < 0.2  # in C code, which does not take the word to leave
        self.actor_id = b""
        self.concurrent = False  # an actor that runs calls side by side
        self.stash: list[Any] = []  # an actor's own refs
        self.acked: dict[bytes, int] = {}
        self.waited_on: Any = None  # the lease with which it last waited for others
        self.handlers.update(
            {
                m.FUNCTION: self._define,
                m.TEMPLATE: self._define,
                m.FORGET: self._forget,
                m.EXECUTE: self._enqueue,
                m.INVOKE: self._enqueue,
                m.CONSTRUCT: self._enqueue,
                m.LEASE: self._lease,
                m.TAKE_BACK: self._take_back,
                m.STOP_TASK: self._stop_task,
                m.EXIT: self._exit,
                m.ACK: self._ack,
            }
        )

    # -- messages

    def _define(self, message: tuple[Any, ...]) -> None:
        assert message[1] not in self.defined, f"sent twice: {message}"
        self.defined.add(message[1])

    def _forget(self, message: tuple[Any, ...]) -> None:
        assert self.defined.issuperset(message[1]), f"{self} has not all of {message}"
        self.defined.difference_update(message[1])

    def _enqueue(self, message: tuple[Any, ...]) -> None:
        self.received += 1
        assert message[2] in self.defined, f"{self} was not sent the template of {message}"
        self.queue.append((self.received, message))

    def _lease(self, message: tuple[Any, ...]) -> None:
        assert self.running is None and not self.queue, f"{self} gets another lease while it works"
        self.cluster.onlooker.leased(self, message[1])

    def _take_back(self, message: tuple[Any, ...]) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Return the tasks that were not begun."""
        if self.actor_id or not self.queue:
            return
        back = [message for _, message in self.queue if message[0] == m.EXECUTE]
        ids = tuple(message[1] for message in back)
        for message in back:
            self._give_up(message)
        self.queue = deque(entry for entry in self.queue if entry[1][0] != m.EXECUTE)
        if ids:
            self.outbox.append((m.RETURNED, ids))

    def _give_up(self, message: tuple[Any, ...]) -> None:
        """A task does not run here: what was granted with its arguments is given back."""
        for _, oid, kind, _ in message[4]:
            if kind == m.ARENA:
                self.bury(oid, 1)

    def _stop_task(self, message: tuple[Any, ...]) -> None:
        task_id = message[1]
        for entry in self.queue:
            if entry[1][1] == task_id:
                self.queue.remove(entry)
                self._give_up(entry[1])
                self.outbox.append((m.DONE, task_id, m.CANCELLED, (), 0, False))
                return
        running = self.running if self.running and self.running.task_id == task_id else self.side.get(task_id)
        if running is not None:
            running.cancelled = True
            if message[2] and not self.deaf:
                self.cluster.left(self)
                return
            # An ordinary actor is only told: its call continues.
            running.interrupt = not self.actor_id or task_id in self.side

    def _exit(self, message: tuple[Any, ...]) -> None:
        self.leaving = True

    def _ack(self, message: tuple[Any, ...]) -> None:
        self.acked[message[1]] = message[2]

    @property
    def works(self) -> bool:
        """True while it runs something, or is an actor."""
        return self.alive and (self.running is not None or bool(self.side) or bool(self.actor_id))

    def at_work(self) -> list[Running]:
        """The running tasks."""
        return [*([self.running] if self.running is not None else ()), *self.side.values()]

    def frames(self) -> list[Frame]:
        """The variables of all programs that run."""
        return [self.frame, *(running.frame for running in self.at_work())]

    def runs(self, task_id: bytes) -> bool:
        """True if it runs this task."""
        return self.alive and (
            task_id in self.side or (self.running is not None and self.running.task_id == task_id)
        )

    # -- turns

    def can_act(self) -> bool:
        """True if it can start, continue, begin something or leave."""
        if not self.started:
            return True
        if self.running is not None:
            return self.running.can_go_on()
        if any(running.can_go_on() for running in self.side.values()):
            return True
        if self.queue:
            return len(self.side) < SIDE_BY_SIDE_MAX
        return self.leaving and not self.side

    def act(self) -> None:
        """Perform one step."""
        if not self.started:
            self.started = True
            self.outbox.append((m.READY, 1000 + self.cid, VERSION))
            return
        if self.running is not None:
            self.go_on(self.running)
            return
        able = [running for running in self.side.values() if running.can_go_on()]
        if self.queue and len(self.side) < SIDE_BY_SIDE_MAX and (not able or self.cluster.rng.random() < 0.5):
            self.begin(*self.queue.popleft())
        elif able:
            self.go_on(able[self.cluster.rng.randrange(len(able))])
        elif self.leaving:
            self.cluster.left(self)

    def begin(self, sequence: int, message: tuple[Any, ...]) -> None:
        """Start a received task."""
        word, task_id, _key, (spec, inner), deps, last = message
        self.begun = max(self.begun, sequence)
        if word == m.CONSTRUCT:
            self.actor_id, self.concurrent = task_id, spec.concurrent
        running = Running(task_id, spec, last["restarts"] if word == m.CONSTRUCT else last)
        self.cluster.onlooker.began(self, running, word)
        running.thread = self.run(running, inner, deps)
        next(running.thread)
        if word == m.INVOKE and self.concurrent:
            self.side[task_id] = running
        else:
            self.running = running

    def go_on(self, running: Running) -> None:
        """Run a task up to its next stop; answer for it if that was the last."""
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
            self.queue.clear()
            self.running = None
            self.side.clear()
            self.leaving = True
            self.send(m.Exiting(m.EXITING, "exit_actor"))

    def answer_for(self, running: Running, status: int, returns: Any, retriable: bool) -> None:
        """Send DONE for a task."""
        if self.running is running:
            self.running = None
        else:
            del self.side[running.task_id]
        running.frame.clear()
        if self.cluster.answering(self):
            self.send((m.DONE, running.task_id, status, returns, running.spec.micros, retriable))
            self.cluster.answered(self)
        running.kept.clear()

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
                granted.append(ref)
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
        for ref in granted:
            self.cluster.onlooker.reads(self.cluster, ref)
            views.let_go(ref)
        granted.clear()
        for operation in running.spec.program:
            if operation[0] in ("fail", "crash", "exit", "item", "give", "work", "gate", "stash"):
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
        """One result, with the refs inside it, which are kept until it is sent."""
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
        """Raise, in the first so many attempts."""
        if running.attempt < attempts:
            raise Failed(retriable)
        yield None

    def task_crash(self, running: Running, attempts: int) -> Thread:
        """Take the process down, in the first so many attempts."""
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
        self.send((m.ITEM, running.task_id, index, kind, payload, held))
        running.kept.clear()
        limit = running.spec.backpressure
        if limit:
            acked = self.acked
            yield (
                lambda: (
                    index - acked.get(running.task_id, 0) < limit
                    or self.leaving
                    or self.cluster.timed_out(self)
                )
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

    def block(self, ready: Callable[[], bool], parent: bytes, what: Any) -> Thread:
        """Wait in `get`: others may have the CPU, and what is queued behind runs elsewhere."""
        known = self.cluster.core.scheduler.workers.get(self.cid)
        self.waited_on = known.lease if known is not None else None
        self.outbox.append((m.BLOCKED, parent))
        if parent not in self.side:
            self.give_back()
        try:
            yield from super().block(ready, parent, what)
        finally:
            if self.alive:
                self.outbox.append((m.UNBLOCKED, parent))

    def end(self) -> None:
        """End the process."""
        super().end()
        self.queue.clear()
        self.running = None
        self.side.clear()
        self.stash.clear()
