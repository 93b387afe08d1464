"""Recently ended workers and drivers, for state lists."""

from __future__ import annotations

from typing import Any, NamedTuple

from skate.core.clock import Clock
from skate.core.schedule.worker_record import OUT_OF_MEMORY, Ending, Worker

ENDED_MAX = 1_000
#: The most names of work in counts of ended workers; further ones are counted under OTHER_NAMES.
NAMES_MAX = 1_000
OTHER_NAMES = "(other)"
DRIVER_LEFT = Ending(
    "INTENDED_USER_EXIT", "its program ended the session, by ray.shutdown() or at its own end"
)
DRIVER_LOST = Ending("SYSTEM_ERROR", "its program ended without ending the session, for example by a signal")


class EndedWorker(NamedTuple):
    """A worker process at its end."""

    cid: int
    pid: int
    actor_id: bytes
    name: str
    outstanding: int
    since: float
    at: float
    reason: str
    intended: bool
    ending: Ending
    driver: bool = False

    def row(self) -> dict[str, Any]:
        """Return it as a row of the list of workers."""
        return {
            "cid": self.cid,
            "pid": self.pid,
            "alive": False,
            "actor": self.actor_id,
            "name": self.name,
            "outstanding": self.outstanding,
            "since": self.since,
            "at": self.at,
            "reason": self.reason,
            "intended": self.intended,
            "exit_type": self.ending.type,
            "exit_detail": self.ending.detail,
            "driver": self.driver,
        }


class WorkerHistory:
    """A short record of worker processes that have ended."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ended: list[EndedWorker] = []
        #: Workers that have ended unexpectedly, and those ended because memory was short: by kind and name of their work.
        self.lost: dict[tuple[str, str], int] = {}
        self.evicted: dict[tuple[str, str], int] = {}

    def record(self, worker: Worker, reason: str) -> None:
        """Record the end of a worker process."""
        actor = worker.actor
        if not worker.leaving:
            self._count(self.lost, worker)
        if worker.kill_reason is not None and worker.kill_reason.error == OUT_OF_MEMORY:
            self._count(self.evicted, worker)
        self.ended.append(
            EndedWorker(
                worker.cid,
                worker.pid,
                b"" if actor is None else actor.actor_id,
                "" if actor is None else actor.describe(),
                len(worker.outstanding),
                worker.ready_at,
                self.clock.now,
                reason,
                worker.leaving,
                self._ending(worker, reason),
            )
        )
        self._trim()

    def record_driver(self, cid: int, pid: int, left: bool) -> None:
        """Record the end of a program that joined a standing node; `left` says that it ended its session itself."""
        ending = DRIVER_LEFT if left else DRIVER_LOST
        self.ended.append(
            EndedWorker(cid, pid, b"", "", 0, -1.0, self.clock.now, ending.detail, left, ending, driver=True)
        )
        self._trim()

    def _trim(self) -> None:
        if len(self.ended) > 2 * ENDED_MAX:
            del self.ended[:ENDED_MAX]

    @staticmethod
    def _ending(worker: Worker, reason: str) -> Ending:
        """Return the type of an exit, and the cause that is nearest to the user's act."""
        if worker.kill_reason is not None:
            return Ending("SYSTEM_ERROR", worker.kill_reason.fields.get("message", reason))
        if worker.ending is not None:
            return worker.ending
        return Ending("INTENDED_SYSTEM_EXIT" if worker.leaving else "SYSTEM_ERROR", f"its process {reason}")

    def _count(self, counts: dict[tuple[str, str], int], worker: Worker) -> None:
        if worker.actor is not None:
            key = "ActorTask", worker.actor.class_name
        else:
            key = "NormalTask", next((task.template.name for task in worker.outstanding.values()), "")
        if key not in counts and len(counts) >= NAMES_MAX:
            key = key[0], OTHER_NAMES
        counts[key] = counts.get(key, 0) + 1

    def __repr__(self) -> str:
        return f"<WorkerHistory {len(self.ended)} ended>"
