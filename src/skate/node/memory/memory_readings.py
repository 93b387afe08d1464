"""Memory readings from the kernel: use and limits of the machine, of this process's cgroups (versions 1 and 2),
and use of single processes.

The *working set* is what cannot be dropped: memory in use without the page cache. Shared memory counts, so the arena does; the
cache of a file that values were spilled to does not.
"""

from __future__ import annotations

import os

from skate import procfs
from skate.core.memory.memory_pressure import Gauge

#: What cgroup v1 says in place of "no limit".
NO_LIMIT = 1 << 60
_MEMINFO_WANTED = ("MemTotal:", "MemFree:", "Buffers:", "Cached:", "SReclaimable:", "Shmem:")


class Machine:
    """The machine's memory."""

    def __init__(self, root: str = "/") -> None:
        self.path = os.path.join(root, "proc/meminfo")
        self.total = self.gauge().limit

    def gauge(self) -> Gauge:
        """In use and there, without the page cache."""
        text = procfs.read(self.path)
        found = {name: (procfs.field(text, name.encode()) or 0) * 1024 for name in _MEMINFO_WANTED}
        cache = found["Buffers:"] + found["Cached:"] + found["SReclaimable:"] - found["Shmem:"]
        use = found["MemTotal:"] - found["MemFree:"] - cache
        return Gauge(max(0, use), found["MemTotal:"], "the machine's memory")


class Cgroup:
    """One memory cgroup that has a limit."""

    def __init__(self, folder: str, version: int) -> None:
        self.folder = folder
        self.version = version
        self._use, self._limit, self._cache = (
            ("memory.current", "memory.max", (b"inactive_file ", b"active_file "))
            if version == 2
            else (
                "memory.usage_in_bytes",
                "memory.limit_in_bytes",
                (b"total_inactive_file ", b"total_active_file "),
            )
        )

    def _number(self, name: str) -> int | None:
        text = procfs.read(f"{self.folder}/{name}").strip()
        return int(text) if text.isdigit() else None

    def limit(self) -> int | None:
        """Its limit in bytes, or None."""
        number = self._number(self._limit)
        return None if number is None or number >= NO_LIMIT else number

    def gauge(self) -> Gauge | None:
        """The working set and the limit; None if it has no limit any more."""
        limit, use = self.limit(), self._number(self._use)
        if limit is None or use is None:
            return None
        stat = procfs.read(f"{self.folder}/memory.stat")
        cache = sum(procfs.field(stat, name) or 0 for name in self._cache)
        return Gauge(max(0, use - cache), limit, "the limit of the container (cgroup)")

    def kernel_kills(self) -> int | None:
        """The number of out-of-memory kills by the kernel here; None if it does not count them."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return procfs.field(procfs.read(f"{self.folder}/{name}"), b"oom_kill ")


def cgroups(root: str = "/") -> list[Cgroup]:
    """The memory cgroups of this process, from its own up to the outermost that can be seen."""
    return [Cgroup(folder, version) for folder, version in procfs.cgroup_folders("memory", root)]


def usable_bytes(root: str = "/") -> int:
    """The memory that this process may use: that of the machine, or the tightest limit of its cgroups."""
    limits = [group.limit() or NO_LIMIT for group in cgroups(root)]
    return min([Machine(root).total or NO_LIMIT, *limits])


class Limits:
    """The limits that this process is under, the tightest of which counts."""

    def __init__(self, root: str = "/") -> None:
        self.machine = Machine(root)
        self._all = cgroups(root)
        self.groups = [g for g in self._all if (g.limit() or NO_LIMIT) < self.machine.total]
        self._vmstat = os.path.join(root, "proc/vmstat")
        self._kills = self._kernel_kills()

    def tightest(self) -> Gauge:
        """Of the machine and the cgroups the one of which the largest share is in use."""
        gauges = [self.machine.gauge(), *(group.gauge() for group in self.groups)]
        return max((g for g in gauges if g is not None), key=lambda gauge: gauge.share)

    def _kernel_kills(self) -> int:
        for group in self._all:
            count = group.kernel_kills()
            if count is not None:
                return count
        return procfs.field(procfs.read(self._vmstat), b"oom_kill ") or 0

    def kernel_has_killed(self) -> bool:
        """True if the kernel has ended a process because it was out of memory, since the last call."""
        before, self._kills = self._kills, self._kernel_kills()
        return self._kills > before


def private_bytes(pid: int) -> int:
    """The private memory of a process, including pages shared with its parent by fork; 0 if it has ended."""
    words = procfs.read(f"/proc/{pid}/statm").split()
    return (int(words[1]) - int(words[2])) * procfs.PAGE_BYTES if len(words) > 2 else 0


def own_share(pid: int) -> int | None:
    """The memory of a process with shared pages counted in proportion; slow for large processes. None if the
    kernel does not report it.
    """
    text = procfs.read(f"/proc/{pid}/smaps_rollup")
    kilobytes = procfs.field(text, b"Pss_Anon:")
    return None if kilobytes is None else kilobytes * 1024
