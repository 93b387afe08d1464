"""Tasks that ask for no resources at all (`num_cpus=0`): nothing that they take ever runs out, yet each takes a process.

So many run at once as the node can stand; the others wait for one of them to end or to wait in `get`. Since they may also wait
for each other in ways that nobody here can see (a file, a socket), one more is let in whenever none of them has got on
for a while: seldom enough that a loop which submits them does not bury the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.resource.resources import UNIT

if TYPE_CHECKING:
    from skate.core.resource.capacity import Capacity
    from skate.core.schedule.worker_record import Worker

PER_CPU = 4
LEAST = 16
#: After how long without an end the first one more is let in; the second after twice as long, and so on.
PATIENCE_SECONDS = 1.0


class ZeroCpuAdmission:
    """The workers of a node that run such tasks and do not wait in `get`."""

    def __init__(self, capacity: Capacity) -> None:
        self.members: dict[int, Worker] = {}
        self.base = max(PER_CPU * (capacity.total.get("CPU", 0) // UNIT), LEAST)
        self.extra = 0

    @property
    def full(self) -> bool:
        """True if one more task must wait."""
        return len(self.members) >= self.base + self.extra

    def patience(self, now: float) -> float | None:
        """Return seconds until one more is let in; None if it is time for that, and then it is."""
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
