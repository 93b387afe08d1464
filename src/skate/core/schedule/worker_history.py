"""Recently ended workers, for state lists."""

from __future__ import annotations

from typing import NamedTuple

from skate.core.clock import Clock
from skate.core.schedule.worker_record import Worker

ENDED_MAX = 1_000


class EndedWorker(NamedTuple):
    """A worker process at its end."""

    cid: int
    pid: int
    actor_id: bytes
    name: str
    outstanding: int
    at: float
    reason: str
    intended: bool


class WorkerHistory:
    """A short record of worker processes that have ended."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ended: list[EndedWorker] = []

    def record(self, worker: Worker, reason: str) -> None:
        """Record the end of a worker process."""
        actor = worker.actor
        self.ended.append(
            EndedWorker(
                worker.cid,
                worker.pid,
                b"" if actor is None else actor.actor_id,
                "" if actor is None else actor.describe(),
                len(worker.outstanding),
                self.clock.now,
                reason,
                worker.leaving,
            )
        )
        if len(self.ended) > 2 * ENDED_MAX:
            del self.ended[:ENDED_MAX]

    def __repr__(self) -> str:
        return f"<WorkerHistory {len(self.ended)} ended>"
