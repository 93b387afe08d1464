"""A node's core among scripted drivers and workers: channels, the order of events, faults, and invariants.

Each process has a FIFO channel to the node and one back. A step is one of the possible events: a message arrives, a process
continues, a clock ticks, something breaks. The core checks itself every few steps, and after every step around a fault. The
`Observer` checks what users would see.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from skate.core.node import SHELL, NodeCore, admit_client
from skate.core.object.lifetimes import owner_of
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import (
    DISK_EFFECTS,
    EndTask,
    KillWorker,
    ReadOutput,
    ServeReads,
    ShellEffect,
    Spawn,
)
from skate.protocol.fields import Death
from skate.protocol.states import DEAD, ENDED, SENT, GroupState
from skate.simulation.checks import accounts, quiescence
from skate.simulation.checks.observer import Observer
from skate.simulation.faults.fault_injector import END, WARY_STEPS, FaultInjector
from skate.simulation.faults.rates import NO_FAULTS, Faults
from skate.simulation.nodes.disk import Disk
from skate.simulation.processes.process import NODE_TAG, Process
from skate.simulation.processes.worker import Worker
from skate.simulation.programs.spec import CPU, Spec

if TYPE_CHECKING:
    import random

STEPS_MAX = 200_000
QUIET_SECONDS = 60.0  # longer than any delay of the core
WONDER_EVERY = 4  # full checks


class Stuck(AssertionError):
    """Everything waits and nothing can happen."""


class Cluster(FaultInjector):
    """One node, its processes and the channels between them."""

    number = 0  # among several nodes
    now = 0.0  # the clock; that of several nodes is their world's, which a new node does not set back
    fenced = False  # removed by the head of several nodes although it still runs

    def __init__(
        self,
        rng: random.Random,
        cpus: int = 2,
        *,
        gpus: int = 0,
        faults: Faults = NO_FAULTS,
        log: list[str] | None = None,
        observer: Observer | None = None,
        check_every: int = 1,
    ) -> None:
        self.rng = rng
        total = {"CPU": cpus * CPU}
        if gpus:
            total["GPU"] = gpus * CPU
        self.core = NodeCore(
            total,
            gpus=range(gpus),
            arena_bytes=faults.arena_bytes,
            disk_bytes=(faults.disk_bytes,) * faults.disks,
            spill_outside=faults.outside,
            node_id=NODE_TAG + bytes(20),
        )
        self.faults = faults
        self.check_every = check_every
        self.observer = observer or Observer()
        self.log = log
        self.digest = hashlib.blake2b(digest_size=16)
        self.steps = 0
        self.processes: dict[int, Process] = {}
        self.memory: dict[int, tuple[bytes, tuple[bytes, ...]]] = {}
        self.disk = Disk(self)
        self.gates: set[str] = set()
        self.pace: dict[str, float] = {}  # weights from 0 to 1 of "arrive", "deliver", "act" and other events
        self.timeouts_allowed = False  # a wait in `get` may time out
        self.merciful = True  # a deadlocked wait ends with an error
        #: Waits that the node has reported as deadlocked: (process, number).
        self.verdicts: list[tuple[Process, int]] = []
        self.doomed: list[int] = []
        self._unchecked = self._checks = 0
        self._wary = 0

    @property
    def head(self) -> Cluster:
        """The node that decides about actors."""
        return self

    def everybody(self) -> list[Process]:
        """Return the processes alive, of all nodes."""
        return [process for process in self.processes.values() if process.alive]

    @property
    def specs(self) -> dict[bytes, Spec]:
        """The functions of all calls, by task id."""
        return self.observer.specs

    @property
    def outcomes(self) -> dict[bytes, str]:
        """The outcomes of the drivers' calls."""
        return self.observer.outcomes

    def driver(self) -> Process:
        """Add a driver."""
        job = f"job{self.core.snapshot.next_client}"
        cid = admit_client(self.core, se.DriverJoined(se.DRIVER_JOINED, job, "", False), self.now)
        process = self.processes[cid] = Process(cid, self)
        return process

    # -- events

    def step(self) -> bool:
        """Execute one event; return False if none is possible."""
        self.break_something()
        events = self.events()
        while not events:
            release = self.next_release()
            if release is None:
                return False
            self.now = release
            events = self.events()
        what, process = events[self.rng.randrange(len(events))]
        if self.rng.random() > self.pace.get(what.__name__, 1.0):
            what, process = events[self.rng.randrange(len(events))]
        self.now += self.rng.choice((1e-5, 1e-4, 2e-3))
        what(process)
        if self.rng.random() < 0.05:
            self.tick()
        return True

    def events(self) -> list[tuple[Any, Any]]:
        """Return the events that can happen next."""
        now = self.now
        events: list[tuple[Any, Any]] = []
        add = events.append
        for process in self.processes.values():
            if process.outbox and process.held_out <= now:
                add((self.arrive, process))
            if process.alive and process.stopped <= now:
                if process.inbox and process.held_in <= now and process.started:
                    add((self.deliver, process))
                if process.can_act():
                    add((self.act, process))
                if process.pending_releases:
                    add((self.tidy, process))
        if self.doomed:
            events += [(self.strike, self.processes[cid]) for cid in self.doomed]
        if self.disk.jobs:
            events.append((self.disk.disk_work, self.disk))
        return events

    def next_release(self) -> float | None:
        """Return when the next held message or process may move; None if nothing is held."""
        times = [
            t for p in self.processes.values() for t in (p.held_out, p.held_in, p.stopped) if t > self.now
        ]
        return min(times, default=None)

    def record(self, *what: Any) -> None:
        """Write an event to the log, whose hash is `digest`."""
        self.steps += 1
        text = repr(what)
        self.digest.update(text.encode())
        if self.log is not None:
            self.log.append(text)
        if self.steps > STEPS_MAX:
            raise Stuck(f"no end after {self.steps} steps")

    def arrive(self, process: Process) -> None:
        """Have the node handle a message from a process."""
        message = process.outbox.popleft()
        self.observer.counts["messages"] += 1
        self.record("arrive", process.cid, message)
        if message[0] == END:
            del self.processes[process.cid]
            if process.cid in self.doomed:
                self.doomed.remove(process.cid)
            self._wary = WARY_STEPS
            _, begun, ahead = message
            if process.is_worker:
                self.tell(
                    se.WorkerLost(
                        se.WORKER_LOST, process.cid, "was killed", begun, tuple(ahead), None, "", -1
                    )
                )
            else:
                self.tell(se.DriverLeft(se.DRIVER_LEFT, process.cid))
        else:
            self.observer.takes(self, process, message)
            self.core.step(process.cid, message, self.now)
        self.apply()

    def tell(self, event: se.ShellEvent) -> None:
        """Pass an event to the core."""
        self.core.step(SHELL, event, self.now)

    def apply(self) -> None:
        """Execute the effects of the core; then check its invariants."""
        effects = self.core.effects.copy()
        self.core.effects.clear()
        cut = self._cut(effects) if self.faults.effect else -1
        for place, (cid, message) in enumerate(effects):
            if place == cut and not self.cut_off(cid):
                return
            self.carry_out(cid, message)
        self.verify_invariants()
        if self.core.effects:
            self.apply()

    def carry_out(self, cid: int, message: Any) -> None:
        """Execute one effect of the core."""
        if cid == SHELL:
            self.shell(message)
            return
        process = self.processes.get(cid)
        if process is not None and process.alive:
            if process.is_worker:
                self.observer.sends(self, process, message)  # type: ignore[arg-type]
            process.inbox.append(message)

    def _cut(self, effects: list[Any]) -> int:
        """Return the place among the effects at which something breaks, or -1."""
        broken = effects and self.rng.random() < self.faults.effect
        return self.rng.randrange(len(effects)) if broken else -1

    def cut_off(self, cid: int) -> bool:
        """Kill the receiver of the next effect before it gets it; return False if the node itself is killed."""
        process = self.processes.get(cid)
        if (
            process is not None
            and process.alive
            and (process.is_worker or process is not self.first_driver())
        ):
            self.fault("effect")
            self.strike(process)
        return True

    def verify_invariants(self) -> None:
        """Check the invariants, in full every few steps."""
        self._unchecked += 1
        if self._wary:
            self._wary -= 1
        elif self._unchecked < self.check_every:
            self.core.capacity.check()
            return
        self._unchecked = 0
        self._checks += 1
        self.observer.deepest_queue = max(self.observer.deepest_queue, len(self.core.tasks))
        self.core.check()
        for process in self.processes.values():
            if process.alive:
                accounts.check(self.core, process)
        if self._checks % WONDER_EVERY == 0:
            self.wonder()

    def wonder(self) -> None:
        """Assert that everything that waits has a reason, and that groups have their reserved resources."""
        core = self.core
        for task in core.tasks.values():
            assert task.state in (SENT, ENDED) or core.why_waiting(task), (
                f"{task} waits, and nothing says why"
            )
        taken: dict[tuple[Any, str], int] = {}
        for group in core.placement.groups.values():
            for index, place in group.places.items() if group.state != GroupState.REMOVED else ():
                for name, units in group.bundles[index].items():
                    taken[place, name] = taken.get((place, name), 0) + units
        for (place, name), units in taken.items():
            if place is None:  # a node that is not known here yet, or no longer
                continue
            assert units <= place.total.get(name, 0), f"bundles have {units} {name} of {place}"

    def shell(self, effect: ShellEffect) -> None:
        """Execute an effect of the core."""
        if isinstance(effect, DISK_EFFECTS):
            self.disk.take(effect)
            return
        if isinstance(effect, ServeReads):
            return
        self.record(type(effect).__name__, effect[0])
        match effect:
            case Spawn(cid, environment):
                self.spawn(cid)
                if environment is not None and self.rng.random() < self.faults.environment:
                    self.fault("environment")
                    del self.processes[cid]
                    text = "no such package"
                    death = Death("RuntimeEnvSetupError", {"message": text})
                    self.tell(se.WorkerLost(se.WORKER_LOST, cid, text, 0, (), death, "", -1))
            case KillWorker(cid):
                process = self.processes.get(cid)
                if process is not None and process.alive and cid not in self.doomed:
                    self.doomed.append(cid)
            case ReadOutput(key, _):
                self.tell(se.OutputRead(se.OUTPUT_READ, key, ()))
            case EndTask(cid, sequence):
                process = self.processes.get(cid)
                if isinstance(process, Worker) and process.alive and process.begun == sequence:
                    self.strike(process)

    def spawn(self, cid: int) -> Worker:
        """Add a worker process."""
        worker = self.processes[cid] = Worker(cid, self)
        return worker

    def deliver(self, process: Process) -> None:
        """Have a process handle a message from the node."""
        message = process.inbox.popleft()
        self.observer.counts["messages"] += 1
        self.record("deliver", process.cid, message)
        process.hear(message)

    def act(self, process: Process) -> None:
        """Let a process take one step."""
        self.record("act", process.cid)
        process.act()

    def tidy(self, process: Process) -> None:
        """Have a process release everything that it no longer holds."""
        self.record("tidy", process.cid)
        process.tidy()

    def tick(self) -> float | None:
        """Advance the core's time; returns the seconds until its next tick."""
        self.record("tick")
        wanted = self.core.tick(self.now)
        self.apply()
        return wanted

    # -- the end of a run

    def heal(self) -> None:
        """Stop all faults, and release everything that is held up."""
        self.faults = NO_FAULTS
        for process in self.processes.values():
            process.held_in = process.held_out = process.stopped = 0.0

    def timed_out(self, process: Process) -> bool:
        """Return True if a wait of this process times out."""
        return self.timeouts_allowed

    def condemns(self, process: Process, number: int) -> bool:
        """Handle the verdict that a wait can never end; return False if it shall continue."""
        if number in process.waits:
            self.verdicts.append((process, number))
        return self.merciful

    def settle(self) -> None:
        """Run until no event is possible, however far the clocks must advance."""
        quiet_since = self.now
        while self.now - quiet_since < QUIET_SECONDS:
            while self.step():
                quiet_since = self.now
            wanted = self.tick()
            if self.events():
                continue
            if wanted is None:
                return
            # Ever longer steps, for a core that only polls for changes.
            self.now += max(wanted, self.now - quiet_since, 1e-3)

    def drain(self, without_timeouts: bool = True) -> None:
        """End a run: no more faults, every program finishes, everything is released and must disappear.

        If not `without_timeouts`, waits without end may time out, as in programs that deadlock on their own.
        """
        self.heal()
        self.settle()
        quiescence.check([self])
        drivers = [process for process in self.processes.values() if not process.is_worker]
        self.close(drivers[0], every_actor=False)
        if not without_timeouts:
            self.timeouts_allowed = True
            self.settle()
            self.close(drivers[0], every_actor=True)
        for process in drivers:
            assert process.thread is None and not process.todo, f"{process} still waits; {self.why()}"
            assert not process.pending, f"{process} never got {process.pending}; {self.why()}"
            assert not process.streams, (
                f"{process} never got the end of {list(process.streams)}; {self.why()}"
            )
        self.reconcile()
        for process in drivers:
            process.frame.clear()
        self.settle()
        self.core.check()
        self.wonder()
        self.reconcile()
        # Only actors that hold handles to themselves are left.
        self.close(drivers[0], every_actor=True)
        self.gone()

    def reconcile(self) -> None:
        """Assert, with no message in flight, that each process holds what the core thinks it holds."""
        for process in self.processes.values():
            grants = accounts.held(process)
            things: dict[bytes, Any] = {**self.core.objects.records, **self.core.actors.actors}
            counted = {
                oid: thing.holders[process.cid]
                for oid, thing in things.items()
                if process.cid in thing.holders
            }
            assert counted == grants, f"{process} holds {grants}, but the core counts {counted}"

    def close(self, driver: Process, every_actor: bool) -> None:
        """Remove the placement groups, and kill the actors that keep themselves alive, or all."""
        groups = self.core.placement.groups
        while open_groups := [
            group_id for group_id, group in groups.items() if group.state != GroupState.REMOVED
        ]:
            for group_id in open_groups:
                driver.ask("remove_group", group_id)
            self.settle()  # which may make a driver create more of them
        actors = self.core.actors.actors
        while living := [a for a in actors.values() if a.state != DEAD and (a.detached or every_actor)]:
            for actor in living:
                driver.send(m.Kill(m.KILL, actor.actor_id, True))
            self.settle()

    def why(self) -> str:
        """Describe what the core waits for."""
        return f"tasks: {[(task, self.core.why_waiting(task)) for task in self.core.tasks.values()]}"

    def gone(self) -> None:
        """Assert that the core is empty after everything was released."""
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
        self.observer.heard(set(self.processes), owner_of)

    def __repr__(self) -> str:
        return f"<Cluster {self.core} steps={self.steps} processes={list(self.processes.values())}>"
