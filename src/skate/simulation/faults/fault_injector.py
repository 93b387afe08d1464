"""Faults at one node: which of its processes is killed, stopped or delayed, and what is lost with it.

`Faults` has their frequencies; this module carries them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.simulation.faults.rates import JUMPS, PAUSES, Faults
from skate.simulation.processes.worker import Worker
from skate.wire.status import begun_in

if TYPE_CHECKING:
    import random

    from skate.simulation.checks.observer import Observer
    from skate.simulation.processes.process import Process

END = -1  # follows the last message of a process: it has ended
LATE = ("delay", "stop")  # faults by which nothing is lost, and which are most of all
WARY_STEPS = 4  # steps after a fault, each of which is checked in full
ASKING = (m.SUBMIT, m.CALL, m.CREATE_ACTOR, m.PUT, m.ALLOCATE, m.REQUEST, m.FETCH)
ANSWERING = (m.DONE, m.ITEM)


class FaultInjector:
    """The faults of a `Cluster`, which is the only class made from this one."""

    rng: random.Random
    now: float
    faults: Faults
    observer: Observer
    processes: dict[int, Process]
    doomed: list[int]
    _wary: int

    def record(self, *what: Any) -> None:
        """Write an event into the log."""
        raise NotImplementedError

    def tick(self) -> float | None:
        """Advance the core's time."""
        raise NotImplementedError

    def fault(self, kind: str) -> None:
        """Count a fault and, unless it only delays, check the next steps in full."""
        self.observer.counts["fault " + kind] += 1
        if kind not in LATE:
            self._wary = WARY_STEPS

    def break_something(self) -> None:
        """Inject a fault now and then."""
        kind = self.faults.struck(self.rng)
        if kind:
            getattr(self, "break_" + kind)()

    def break_worker(self) -> None:
        """Kill a worker, whatever it is doing."""
        self._break_one([p for p in self.processes.values() if p.is_worker and p.alive], "worker")

    def break_driver(self) -> None:
        """Kill a driver, but never the first."""
        drivers = [p for p in self.processes.values() if not p.is_worker and p.alive]
        self._break_one(drivers[1:], "driver")

    def _break_one(self, processes: list[Process], kind: str) -> None:
        """Kill one of several processes, preferably one with unread messages."""
        talking = [process for process in processes if process.outbox]
        if talking and self.rng.random() < 0.7:
            processes = talking
        if processes:
            self.fault(kind)
            self.strike(processes[self.rng.randrange(len(processes))])

    def first_driver(self) -> Process | None:
        """Return the driver that lives to the end."""
        return next((p for p in self.processes.values() if not p.is_worker), None)

    def break_delay(self) -> None:
        """Hold a channel, so that its messages arrive later than those of others."""
        processes = list(self.processes.values())
        if processes:
            self.fault("delay")
            process = processes[self.rng.randrange(len(processes))]
            until = self.now + self.rng.choice(PAUSES)
            if self.rng.random() < 0.5:
                process.held_in = until
            else:
                process.held_out = until
            self.record("hold", process.cid)

    def break_stop(self) -> None:
        """Stop a worker: it reads nothing and does nothing for a while."""
        workers = [p for p in self.processes.values() if p.is_worker and p.alive]
        if workers:
            self.fault("stop")
            worker = workers[self.rng.randrange(len(workers))]
            worker.stopped = self.now + self.rng.choice(PAUSES)
            self.record("stop", worker.cid)

    def break_jump(self) -> None:
        """Advance the clock by a large step."""
        self.fault("jump")
        self.now += self.rng.choice(JUMPS)
        self.record("jump")
        self.tick()

    def break_node(self) -> None:
        """No-op: there is no other node."""

    break_partition = break_node

    def answering(self, worker: Worker) -> bool:
        """Handle a worker about to answer for a task; return False if it is killed first."""
        if self.faults.work and self.rng.random() < self.faults.work:
            self.fault("work")
            self.strike(worker)
            return False
        return True

    def answered(self, worker: Worker) -> None:
        """Handle an answer just sent: the worker may be killed before it is read, and the answer must still count."""
        if self.faults.reply and self.rng.random() < self.faults.reply:
            self.fault("reply")
            self.record("strike", worker.cid)
            self._gone(worker)

    def strike(self, process: Process) -> None:
        """Kill a process; some of its last messages may be lost."""
        self.record("strike", process.cid)
        if process.cid in self.doomed:
            self.doomed.remove(process.cid)
        if not process.alive:
            return
        counts = self.observer.counts
        outbox = process.outbox
        while outbox and self.faults.request and self.rng.random() < self.faults.request:
            word = outbox.pop()[0]
            counts["lost requests"] += word in ASKING
            counts["lost answers"] += word in ANSWERING
        self._gone(process)

    def left(self, process: Process) -> None:
        """End a process that has no more work, with all its messages sent."""
        process.frame.clear()
        self._gone(process)

    def _gone(self, process: Process) -> None:
        begun, ahead = begun_in(process.status) if isinstance(process, Worker) else (0, ())
        self.observer.counts["lost results"] += sum(word[0] in (m.RESULT, m.STREAM) for word in process.inbox)
        process.end()
        process.outbox.append((END, begun, tuple(sorted(ahead))))
