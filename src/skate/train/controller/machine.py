"""The course of a run as a pure machine: takes events, returns actions.

starting -> running -> finished
   ^  |        |  |
   |  |        |  +-> resizing --+
   |  +--> restarting <----------+
   +-----------+            -> errored (more failures than allowed)

Nothing here waits, reads a clock or communicates: times are arguments, actions are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skate.train.configs import FailureConfig, ScalingConfig

STARTING, RUNNING, RESTARTING, RESIZING, FINISHED, ERRORED = (
    "starting",
    "running",
    "restarting",
    "resizing",
    "finished",
    "errored",
)


@dataclass(frozen=True)
class Start:
    """Start a group of workers in `delay` seconds."""

    workers: int
    attempt: int
    delay: float = 0.0


@dataclass(frozen=True)
class Stop:
    """End all workers of this attempt, with a reason."""

    reason: str


@dataclass(frozen=True)
class Commit:
    """Commit the report that all ranks have made, and let them continue; None in place of those of lost ranks."""

    number: int
    reports: tuple[Any, ...]


@dataclass(frozen=True)
class Release:
    """Let all ranks continue after a collective (a barrier, a broadcast), with rank 0's value."""

    number: int
    value: Any


@dataclass(frozen=True)
class Fail:
    """The run has failed permanently: exceptions by rank, in order of occurrence."""

    failures: dict[int, Exception]
    #: "worker", "start" or "preemption"
    kind: str


@dataclass(frozen=True)
class Finish:
    """All ranks have returned."""

    values: tuple[Any, ...]


Action = Start | Stop | Commit | Release | Fail | Finish


@dataclass
class SyncPoint:
    """A point in the program that all ranks reach."""

    kind: str  # "report" or "collective"
    number: int
    since: float
    arrived: dict[int, Any] = field(default_factory=dict)
    #: It may complete without ranks that are lost with a drained node.
    is_relaxed: bool = False


