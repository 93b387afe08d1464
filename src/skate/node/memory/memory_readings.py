"""Memory readings from the kernel: use and limits of the machine, of this process's cgroups (versions 1 and 2),
and use of single processes.

The *working set* is what cannot be dropped: memory in use without the page cache. Shared memory counts, so the arena does; the
cache of a file that values were spilled to does not.
"""

from __future__ import annotations

import os

from skate.core.memory.memory_pressure import Gauge

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: What cgroup v1 says in place of "no limit".
NO_LIMIT = 1 << 60
_MEMINFO_WANTED = ("MemTotal:", "MemFree:", "Buffers:", "Cached:", "SReclaimable:", "Shmem:")


def read(path: str) -> bytes:
    """The content of a small kernel file; empty if it does not exist or is not readable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 14)
    except OSError:  # a process that has just ended
        return b""
    finally:
        os.close(fd)


def field(text: bytes, name: bytes) -> int | None:
    """The number behind a name at the beginning of a line, or None."""
    at = 0 if text.startswith(name) else text.find(b"\n" + name) + 1
    if at == 0 and not text.startswith(name):
        return None
    words = text[at + len(name) : at + len(name) + 40].split(None, 1)
    return int(words[0]) if words and words[0].isdigit() else None


class Machine:
    """The machine's memory."""

    def __init__(self, root: str = "/") -> None:
        self.path = os.path.join(root, "proc/meminfo")
        self.total = self.gauge().limit

    def gauge(self) -> Gauge:
        """In use and there, without the page cache."""
        text = read(self.path)
        found = {name: (field(text, name.encode()) or 0) * 1024 for name in _MEMINFO_WANTED}
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
        text = read(f"{self.folder}/{name}").strip()
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
        stat = read(f"{self.folder}/memory.stat")
        cache = sum(field(stat, name) or 0 for name in self._cache)
        return Gauge(max(0, use - cache), limit, "the limit of the container (cgroup)")

    def kernel_kills(self) -> int | None:
        """The number of out-of-memory kills by the kernel here; None if it does not count them."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return field(read(f"{self.folder}/{name}"), b"oom_kill ")


def cgroups(root: str = "/") -> list[Cgroup]:
    """The memory cgroups of this process, from its own up to the outermost that can be seen."""
    base = os.path.join(root, "sys/fs/cgroup")
    found = []
    for line in read(os.path.join(root, "proc/self/cgroup")).decode("utf-8", "replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            top, version = f"{base}/memory", 1
        elif number == "0" and os.path.exists(f"{base}/cgroup.controllers"):
            top, version = base, 2
        else:
            continue
        # In a container the path may be the host's, and only the top is there.
        while path not in ("", "/"):
            if os.path.isdir(top + path):
                found.append(Cgroup(top + path, version))
            path = path.rpartition("/")[0]
        found.append(Cgroup(top, version))
    return found


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
        return field(read(self._vmstat), b"oom_kill ") or 0

    def kernel_has_killed(self) -> bool:
        """True if the kernel has ended a process because it was out of memory, since the last call."""
        before, self._kills = self._kills, self._kernel_kills()
        return self._kills > before


def private_bytes(pid: int) -> int:
    """The private memory of a process, including pages shared with its parent by fork; 0 if it has ended."""
    words = read(f"/proc/{pid}/statm").split()
    return (int(words[1]) - int(words[2])) * PAGE_BYTES if len(words) > 2 else 0


def own_share(pid: int) -> int | None:
    """The memory of a process with shared pages counted in proportion; slow for large processes. None if the
    kernel does not report it.
    """
    text = read(f"/proc/{pid}/smaps_rollup")
    kilobytes = field(text, b"Pss_Anon:")
    return None if kilobytes is None else kilobytes * 1024
