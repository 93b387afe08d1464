"""The disk of a node: it writes and reads copies of values one at a time, with delays, and sometimes fails."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from skate.protocol import shell_events as se
from skate.protocol.effects import DiskEffect, DropCopy, FreeBlocks, Reserve, Restore, Spill

if TYPE_CHECKING:
    from skate.simulation.nodes.cluster import Cluster


class Disk:
    """The simulated counterpart of `skate.node.spill.disk`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: Where the overflow file begins, in the row of offsets that the memory begins.
        self.boundary = cluster.faults.arena_bytes
        self.jobs: deque[Spill | Restore | Reserve] = deque()
        #: Values outside, by their number; those in the overflow file are with the memory, behind the arena.
        self.outside: dict[int, Any] = {}
        #: Places of unreadable copies, on bad blocks.
        self.bad: set[int] = set()

    def take(self, job: DiskEffect) -> None:
        """Queue a job."""
        if isinstance(job, DropCopy):
            del self.outside[job.number]
        elif not isinstance(job, FreeBlocks):
            self.jobs.append(job)

    def disk_work(self, _: Disk) -> None:
        """Finish the next job."""
        cluster = self.cluster
        job = self.jobs.popleft()
        cluster.record(type(job).__name__, job.number)
        match job:
            case Spill():
                self._spill(*job)
            case Restore():
                self._restore(*job)
            case Reserve():
                self._reserve(*job)
        cluster.apply()

    def _full(self) -> bool:
        cluster = self.cluster
        full = bool(cluster.faults.full) and cluster.rng.random() < cluster.faults.full
        if full:
            cluster.fault("full")
        return full

    def _spill(self, number: int, oid: bytes, offset: int, size: int, place: int) -> None:
        cluster = self.cluster
        success = not self._full()
        mark = number if place < 0 else place
        self.bad.discard(mark)
        if success:
            if cluster.faults.unreadable and cluster.rng.random() < cluster.faults.unreadable:
                cluster.fault("unreadable")
                self.bad.add(mark)
            entry = cluster.memory[offset]
            if place < 0:
                self.outside[number] = entry
            else:
                cluster.memory[place + self.boundary] = entry
            cluster.observer.counts["spilled"] += 1
        cluster.tell(se.SpillDone(se.SPILL_DONE, number, success))

    def _restore(self, number: int, place: int, offset: int, size: int) -> None:
        cluster = self.cluster
        core = cluster.core
        oid = core.spill_manager.reads[number][0]
        outside = core.spill_manager.external
        entry = self.outside.get(place) if outside else cluster.memory[place + self.boundary]
        success = place not in self.bad
        if entry is not None and success:
            wanted = core.spill_manager.restoring.get(oid) == number
            assert entry[0] == oid or not wanted, f"{oid.hex()} comes back as another value"
            cluster.memory[offset] = entry
            cluster.observer.counts["restored"] += 1
        problem = "" if entry is not None and success else "its copy cannot be read"
        cluster.tell(se.RestoreDone(se.RESTORE_DONE, number, problem))

    def _reserve(self, number: int, place: int, size: int) -> None:
        problem = "the disk is full" if self._full() else ""
        self.cluster.tell(se.ReserveDone(se.RESERVE_DONE, number, problem))