class Machine:
    """Decides what happens next."""

    def __init__(self, scaling: ScalingConfig, failure: FailureConfig) -> None:
        self.scaling = scaling
        self.failure = failure
        self.state = STARTING
        self.attempt = 0
        self.workers = 0
        self.returned: dict[int, Any] = {}
        self.failures: dict[int, Exception] = {}
        self.sync_points: dict[tuple[str, int], SyncPoint] = {}
        self.failed_runs = 0
        self.failed_starts = 0
        self.preempted = 0
        #: Ranks that are lost with a drained node, for which reports do not wait.
        self.lost: frozenset[int] = frozenset()

    # -- starting

    def begin(self, room: int) -> list[Action]:
        """Begin the run with room for this many workers."""
        return [self._start(room)]

    def _start(self, room: int, delay: float = 0.0) -> Start:
        self.state = STARTING
        self.attempt += 1
        self.fit(room)
        self.returned.clear()
        self.failures.clear()
        self.sync_points.clear()
        self.lost = frozenset()
        return Start(self.workers, self.attempt, delay)

    def fit(self, room: int) -> None:
        """Record the room for workers, as measured just before they are started."""
        self.workers = min(max(room, self.scaling.min_workers), self.scaling.max_workers)

    def started(self) -> list[Action]:
        """Record that the workers run."""
        self.state = RUNNING
        return []

    def start_failed(self, error: Exception, room: int) -> list[Action]:
        """Handle a group that could not be started."""
        self.failed_starts += 1
        limit = self.failure.controller_failure_limit
        if limit >= 0 and self.failed_starts > limit:
            self.state = ERRORED
            return [Stop("the workers could not be started"), Fail({0: error}, "start")]
        self.state = RESTARTING
        delay = min(0.1 * 2**self.failed_starts, 30.0)
        return [Stop("the workers could not be started"), self._start(room, delay)]

    # -- during the run

    def arrived(
        self, rank: int, kind: str, number: int, what: Any, now: float, is_relaxed: bool = False
    ) -> list[Action]:
        """Record that a rank has reached a sync point: its n-th report or collective.

        Collectives of the user's program are strict; `is_relaxed` marks one that may complete without lost ranks, as reports may.
        """
        if self.state != RUNNING:
            return []
        key = (kind, number)
        sync_point = self.sync_points.get(key)
        if sync_point is None:
            sync_point = self.sync_points[key] = SyncPoint(kind, number, now)
            sync_point.is_relaxed = is_relaxed or kind == "report"
        sync_point.arrived[rank] = what
        return self._completed(sync_point)

    def relax(self, ranks: Sequence[int]) -> list[Action]:
        """Let reports complete without ranks that were lost with a drained node, if the run allows it and rank 0 is there."""
        if self.state != RUNNING or not self.failure.relax_collectives_on_preemption or 0 in ranks:
            return []
        self.lost |= frozenset(ranks)
        waiting = sorted(self.sync_points.values(), key=lambda each: each.number)
        return [action for sync_point in waiting for action in self._completed(sync_point)]

    def _completed(self, sync_point: SyncPoint) -> list[Action]:
        """Return what follows from a sync point once all ranks that it needs have reached it."""
        missing = set(range(self.workers)) - sync_point.arrived.keys()
        if missing and not (sync_point.is_relaxed and missing <= self.lost):
            return []
        del self.sync_points[sync_point.kind, sync_point.number]
        if sync_point.kind == "report":
            reports = tuple(sync_point.arrived.get(each) for each in range(self.workers))
            return [Commit(sync_point.number, reports)]
        return [Release(sync_point.number, sync_point.arrived[0])]

    def late(self, now: float, seconds: float) -> list[tuple[SyncPoint, list[int]]]:
        """Return sync points that have waited this long, with the missing ranks."""
        return [
            (sync_point, [rank for rank in range(self.workers) if rank not in sync_point.arrived])
            for sync_point in self.sync_points.values()
            if now - sync_point.since >= seconds
        ]

    def finished(self, rank: int, value: Any) -> list[Action]:
        """Record that a rank has returned."""
        if self.state != RUNNING:
            return []
        self.returned[rank] = value
        if len(self.returned) < self.workers:
            return []
        self.state = FINISHED
        return [Finish(tuple(self.returned[each] for each in range(self.workers)))]

    def unreachable_sync_points(self) -> list[tuple[SyncPoint, list[int]]]:
        """Return sync points that can never complete, because a rank has returned without reaching them."""
        return [
            (sync_point, sorted(set(self.returned) - set(sync_point.arrived)))
            for sync_point in self.sync_points.values()
            if set(self.returned) - set(sync_point.arrived)
        ]

    def failed(self, failures: Sequence[tuple[int, Exception]], room: int, preempted: bool) -> list[Action]:
        """Handle failed ranks, in order of failure; there is room for this many workers now."""
        if self.state != RUNNING:
            return []
        self.failures.update(failures)
        names = ", ".join(f"rank {rank}" for rank, _ in failures)
        stop = Stop(f"{names} failed")
        if preempted:
            self.preempted += 1
            used, limit, kind = self.preempted, self.failure.max_preemption_failures, "preemption"
        else:
            self.failed_runs += 1
            used, limit, kind = self.failed_runs, self.failure.max_failures, "worker"
        if 0 <= limit < used:
            self.state = ERRORED
            return [stop, Fail(dict(self.failures), kind)]
        self.state = RESTARTING
        return [stop, self._start(room, min(0.05 * 2 ** min(used, 10), 30.0))]

    def capacity_found(self, room: int) -> list[Action]:
        """React to room for more workers: an elastic run restarts with more."""
        if self.state != RUNNING or not self.scaling.elasticity_enabled or self.returned:
            return []
        if min(room, self.scaling.max_workers) <= self.workers:
            return []
        self.state = RESIZING
        return [Stop(f"there is room for {room} workers"), self._start(room)]

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        assert self.scaling.min_workers <= self.workers <= self.scaling.max_workers or not self.attempt
        assert all(0 <= rank < self.workers for rank in (*self.returned, *self.failures)), self.returned
        for (kind, number), sync_point in self.sync_points.items():
            assert (
                sync_point.kind == kind
                and sync_point.number == number
                and 0 < len(sync_point.arrived) < self.workers
            )
        if self.state == FINISHED:
            assert len(self.returned) == self.workers and not self.failures
