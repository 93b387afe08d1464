"""Counters of a replica that each process on the machine can read without a call.

Each replica keeps a page of counters in an anonymous file, which other processes map through `/proc`. A router
can thus read the actual queue length of a replica, and the controller its load, even while the replica is busy.
"""

from __future__ import annotations

import mmap
import os
import time

from skate import procfs

PAGE_BYTES = 4096
ONGOING, WAITING, STARTED, FAILED, ACCEPTING, CONNECTIONS, MICROSECONDS, CLOSED = range(8)

#: How long a result of the check for stopped replicas stays valid; a check costs 10 µs.
_STOPPED_KNOWN_SECONDS = 0.01


class CounterPage:
    """The counters, created by the replica."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("skate-serve-counters", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, PAGE_BYTES)
        self._map = mmap.mmap(self.fd, PAGE_BYTES)
        self.cells = memoryview(self._map).cast("q")


class View:
    """The counters of another replica; all zero if it is on another machine."""

    def __init__(self, pid: int, fd: int, node: str, own_node: str) -> None:
        self.cells: memoryview | list[int] = [0] * 8
        self.real = False
        self._pid = pid
        self._stopped = False
        self._look_at = 0.0
        if pid <= 0 or node != own_node:
            return
        try:
            file = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the process has ended, or access is denied
            return
        try:
            self._map = mmap.mmap(file, PAGE_BYTES, prot=mmap.PROT_READ)
        except (OSError, ValueError):  # the descriptor is now another file
            return
        finally:
            os.close(file)
        self.cells = memoryview(self._map).cast("q")
        self.real = True

    def close(self) -> None:
        """Unmap the counters."""
        cells, self.cells = self.cells, [0] * 8
        if self.real:
            self.real = False
            assert isinstance(cells, memoryview)
            cells.release()
            self._map.close()

    def load(self) -> int:
        """Return the number of running and waiting requests."""
        cells = self.cells
        try:
            return cells[ONGOING] + cells[WAITING]
        except ValueError:  # another thread has just closed it
            return 0

    def closed(self) -> bool:
        """Return True if the replica has finished all its requests and begins no other; also after its end."""
        return bool(self.cells[CLOSED])

    def waiting(self) -> int:
        """The number of requests that wait there."""
        try:
            return self.cells[WAITING]
        except ValueError:  # another thread has just closed it
            return 0

    def stopped(self) -> bool:
        """Return True if the replica is stopped (SIGSTOP, a debugger), so that a request there would wait for long."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _STOPPED_KNOWN_SECONDS
            self._stopped = self.real and procfs.is_stopped(self._pid)
        return self._stopped
