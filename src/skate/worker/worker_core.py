"""The worker's half of the protocol, pure: queued and running work, returned tasks, cancellation and answers.

Messages from the node come in through `handlers`. Messages to the node go out through `push` and `send`, and grants of
arguments through `release`. Actions on running code are returned as effects. There is no lock, socket, thread, signal or
clock here: `skate.worker.executor` adds them, and the simulator drives the same object with scripted programs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from skate.protocol import messages as m
from skate.protocol.record import Record
from skate.wire.status import STATUS_SLOT, OutOfTurn, SlotMemory

DEFAULT_GROUP = ""
#: The concurrency group of calls that run in their own thread.
SYSTEM_GROUP = "_ray_system"
#: Answers of tasks shorter than SHORT_SECONDS may wait for others, for FLUSH_SECONDS after the last write.
SHORT_SECONDS = 0.0005
FLUSH_SECONDS = 0.001


class Running:
    """One running task or call."""

    __slots__ = ("task_id", "template", "cancelled", "attempt", "future", "kept")

    def __init__(self, task_id: bytes, template: Any, attempt: int) -> None:
        self.task_id = task_id
        self.template = template
        self.attempt = attempt
        self.cancelled = False
        self.future: Any = None
        #: Refs inside results that are packed but not yet sent.
        self.kept: list[Any] = []


class Interrupt(Record):
    """Raise KeyboardInterrupt in the main thread, which runs this task."""

    running: Running


class CancelCall(Record):
    """Cancel a call that runs outside the main thread."""

    running: Running


class LeaveByForce(Record):
    """End the process immediately: its task was cancelled with `force`."""

    running: Running


StopEffect: TypeAlias = Interrupt | CancelCall | LeaveByForce
#: A call that waits for its group: its sequence number, its record and its message.
Waiting: TypeAlias = tuple[int, Running, m.Execute | m.Invoke]


class Group:
    """A concurrency group: its limit, the number of active calls, and the waiting calls."""

    __slots__ = ("limit", "active", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active = 0
        self.waiting: deque[Waiting] = deque()


class WorkerCore:
    """The tables of a worker: queued work, running work, functions and stream credits."""

    __slots__ = (
        "acked", "actor", "final", "flushed_at", "functions", "groups", "handlers", "leaving", "made", "new_template",
        "out_of_turn", "push", "queue", "received", "release", "running", "send", "side", "status", "templates", "wake",
    )  # fmt: skip

    def __init__(
        self,
        handlers: dict[int, Callable[[Any], Any]],
        new_template: Callable[[bytes, Any, dict[bytes, Any]], Any],
        push: Callable[[tuple[Any, ...]], object],
        send: Callable[[tuple[Any, ...]], object],
        release: Callable[[bytes, int], object],
        status: SlotMemory,
    ) -> None:
        """Add the handlers of a worker's messages to `handlers`.

        `push` sends a message directly, `send` after pending releases. `status` is memory that outlives the process and holds
        the sequence numbers of the tasks that have begun.
        """
        self.handlers = handlers
        self.new_template = new_template
        self.push = push
        self.send = send
        self.release = release
        self.status = status
        self.queue: deque[tuple[int, m.Work]] = deque()
        self.templates: dict[bytes, Any] = {}
        self.functions: dict[bytes, Any] = {}
        #: The task in the main thread, and the calls in other threads and in coroutines.
        self.running: Running | None = None
        self.side: dict[bytes, Running] = {}
        #: The number of items that the reader of a stream has taken, by task.
        self.acked: dict[bytes, int] = {}
        #: The number of items that the running generators of an actor with a limit have made or are about to make, by task.
        self.made: dict[bytes, int] = {}
        self.received = 0
        #: `leaving`: the worker ends when its queue is empty. `final`: it runs no new work at all.
        self.leaving = False
        self.final = False
        self.actor: Any = None
        #: The concurrency groups of a concurrent actor, by name.
        self.groups: dict[str, Group] | None = None
        self.out_of_turn: OutOfTurn
        #: Called, if set, when work or an EXIT message arrives.
        self.wake: Callable[[], object] | None = None
        self.flushed_at = 0.0
        handlers.update(
            {
                m.FUNCTION: self.add_function,
                m.TEMPLATE: self.add_template,
                m.FORGET: self.forget,
                m.EXECUTE: self.enqueue,
                m.INVOKE: self.enqueue,
                m.CONSTRUCT: self.enqueue,
                m.LEASE: self.enqueue_lease,
                m.TAKE_BACK: self.take_back,
                m.STOP_TASK: self.stop_task,
                m.EXIT: self.exit,
                m.ACK: self.ack,
            }
        )

    # -- what the node sends

    def add_function(self, message: m.Function) -> None:
        """FUNCTION: keep a pickled function or class."""
        _, key, blob, _ = message
        self.functions[key] = blob

    def add_template(self, message: m.Template) -> None:
        """TEMPLATE: keep a function with its options."""
        _, key, fields = message
        template = self.templates[key] = self.new_template(key, fields, self.functions)
        if template.group == SYSTEM_GROUP:
            self.handlers[m.INVOKE] = self.enqueue_or_system

    def forget(self, message: m.Forget) -> None:
        """FORGET: drop functions and templates that are no longer referenced."""
        _, keys = message
        for key in keys:
            self.templates.pop(key, None)
            self.functions.pop(key, None)

    def enqueue(self, message: m.Execute | m.Construct | m.Invoke) -> None:
        """EXECUTE, CONSTRUCT, INVOKE: queue work."""
        if self.final:
            return
        self.received += 1
        self.queue.append((self.received, message))
        if self.wake is not None:
            self.wake()

    def enqueue_or_system(self, message: m.Invoke) -> None:
        """INVOKE for an actor with system calls: run those beside all others, and queue the rest."""
        _, _, key, *_ = message
        if self.templates[key].group == SYSTEM_GROUP:
            self.received += 1
            if self.groups is not None:
                self.out_of_turn.begin(self.received)
            self.system_call(message)
        else:
            self.enqueue(message)

    def system_call(self, message: m.Invoke) -> None:
        """Run a call beside all others, in subclasses that can."""
        raise NotImplementedError

    def enqueue_lease(self, message: m.Lease) -> None:
        """LEASE: queue a change of resources for the work that follows."""
        self.queue.append((0, message))

    def take_back(self, message: m.TakeBack | None = None) -> None:
        """TAKE_BACK: return the plain tasks that have not begun. An actor keeps its calls."""
        if self.actor is not None or not self.queue:
            return
        kept: list[tuple[int, m.Work]] = []
        back: dict[bytes, m.ArgumentValues] = {}
        for sequence, work in self.queue:
            if work[0] == m.EXECUTE:
                _, task_id, _, _, deps, _ = work
                back[task_id] = deps
            else:
                kept.append((sequence, work))
        self.queue.clear()
        self.queue.extend(kept)
        for deps in back.values():
            self.give_up(deps)
        if back:
            self.push(m.Returned(m.RETURNED, tuple(back)))

    def stop_task(self, message: m.StopTask) -> StopEffect | None:
        """STOP_TASK: answer for a task that has not begun, or mark a running one and return the effect that stops it."""
        _, task_id, force = message
        for entry in self.queue:
            sequence, work = entry
            if work[0] == m.LEASE:
                continue
            _, queued, _, _, deps, _ = work
            if queued == task_id:
                self.queue.remove(entry)
                self._dropped(sequence, task_id, deps)
                return None
        running = self.running
        if running is not None and running.task_id == task_id:
            running.cancelled = True
            if force:
                return LeaveByForce(running)
            return Interrupt(running) if self.actor is None else None
        beside = self.side.get(task_id)
        if beside is not None:
            beside.cancelled = True
            return CancelCall(beside)
        for group in self.groups.values() if self.groups is not None else ():
            for waiting in group.waiting:
                sequence, running, call = waiting
                if running.task_id == task_id:
                    _, _, _, _, deps, _ = call
                    group.waiting.remove(waiting)
                    self._dropped(sequence, task_id, deps)
                    return None
        return None

    def _dropped(self, sequence: int, task_id: bytes, deps: m.ArgumentValues) -> None:
        """Answer for a cancelled task that has not begun."""
        if self.groups is not None:
            self.out_of_turn.begin(sequence)
        self.give_up(deps)
        self.push(m.Done(m.DONE, task_id, m.CANCELLED, (), 0, False))

    def exit(self, message: m.Exit) -> None:
        """EXIT: leave when the queue is empty."""
        self.leaving = True
        if self.wake is not None:
            self.wake()

    def ack(self, message: m.Ack) -> None:
        """ACK: record the number of items that the reader of a stream has taken."""
        _, task_id, taken = message
        self.acked[task_id] = taken

    # -- what runs

    def begin(self, sequence: int, running: Running) -> None:
        """Record that a task is about to run in the main thread."""
        STATUS_SLOT.pack_into(self.status, 0, sequence)
        self.running = running

    def run_side_by_side(self, limits: dict[str, int]) -> None:
        """Switch to running calls concurrently, with a limit for each group."""
        self.groups = {name: Group(limit) for name, limit in limits.items()}
        self.out_of_turn = OutOfTurn(self.status)

    def admit(self, sequence: int, running: Running, message: m.Execute | m.Invoke) -> bool:
        """Begin a call if its group has room, or queue it. Raise ValueError if there is no such group."""
        groups = self.groups
        assert groups is not None
        group = groups.get(running.template.group)
        if group is None:
            self.out_of_turn.begin(sequence)
            raise unknown_group(running.template.group, groups)
        if group.active >= group.limit:
            group.waiting.append((sequence, running, message))
            return False
        group.active += 1
        self.side[running.task_id] = running
        self.out_of_turn.begin(sequence)
        return True

    def end(self, running: Running) -> tuple[Running, m.Execute | m.Invoke] | None:
        """Record the end of a call; begin the next one of its group and return it."""
        self.side.pop(running.task_id, None)
        assert self.groups is not None
        group = self.groups[running.template.group]
        if not group.waiting:
            group.active -= 1
            return None
        sequence, following, message = group.waiting.popleft()
        self.side[following.task_id] = following
        self.out_of_turn.begin(sequence)
        return following, message

    @property
    def waits(self) -> bool:
        """Return True while a call waits for its group."""
        return self.groups is not None and any(group.waiting for group in self.groups.values())

    def may_yield(self, task_id: bytes, made: int, limit: int) -> bool:
        """Return True if a stream that has yielded `made` items may yield another with at most `limit` unread."""
        return made - self.acked.get(task_id, 0) < limit or self.leaving

    def has_room(self, limit: int) -> bool:
        """Return True if the generators of an actor have fewer than `limit` unread items together."""
        unread = sum(max(made - self.acked.get(task_id, 0), 0) for task_id, made in self.made.items())
        return unread < limit or self.leaving

    def block(self, task_id: bytes, in_main: bool) -> None:
        """Tell the node that a task waits, which releases its CPU; return the tasks queued behind it."""
        self.push(m.Blocked(m.BLOCKED, task_id))
        if in_main:
            self.take_back()

    def unblock(self, task_id: bytes) -> None:
        """Tell the node that a task no longer waits."""
        self.push(m.Unblocked(m.UNBLOCKED, task_id))

    # -- answers

    def item(self, running: Running, index: int, kind: int, payload: Any, held: tuple[bytes, ...]) -> None:
        """Send one value of a stream."""
        self.send((m.ITEM, running.task_id, index, kind, payload, held))
        running.kept.clear()

    def done(self, running: Running, status: int, returns: Any, micros: int, retriable: bool) -> None:
        """Answer for a task that has run."""
        if self.running is running:
            self.running = None
        self.send((m.DONE, running.task_id, status, returns, micros, retriable))
        running.kept.clear()

    def may_be_late(self, status: int, returns: Any, now: float, seconds: float, retriable: bool) -> bool:
        """Return True if an answer may be sent later, with others: more work is queued, and the tasks are quick.

        Answers that need another message first, and those of tasks to be retried, are sent immediately.
        """
        if not self.queue or seconds > SHORT_SECONDS or now - self.flushed_at > FLUSH_SECONDS or retriable:
            return False
        if status == m.FAILED:
            return "held" not in returns[1]
        return status != m.OK or all(not held for _, _, held in returns)

    def give_up(self, deps: m.ArgumentValues) -> None:
        """Release the grants of the arguments of a call that does not run here."""
        for _, oid, kind, _ in deps:
            if kind == m.ARENA:
                self.release(oid, 1)

    # -- the end

    def leave(self) -> None:
        """Run nothing more. The node runs waiting calls elsewhere or fails them."""
        self.running = None
        self.queue.clear()
        for group in self.groups.values() if self.groups is not None else ():
            group.waiting.clear()
        self.final = self.leaving = True

    def exit_actor(self, how: str) -> None:
        """Leave at the actor's own request."""
        self.leave()
        self.send(m.Exiting(m.EXITING, how))


def unknown_group(name: str, groups: dict[str, Any]) -> ValueError:
    """Return the error for a call to a concurrency group that the actor does not have."""
    known = ", ".join(sorted(each for each in groups if each not in (DEFAULT_GROUP, SYSTEM_GROUP))) or "none"
    return ValueError(
        f"the actor has no concurrency group {name!r} (it has: {known}); declare it in "
        f"@ray.remote(concurrency_groups={{{name!r}: n}})"
    )
