"""Admission of tasks without resource requests (`num_cpus=0`): they use up no counted resource, but each needs a process.

A limited number run at once; the others wait until one of them ends or waits in `get`. Since such tasks may also wait for each
other in ways the node cannot see (a file, a socket), one more is admitted whenever none of them has made progress for a while,
but so rarely that a loop which submits them cannot overload the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.resource.resources import UNIT

if TYPE_CHECKING:
    from skate.core.resource.capacity import Capacity
    from skate.core.schedule.worker_record import Worker

PER_CPU = 4
LEAST = 16
#: Seconds without a finished task before one more is admitted; the pause doubles for each further one.
PATIENCE_SECONDS = 1.0


class ZeroCpuAdmission:
    """The workers that run such tasks and do not wait in `get`."""

    def __init__(self, capacity: Capacity) -> None:
        self.members: dict[int, Worker] = {}
        self.base = max(PER_CPU * (capacity.total.get("CPU", 0) // UNIT), LEAST)
        self.extra = 0

    @property
    def full(self) -> bool:
        """True if one more task must wait."""
        return len(self.members) >= self.base + self.extra

    def patience(self, now: float) -> float | None:
        """Return the seconds until one more may be admitted; if that is now, admit it and return None."""
        if len(self.members) < self.base:
            self.extra = 0
        last = max((worker.progress for worker in self.members.values()), default=now)
        left = last + PATIENCE_SECONDS * (self.extra + 1) - now
        if left > 0:
            return left
        self.extra += 1
        return None

    def __repr__(self) -> str:
        return f"<Crowd {len(self.members)} of {self.base}+{self.extra}>"
