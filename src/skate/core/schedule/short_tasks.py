"""Tasks of microseconds: a few workers do as many as a program submits.

To wake another worker for such a task costs more than the task, and each one that is awake makes the node read and write another
socket. With 64 free CPUs on a machine of two, the node spent 55 us on a task instead of 15.
"""

from __future__ import annotations

from skate.core.schedule.sched_class import SchedClass
from skate.core.task.task import Task
from skate.protocol.states import CREATION

#: Tasks that take less are short: about what it costs to wake a worker and hear from it.
SHORT_SECONDS = 50e-6


class ShortTasks:
    """Decides whether a class of short tasks has enough workers."""

    __slots__ = ("workers",)

    def __init__(self) -> None:
        #: How many workers are enough.
        self.workers = 1 << 30

    def have_enough(self, group: SchedClass, task: Task) -> bool:
        """Return True if a task should go to the workers of its class, of which there are enough, although resources are free.

        They are not if one of them has been found at a task that runs long: then the measured times say little.
        """
        template = task.template
        if not 0 <= template.seconds < SHORT_SECONDS or template.max_calls or task.kind == CREATION:
            return False
        for worker in group.workers.values():  # a loop costs half of `any`, and runs for every task
            if worker.stalled or worker.leaving:
                return False
        return True

    def __repr__(self) -> str:
        return f"<ShortTasks workers={self.workers}>"
