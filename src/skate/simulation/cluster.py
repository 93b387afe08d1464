"""A node's core among scripted drivers and workers: channels, the order of events, faults, and what must hold throughout.

Between a process and the node runs a FIFO channel each way. A step is one event out of those possible: a message arrives, a
process goes on, a clock ticks, something breaks. After each the core checks itself; the cluster checks what only an onlooker can
see: no result comes twice, no attempt runs that was not allowed, calls begin in their caller's order, memory is not
handed out while somebody reads it, a GPU is not lent twice.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from skate.core import messages as m
from skate.core.actors import DEAD
from skate.core.lifetimes import owner_of
from skate.core.node import SHELL, NodeCore
from skate.simulation.process import Process
from skate.simulation.programs import CPU, Spec
from skate.simulation.worker import Running, Worker

if TYPE_CHECKING:
    import random

END = -1  # the word behind the last message of a process: it is gone
STEPS_MAX = 200_000
QUIET_SECONDS = 5.0  # longer than anything that the core does after a while


class Faults:
    """How often things break, as probabilities by step."""

    def __init__(self, worker: float = 0.0, driver: float = 0.0, environment: float = 0.0) -> None:
        self.worker = worker
        self.driver = driver
        self.environment = environment  # by worker that needs one


class Stuck(AssertionError):
    """Everything waits and nothing can happen."""


class Cluster:
    """One node, its processes and the channels between them."""

    def __init__(
        self,
        rng: random.Random,
        cpus: int = 2,
        *,
        gpus: int = 0,
        arena_bytes: int = 1 << 23,
        faults: Faults | None = None,
        log: list[str] | None = None,
    ) -> None:
        self.rng = rng
        self.now = 0.0
        total = {"CPU": cpus * CPU}
        if gpus:
            total["GPU"] = gpus * CPU
        self.core = NodeCore(total, gpus=range(gpus), arena_bytes=arena_bytes)
        self.faults = faults or Faults()
        self.log = log
        self.digest = hashlib.blake2b(digest_size=16)
        self.steps = 0
        self.processes: dict[int, Process] = {}
        self.memory: dict[int, tuple[bytes, tuple[bytes, ...]]] = {}
        self.gates: set[str] = set()
        self.pace: dict[str, float] = {}  # how readily "arrive", "deliver", "act" and the like happen: 0 to 1
        self.lossy = True  # the last words of a process that is killed may be lost
        self.impatient = False  # a wait in `get` may time out
        self.doomed: list[int] = []
        #: What became of each call, by task id: "" while it runs, a class name for an error, "ok".
        self.specs: dict[bytes, Spec] = {}
        self.outcomes: dict[bytes, str] = {}
        self.attempts: dict[bytes, int] = {}
        self.lives: dict[bytes, dict[str, Any]] = {}
        self._callers: dict[
            bytes, tuple[bytes, int, int]
        ] = {}  # call: actor, caller, its number in the caller's order
        self._order: dict[tuple[bytes, int], int] = {}
        self._leases: dict[int, list[Any]] = {}

    def driver(self) -> Process:
        """A driver joins."""
        cid = self.core.next_cid
        self.core.connect(cid, f"job{cid}", "", True)
        process = self.processes[cid] = Process(cid, self)
        return process

    # -- events

    def step(self) -> bool:
        """Let one thing happen; False if nothing can."""
        self.break_something()
        events = self.events()
        if not events:
            return False
        what, process = events[self.rng.randrange(len(events))]
        if self.rng.random() > self.pace.get(what.__name__, 1.0):
            what, process = events[self.rng.randrange(len(events))]
        self.now += self.rng.choice((1e-5, 1e-4, 2e-3))
        what(process)
        if self.rng.random() < 0.05:
            self.tick()
        return True

    def events(self) -> list[tuple[Any, Process]]:
        """What can happen next."""
        events: list[tuple[Any, Process]] = []
        for process in self.processes.values():
            if process.outbox:
                events.append((self.arrive, process))
            if process.alive:
                if process.inbox and (not process.is_worker or process.started):  # type: ignore[attr-defined]
                    events.append((self.deliver, process))
                if process.can_act():
                    events.append((self.act, process))
                if process.graves:
                    events.append((self.tidy, process))
        events += [(self.strike, self.processes[cid]) for cid in self.doomed]
        return events

    def record(self, *what: Any) -> None:
        """Write an event into the log, of which `digest` is the hash."""
        self.steps += 1
        text = repr(what)
        self.digest.update(text.encode())
        if self.log is not None:
            self.log.append(text)
        if self.steps > STEPS_MAX:
            raise Stuck(f"no end after {self.steps} steps")

    def arrive(self, process: Process) -> None:
        """The node takes a message of a process."""
        message = process.outbox.popleft()
        self.record("arrive", process.cid, message)
        if message[0] == END:
            del self.processes[process.cid]
            if process.cid in self.doomed:
                self.doomed.remove(process.cid)
            self._leases.pop(process.cid, None)
            self.core.disconnect(process.cid, self.now, message[1], "was killed")
        else:
            self.core.step(process.cid, message, self.now)
        self.apply()

    def apply(self) -> None:
        """Carry out what the core wants done; then it must still be sound."""
        effects, self.core.effects = self.core.effects, []
        for cid, message in effects:
            if cid == SHELL:
                self.shell(*message)
                continue
            process = self.processes.get(cid)
            if process is not None and process.alive:
                process.inbox.append(message)
        self.core.check()
        if self.core.effects:
            self.apply()

    def shell(self, verb: str, cid: int, *rest: Any) -> None:
        """What the core wants of the machine."""
        self.record(verb, cid)
        if verb == "spawn":
            self.processes[cid] = Worker(cid, self)
            if rest[0] is not None and self.rng.random() < self.faults.environment:
                del self.processes[cid]
                self.core.environment_failed(cid, self.now, "no such package")
        elif verb == "kill":
            process = self.processes.get(cid)
            if process is not None and process.alive and cid not in self.doomed:
                self.doomed.append(cid)

    def deliver(self, process: Process) -> None:
        """A process takes a message of the node."""
        message = process.inbox.popleft()
        self.record("deliver", process.cid, message)
        process.hear(message)

    def act(self, process: Process) -> None:
        """A process goes a step further."""
        self.record("act", process.cid)
        process.act()

    def tidy(self, process: Process) -> None:
        """A process gives back what it no longer holds."""
        self.record("tidy", process.cid)
        process.tidy()

    def tick(self) -> float | None:
        """Time passes for the core; returns in how many seconds it wants to be told again."""
        self.record("tick")
        wanted = self.core.tick(self.now)
        self.apply()
        return wanted

    # -- ends of processes

    def strike(self, process: Process) -> None:
        """A process is killed: of what it has said last, some may be lost."""
        self.record("strike", process.cid)
        if process.cid in self.doomed:
            self.doomed.remove(process.cid)
        if not process.alive:
            return
        if self.lossy:
            for _ in range(self.rng.randrange(len(process.outbox) + 1)):
                process.outbox.pop()
        self._gone(process)

    def left(self, process: Process) -> None:
        """A process has nothing more to do and ends, all said."""
        process.frame.clear()
        self._gone(process)

    def _gone(self, process: Process) -> None:
        begun = process.begun if isinstance(process, Worker) else 0
        process.end()
        process.outbox.append((END, begun))

    def break_something(self) -> None:
        """Now and then, a fault."""
        faults = self.faults
        if faults.worker and self.rng.random() < faults.worker:
            workers = [p for p in self.processes.values() if p.is_worker and p.alive]
            if workers:
                self.strike(workers[self.rng.randrange(len(workers))])
        if faults.driver and self.rng.random() < faults.driver:
            drivers = [p for p in self.processes.values() if not p.is_worker and p.alive]
            if len(drivers) > 1:
                self.strike(drivers[self.rng.randrange(1, len(drivers))])

    def timed_out(self, process: Process) -> bool:
        """Whether a wait of this process takes too long."""
        return self.impatient

    # -- to an end

    def settle(self) -> None:
        """Run until nothing can happen any more, however long the clocks must run for it."""
        quiet_since = self.now
        while self.now - quiet_since < QUIET_SECONDS:
            while self.step():
                quiet_since = self.now
            wanted = self.tick()
            if self.events():
                continue
            if wanted is None:
                return
            # Ever longer, for a core that only looks again and again whether something has changed.
            self.now += max(wanted, self.now - quiet_since, 1e-3)

    def drain(self, patient: bool = True) -> None:
        """The end of a run: nothing breaks any more, every program runs out, everything is let go and must be gone then.

        If not `patient`, waits for what never comes may time out, as those of programs that deadlock by themselves.
        """
        self.faults = Faults()
        self.settle()
        drivers = [process for process in self.processes.values() if not process.is_worker]
        self.close(drivers[0], every_actor=False)
        if not patient:
            self.impatient = True
            self.settle()
            self.close(drivers[0], every_actor=True)
        for process in drivers:
            assert process.thread is None and not process.todo, f"{process} still waits; {self.why()}"
            assert not process.pending, f"{process} never got {process.pending}; {self.why()}"
            assert not process.streams, (
                f"{process} never got the end of {list(process.streams)}; {self.why()}"
            )
            process.frame.clear()
        self.settle()
        self.reconcile()
        # What is left by now are actors that hold handles to themselves.
        self.close(drivers[0], every_actor=True)
        self.gone()

    def reconcile(self) -> None:
        """Nothing is under way: what the core thinks each process holds must be what it holds."""
        for process in self.processes.values():
            holds = {oid: weak() for table in (process.known, process.actors) for oid, weak in table.items()}
            grants = {oid: thing.grants for oid, thing in holds.items() if thing is not None and thing.grants}
            things: dict[bytes, Any] = {**self.core.objects.records, **self.core.actors.actors}
            counted = {
                oid: thing.holders[process.cid]
                for oid, thing in things.items()
                if process.cid in thing.holders
            }
            assert counted == grants, f"{process} holds {grants}, but the core counts {counted}"

    def close(self, driver: Process, every_actor: bool) -> None:
        """Remove the placement groups, and kill the actors that live on by themselves, or all."""
        groups = self.core.placement.groups
        while open_groups := [group_id for group_id, group in groups.items() if group.state != "REMOVED"]:
            for group_id in open_groups:
                driver.ask((m.REQUEST, "remove_group", (group_id,)))
            self.settle()  # which may lead a driver to make more of them
        actors = self.core.actors.actors
        while living := [a for a in actors.values() if a.state != DEAD and (a.detached or every_actor)]:
            for actor in living:
                driver.send((m.KILL, actor.actor_id, True))
            self.settle()

    def why(self) -> str:
        """What the core waits for."""
        return f"tasks: {[(task, self.core.why_waiting(task)) for task in self.core.tasks.values()]}"

    def gone(self) -> None:
        """Everything was let go: nothing may be left in the core."""
        core = self.core
        assert not core.tasks, f"tasks that never end: {list(core.tasks.values())}; {self.why()}"
        assert not core.objects.records, f"objects that nobody has: {list(core.objects.records.values())}"
        assert core.capacity.available == core.capacity.total, f"resources are missing: {core.capacity}"
        assert core.allocator.used == 0, f"{core.allocator.used} bytes of the arena are held by nobody"
        living = [actor for actor in core.actors.actors.values() if actor.state != DEAD]
        assert not living, f"actors that nobody can call live on: {living}"
        assert not core.actors.names, core.actors
        assert not core.scheduler.waiting, core.scheduler.waiting
        busy = [worker for worker in core.scheduler.workers.values() if worker.outstanding or worker.lease]
        assert not busy, busy
        for task_id, outcome in self.outcomes.items():
            heard = outcome or owner_of(task_id) not in self.processes
            assert heard, f"the caller of {self.specs[task_id]} lives and never got an answer"

    # -- what an onlooker sees

    def submitted(self, process: Process, task_id: bytes, spec: Spec) -> None:
        """A process submits."""
        self.specs[task_id] = spec
        if not process.is_worker and (spec.returns or spec.streaming):
            self.outcomes[task_id] = ""

    def created(self, process: Process, actor_id: bytes, spec: Spec, life: dict[str, Any]) -> None:
        """A process starts an actor."""
        self.specs[actor_id] = spec
        self.lives[actor_id] = life

    def called(self, process: Process, task_id: bytes, actor_id: bytes) -> None:
        """A process calls an actor."""
        self._callers[task_id] = (actor_id, process.cid, len(self._callers))

    def began(self, worker: Worker, running: Running, word: int) -> None:
        """A worker begins an attempt."""
        task_id = running.task_id
        count = self.attempts[task_id] = self.attempts.get(task_id, 0) + 1
        if word == m.EXECUTE:
            allowed = self.specs[task_id].retries
        elif word == m.CONSTRUCT:
            allowed = self.lives[task_id]["max_restarts"]
        else:
            actor_id, caller, number = self._callers[task_id]
            life = self.lives[actor_id]
            allowed = life["max_task_retries"]
            if running.attempt == 0 and not life["concurrent"]:
                last = self._order.get((actor_id, caller), -1)
                assert number > last, f"{running.spec} begins after a later call of the same caller"
                self._order[(actor_id, caller)] = number
        assert allowed < 0 or count <= allowed + 1, (
            f"{running.spec} begins {count} times, with {allowed} retries"
        )

    def saw(self, process: Process, oid: bytes, kind: int, payload: Any) -> None:
        """A process gets the result of a call."""
        task_id = oid[:24]
        if task_id in self.outcomes:
            while kind == m.ERROR and "init_error" in payload[1]:
                payload = payload[1]["init_error"]
            self.outcomes[task_id] = payload[0] if kind == m.ERROR else "ok"

    def leased(self, worker: Worker, lease: dict[str, Any]) -> None:
        """A worker learns what it runs with."""
        self._leases[worker.cid] = lease["gpus"]

    def result(self, ref: Any) -> str:
        """What a ref stands for, as a word: "pending", "ok" or the name of an error class."""
        if ref.kind == m.ERROR:
            return str(ref.value[0])
        return "pending" if ref.kind in (m.PENDING, m.UNKNOWN) else "ok"

    def __repr__(self) -> str:
        return f"<Cluster {self.core} steps={self.steps} processes={list(self.processes.values())}>"
