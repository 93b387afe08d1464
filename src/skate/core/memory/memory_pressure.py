"""Memory pressure: the reactions of a node that runs short of memory.

The shell measures the memory in use, in total and by worker; this module decides what to do. Above a first threshold, no new
task starts while a task runs whose end would free memory, so two tasks that do not fit together run one after the other. Above
a second threshold, workers are killed one at a time, before the kernel picks a victim. Workers whose tasks will be retried go
first, and among those the newest, which loses the least work. A worker that holds too little to make a difference is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skate.core.resource.resources import human_bytes
from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.protocol.fields import Death
from skate.protocol.states import CREATION, METHOD, PLAIN

if TYPE_CHECKING:
    from skate.core.clock import Clock
    from skate.core.outbox import Outbox
    from skate.core.schedule.scheduler import Scheduler
    from skate.core.schedule.worker_record import Worker

#: Fraction of the limit above which a worker is killed, as in Ray.
KILL_SHARE = 0.95
#: How far below that no new task starts beside running ones.
ADMIT_MARGIN = 0.10
#: A worker with less than this fraction of the limit, or of the largest worker's memory, makes no difference.
HELPFUL_SHARE = 0.01
#: If all workers together hold less than this fraction of the limit, other processes fill the memory, and waiting is useless.
OURS_SHARE = 0.05
HELPFUL_OF_LARGEST = 0.1
#: Seconds without a finished task after which one more starts anyway, since the running ones may never end.
HOLD_BACK_SECONDS = 30.0
TOP = 5

# lower ranks go first
RETRIABLE = 0
RESTARTABLE = 1  # an actor
LOST = 2  # tasks that are not retried
LOST_ACTOR = 3


class Gauge(NamedTuple):
    """Memory in use and its limit, in bytes, and the source of that limit."""

    use: int
    limit: int
    source: str

    @property
    def share(self) -> float:
        """Memory in use as a fraction of the limit."""
        return self.use / self.limit if self.limit else 0.0


class Candidate(NamedTuple):
    """A worker that could be killed."""

    cid: int
    rank: int
    since: float
    resident: int


def helpful(limit: int, largest: int) -> int:
    """Return the minimum bytes that a worker must hold for its end to make a difference."""
    return int(max(limit * HELPFUL_SHARE, largest * HELPFUL_OF_LARGEST))


def choose(candidates: list[Candidate], limit: int) -> int | None:
    """Return the worker to kill, by rank, then the newest, among those whose end would help; None if there is none."""
    largest = max((each.resident for each in candidates), default=0)
    least = helpful(limit, largest)
    able = [each for each in candidates if each.resident >= least]
    if not able:
        return None
    return min(able, key=lambda each: (each.rank, -each.since, -each.cid)).cid


class MemoryPressure:
    """A node's knowledge of its memory, and its reactions to pressure."""

    def __init__(self, scheduler: Scheduler, clock: Clock, out: Outbox) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self.out = out
        self.kill_share = KILL_SHARE
        self.gauge = Gauge(0, 0, "")
        self.pressed = False
        #: Bytes that each worker held at the last reading.
        self.resident: dict[int, int] = {}
        #: The worker being killed; no other is killed until it has ended.
        self.victim: int | None = None
        self._quiet_since = 0.0
        self._at_work: frozenset[bytes] = frozenset()

    @property
    def admit_share(self) -> float:
        """Fraction of the limit above which no task starts beside running ones."""
        return max(0.0, self.kill_share - ADMIT_MARGIN)

    def busy(self) -> bool:
        """Return True if any worker has work."""
        return any(worker.outstanding for worker in self.scheduler.workers.values())

    def look(self, gauge: Gauge, resident: dict[int, int], others: list[tuple[str, int]], now: float) -> None:
        """Record the current memory use of each worker, and of `others` (name, bytes) for messages."""
        self.clock.now = now
        self.gauge = gauge
        self.resident = resident
        ours = sum(resident.values()) >= gauge.limit * OURS_SHARE
        was, self.pressed = self.pressed, ours and gauge.share >= self.admit_share
        if not self.pressed:
            self.scheduler.held = None
            if was:
                self.scheduler.dispatch_all()
            return
        at_work = frozenset(i for worker in self.scheduler.workers.values() for i in worker.outstanding)
        if not was or self._at_work - at_work:
            self._quiet_since = now
        self._at_work = at_work
        self.scheduler.held = self.holds_back
        self._let_idle_go()
        if gauge.share >= self.kill_share and self.victim not in self.scheduler.workers:
            self._end_one(others)
        self.scheduler.dispatch_all()

    def relax(self) -> None:
        """Stop holding tasks back, because no task runs."""
        self.pressed = False
        if self.scheduler.held is not None:
            self.scheduler.held = None
            self.scheduler.dispatch_all()

    # -- admission

    def holds_back(self) -> bool:
        """Return True if a ready task must wait, because the end of a running one would free memory."""
        runs = [worker for worker in self.scheduler.workers.values() if self._could_give(worker)]
        if not runs:
            return False
        since = max(self._quiet_since, max(worker.leased_at for worker in runs))
        return self.clock.now - since < HOLD_BACK_SECONDS

    def _could_give(self, worker: Worker) -> bool:
        if worker.actor is not None or worker.blocked or not worker.outstanding:
            return False
        held = self.resident.get(worker.cid)
        return (
            held is None or held >= helpful(self.gauge.limit, 0) or worker.leased_at >= self.clock.now - 1.0
        )

    def has_room(self, needed: int) -> bool:
        """Return True if this many more bytes stay below the first threshold, or no running worker could free memory."""
        if self.gauge.use + needed <= self.gauge.limit * self.admit_share:
            return True
        return not any(self._could_give(worker) for worker in self.scheduler.workers.values())

    def _let_idle_go(self) -> None:
        """Retire idle workers that still hold much memory."""
        least = helpful(self.gauge.limit, 0)
        for idle in self.scheduler.idle.values():
            for worker in [w for w in idle if self.resident.get(w.cid, 0) >= least]:
                idle.remove(worker)
                worker.leaving = True
                self.out.emit(worker.cid, m.Exit(m.EXIT, "memory is short"))

    # -- killing workers

    def _end_one(self, others: list[tuple[str, int]]) -> None:
        candidates = [
            Candidate(worker.cid, self._rank(worker), worker.leased_at, self.resident.get(worker.cid, 0))
            for worker in self.scheduler.workers.values()
            if not worker.leaving and (worker.actor is not None or worker.outstanding)
        ]
        cid = choose(candidates, self.gauge.limit)
        if cid is None:
            return
        worker = self.scheduler.workers[cid]
        held = self.resident.get(cid, 0)
        alone = sum(self.resident.values()) - held < held * HELPFUL_OF_LARGEST
        text = (
            f"{self.who(worker)} was ended because memory ran out: {human_bytes(self.gauge.use)} of "
            f"{human_bytes(self.gauge.limit)} were in use ({self.gauge.source}), and above "
            f"{self.kill_share:.0%} the newest worker whose work can be retried is ended, before the "
            "kernel kills a process"
        )
        self.victim = cid
        worker.kill_reason = self.out_of_memory(worker, text, others, alone)
        worker.leaving = True
        self.out.shell(KillWorker(cid))

    def killed_by_kernel(self, worker: Worker, peak: int) -> Death:
        """Return the error for the tasks of a worker killed by the kernel; `peak` is its maximum of mapped bytes."""
        self.resident.setdefault(worker.cid, peak)
        text = f"{self.who(worker)} was killed by the kernel because memory ran out (it counted an oom_kill)"
        return self.out_of_memory(worker, text, [], False)

    def out_of_memory(self, worker: Worker, text: str, others: list[tuple[str, int]], alone: bool) -> Death:
        """Return the error for the tasks of a worker killed because memory ran out."""
        workers = self.scheduler.workers
        top = [(self._named(workers[cid]), size) for cid, size in self.resident.items() if cid in workers]
        top = sorted((each for each in (*top, *others) if each[1]), key=lambda each: -each[1])[:TOP]
        held = self.resident.get(worker.cid, 0)
        lines = "".join(f"\n    {human_bytes(size):>10}  {name}" for name, size in top)
        fields = {
            "message": (
                f"{text}\n  largest at the last check:{lines}\n  run fewer at a time (set num_cpus=, "
                "or memory= to the bytes that each needs), or process less data at a time"
            ),
            "task": self._name(worker),
            "pid": worker.pid,
            "resident": held,
            "used": self.gauge.use,
            "limit": self.gauge.limit,
            "top": tuple(top),
            "alone": alone,
        }
        return Death("OutOfMemoryError", fields)

    def _name(self, worker: Worker) -> str:
        if worker.actor is not None:
            name: str = worker.actor.describe()
            return name
        first = next(iter(worker.outstanding.values()), None)
        return first.template.name if first is not None else "an idle worker"

    def _named(self, worker: Worker) -> str:
        return f"{'actor ' if worker.actor is not None else ''}{self._name(worker)} (pid {worker.pid})"

    def who(self, worker: Worker) -> str:
        """Describe a worker by its task and its memory, for messages."""
        held = self.resident.get(worker.cid)
        return f"{self._named(worker)[:-1]}, which held {human_bytes(held)})" if held else self._named(worker)

    @staticmethod
    def _rank(worker: Worker) -> int:
        actor = worker.actor
        if actor is not None:
            again = actor.restarts_max < 0 or actor.restarts < actor.restarts_max
            return RESTARTABLE if again else LOST_ACTOR
        first = next(iter(worker.outstanding.values()))
        if first.kind == CREATION:
            first = first.actor
            return RESTARTABLE if first.restarts_max < 0 or first.restarts < first.restarts_max else LOST
        assert first.kind in (PLAIN, METHOD)
        return RETRIABLE if first.retries else LOST

    def __repr__(self) -> str:
        return f"<Pressure {human_bytes(self.gauge.use)} of {human_bytes(self.gauge.limit)} pressed={self.pressed}>"
