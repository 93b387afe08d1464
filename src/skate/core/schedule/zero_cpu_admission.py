"""Admission of tasks without CPUs (`num_cpus=0`): no CPU limits how many run at once, but each needs a process.

A limited number run at once; the others wait until one of them ends or waits in `get`. They may also wait for each other in ways
the node cannot see (a file, a socket). So more are admitted whenever none of them has made progress for a while, and
every process for them has started: a slow machine does not get more processes because it is slow.

Tasks that request nothing at all are admitted one by one, so rarely that a loop which submits them cannot overload the machine.
Those that request other resources have named a limit of their own, and soon reach it if they run long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.resource.resources import UNIT

if TYPE_CHECKING:
    from skate.core.resource.capacity import Capacity
    from skate.core.schedule.worker_record import Worker

PER_CPU = 4
LEAST = 16
#: Seconds without a finished task before one more is admitted; the pause grows by as much for each further one.
RAISE_SECONDS = 1.0
#: The same for tasks that request other resources; each time, twice as many may run.
BATCH_RAISE_SECONDS = 0.1
#: After so long, a process that has not started no longer keeps others from starting.
START_SECONDS_MAX = 10.0


class ZeroCpuAdmission:
    """The workers that run such tasks and do not wait in `get`."""

    def __init__(self, capacity: Capacity, by_batch: bool = False) -> None:
        self.members: dict[int, Worker] = {}
        self.base = max(PER_CPU * (capacity.total.get("CPU", 0) // UNIT), LEAST)
        self.extra = 0
        self.by_batch = by_batch

    @property
    def full(self) -> bool:
        """True if one more task must wait."""
        return len(self.members) >= self.base + self.extra

    def raise_limit(self, now: float) -> float | None:
        """Raise the limit if it is time to, and return None; otherwise return the seconds until then."""
        if len(self.members) < self.base:
            self.extra = 0
        members = self.members.values()
        pause = BATCH_RAISE_SECONDS if self.by_batch else RAISE_SECONDS * (self.extra + 1)
        if any(worker.ready_at < 0 and now - worker.leased_at < START_SECONDS_MAX for worker in members):
            return pause
        last = max((max(worker.progress, worker.ready_at) for worker in members), default=now)
        left = last + pause - now
        if left > 0:
            return left
        self.extra += self.base + self.extra if self.by_batch else 1
        return None

    def __repr__(self) -> str:
        return f"<ZeroCpuAdmission {len(self.members)} of {self.base}+{self.extra}>"
