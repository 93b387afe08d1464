"""Memory readings from the kernel: use and limits of the machine, of this process's cgroups (versions 1 and 2),
and use of single processes.

The *working set* is the memory that cannot be dropped: memory in use without the page cache. Shared memory counts, and so does
the arena; the cache of a spill file does not.
"""

from __future__ import annotations

import os

from skate import procfs
from skate.core.memory.memory_pressure import Gauge

#: From this value on, a limit of cgroup v1 means "no limit".
NO_LIMIT = 1 << 60
_MEMINFO_WANTED = ("MemTotal:", "MemFree:", "Buffers:", "Cached:", "SReclaimable:", "Shmem:")


class Machine:
    """The machine's memory."""

    def __init__(self, root: str = "/") -> None:
        self.path = os.path.join(root, "proc/meminfo")
        self.total = self.gauge().limit

    def gauge(self) -> Gauge:
        """Return the memory in use, without the page cache, and the total."""
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
        """Return its limit in bytes, or None."""
        number = self._number(self._limit)
        return None if number is None or number >= NO_LIMIT else number

    def gauge(self) -> Gauge | None:
        """Return the working set and the limit, or None if it no longer has a limit."""
        limit, use = self.limit(), self._number(self._use)
        if limit is None or use is None:
            return None
        stat = procfs.read(f"{self.folder}/memory.stat")
        cache = sum(procfs.field(stat, name) or 0 for name in self._cache)
        return Gauge(max(0, use - cache), limit, "the limit of the container (cgroup)")

    def kernel_kills(self) -> int | None:
        """Return the number of the kernel's out-of-memory kills in this cgroup, or None if it does not count them."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return procfs.field(procfs.read(f"{self.folder}/{name}"), b"oom_kill ")


def cgroups(root: str = "/") -> list[Cgroup]:
    """Return the memory cgroups of this process, from its own up to the outermost visible one."""
    return [Cgroup(folder, version) for folder, version in procfs.cgroup_folders("memory", root)]


def usable_bytes(root: str = "/") -> int:
    """Return the memory that this process may use: that of the machine, or the tightest limit of its cgroups."""
    limits = [group.limit() or NO_LIMIT for group in cgroups(root)]
    return min([Machine(root).total or NO_LIMIT, *limits])


class Limits:
    """The memory limits of this process, of which the tightest counts."""

    def __init__(self, root: str = "/") -> None:
        self.machine = Machine(root)
        self._all = cgroups(root)
        self.groups = [g for g in self._all if (g.limit() or NO_LIMIT) < self.machine.total]
        self._vmstat = os.path.join(root, "proc/vmstat")
        self._kills = self._kernel_kills()

    def tightest(self) -> Gauge:
        """Return the gauge of the machine or cgroup with the largest share in use."""
        gauges = [self.machine.gauge(), *(group.gauge() for group in self.groups)]
        return max((g for g in gauges if g is not None), key=lambda gauge: gauge.share)

    def _kernel_kills(self) -> int:
        for group in self._all:
            count = group.kernel_kills()
            if count is not None:
                return count
        return procfs.field(procfs.read(self._vmstat), b"oom_kill ") or 0

    def kernel_has_killed(self) -> bool:
        """Return True if the kernel has killed a process since the last call because it was out of memory."""
        before, self._kills = self._kills, self._kernel_kills()
        return self._kills > before


def private_bytes(pid: int) -> int:
    """Return the private memory of a process, including pages shared with its parent by fork; 0 if it has ended."""
    words = procfs.read(f"/proc/{pid}/statm").split()
    return (int(words[1]) - int(words[2])) * procfs.PAGE_BYTES if len(words) > 2 else 0


def own_share(pid: int) -> int | None:
    """Return the memory of a process with shared pages counted in proportion, or None if unknown. Slow for large processes."""
    text = procfs.read(f"/proc/{pid}/smaps_rollup")
    kilobytes = procfs.field(text, b"Pss_Anon:")
    return None if kilobytes is None else kilobytes * 1024
