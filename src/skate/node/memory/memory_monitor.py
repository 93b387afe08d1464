"""Measures memory use while workers run, and reports it to the core, which decides what to do.

It runs in the node's loop: never while no work runs, rarely while there is much room, and more often the closer the limit is
and the faster use grows. `benchmarks/monitor.py` measures the cost of a check.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from skate.core.memory.memory_pressure import Gauge
from skate.node.memory.memory_readings import Limits, own_share, private_bytes
from skate.protocol import shell_events as se
from skate.protocol.values import SHELL

if TYPE_CHECKING:
    from skate.node.host import NodeHost
    from skate.node.worker.worker_process import WorkerProcess

NEVER = float("inf")
#: The longest pause between checks, however much room there is.
PAUSE_SECONDS_MAX = 2.0
#: The shortest pause, even if use may reach the limit sooner.
PAUSE_SECONDS_MIN = 0.02
#: The fastest possible growth of memory use.
BYTES_PER_SECOND_MAX = 6 << 30


class MemoryMonitor:
    """Reads the gauges of one node."""

    def __init__(self, host: NodeHost) -> None:
        settings = host.settings
        self.host = host
        self.limit = settings.memory_limit
        self.refresh = settings.memory_refresh_seconds
        #: The monotonic time of the next check; the loop reads it in every iteration.
        self.due = NEVER
        self.asleep = self.refresh > 0
        self.looks = 0
        self._limits: Limits | None = None
        self._last: tuple[float, int] = (0.0, 0)
        self.kill_share = settings.memory_threshold
        self._gauge_now = Gauge(0, 0, "")

    @property
    def limits(self) -> Limits:
        """Return the memory limits of this process, determined once."""
        if self._limits is None:
            self._limits = Limits()
        return self._limits

    def wake(self) -> None:
        """Resume checks, because a worker is about to get work."""
        self.asleep = False
        self._last = (0.0, 0)
        self.due = time.monotonic() + self.refresh
        self.host.pump.retime()

    def look(self, now: float) -> None:
        """Measure the memory use and pass it to the core. The lock is held."""
        snapshot = self.host.snapshot
        if not snapshot.busy:
            self.asleep = True
            self.due = NEVER
            self.host.tell(se.MemoryIdle(se.MEMORY_IDLE))
            return
        self.looks += 1
        resident = self._workers()
        gauge, others = self._gauge(resident)
        if gauge.share >= self.kill_share and not snapshot.victim_lives:
            self._measure()
            resident = self._workers()
            gauge, others = self._gauge(resident)
        self._gauge_now = gauge
        self.host.core.step(SHELL, se.MemoryReading(se.MEMORY_READING, *gauge, resident, others), now)
        self.due = now + self._pause(gauge, now)
        self.host.apply_if_idle()

    def _workers(self) -> dict[int, int]:
        found = {}
        for worker in self.host.pool.workers.values():
            if worker.pid and not worker.exited:
                private = private_bytes(worker.pid)
                worker.resident = max(0, private - self._shared(worker, private))
                worker.resident_peak = max(worker.resident_peak, worker.resident)
                found[worker.cid] = worker.resident
        return found

    @staticmethod
    def _shared(worker: WorkerProcess, private: int) -> int:
        """Return the memory that a worker still shares with the zygote, measured early because it is slow for large processes."""
        if worker.shared is None:
            share = own_share(worker.pid)
            worker.shared = 0 if share is None else max(0, private - share)
        return worker.shared

    def _measure(self) -> None:
        """Measure the workers' shared memory again, before one of them is killed."""
        for worker in self.host.pool.workers.values():
            worker.shared = None

    def _gauge(self, resident: dict[int, int]) -> tuple[Gauge, tuple[tuple[str, int], ...]]:
        host = self.host
        driver = private_bytes(os.getpid())
        store = host.arena.resident()
        others = (("the driver" if host.process is not None else "the node", driver), ("object store", store))
        found = self.limits.tightest()
        if self.limit:
            zygotes = sum(private_bytes(launcher.pid) for launcher in host.pool.launchers.values())
            use = sum(resident.values()) + driver + store + zygotes
            own = Gauge(use, self.limit, "SKATE_MEMORY_LIMIT")
            if own.share >= found.share:
                found = own
        return found, others

    def _pause(self, gauge: Gauge, now: float) -> float:
        then, before = self._last
        self._last = (now, gauge.use)
        room = gauge.limit * self.kill_share - gauge.use
        if room <= 0:
            return (
                self.refresh
                if self.host.snapshot.victim is None
                else min(self.refresh, PAUSE_SECONDS_MIN * 2)
            )
        pause = min(PAUSE_SECONDS_MAX, max(self.refresh, room / BYTES_PER_SECOND_MAX))
        if then and gauge.use > before:
            pause = min(pause, room / ((gauge.use - before) / (now - then)) / 2)
        return max(PAUSE_SECONDS_MIN, pause)

    # -- for the record

    def killed_by_kernel(self) -> bool:
        """Return True if the kernel's out-of-memory killer ended a worker that died of SIGKILL."""
        return self._limits is not None and self._limits.kernel_has_killed()

    def limit_now(self) -> Gauge | None:
        """Return the limit at the last check, or None if there was none."""
        gauge = self._gauge_now
        return gauge if gauge.limit else None
