"""Readings from /proc and from control groups, versions 1 and 2: states of processes, memory, and the CPUs that may be used.

Functions that take a `root` read a tree of files below it, as tests make one; without it, those of this machine.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: States of a process that a signal or a tracer has stopped.
STOPPED = (b"T", b"t")
#: Fields of `stat` behind the name of the program, counted from 0.
STATE, PARENT, ARGUMENTS_START, ARGUMENTS_END = 0, 1, 45, 46


def read(path: str) -> bytes:
    """The content of a small kernel file; empty if it does not exist or is not readable."""
    try:
        with open(
            path, "rb", buffering=0
        ) as file:  # Ctrl-C cannot leave it open, as it could a bare descriptor
            return file.read(1 << 14)
    except OSError:  # also a process that has just ended
        return b""


def field(text: bytes, name: bytes) -> int | None:
    """The number behind a name at the beginning of a line, or None."""
    at = 0 if text.startswith(name) else text.find(b"\n" + name) + 1
    if at == 0 and not text.startswith(name):
        return None
    words = text[at + len(name) : at + len(name) + 40].split(None, 1)
    return int(words[0]) if words and words[0].isdigit() else None


def stat(pid: int | str) -> list[bytes]:
    """The fields of a process's `stat` behind the name, which may hold anything; empty if the process has ended."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def is_stopped(pid: int) -> bool:
    """Return True if a process is stopped: by SIGSTOP, a debugger or Ctrl-Z."""
    fields = stat(pid)
    return bool(fields) and fields[STATE] in STOPPED


def processes() -> Iterator[int]:
    """Yield the ids of all processes that can be seen."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def cgroup_folders(controller: str, root: str = "/") -> list[tuple[str, int]]:
    """The folders of this process's control groups and their version, from its own up to the outermost that can be seen.

    Args:
        controller: the controller that has them, such as "memory" or "cpu".
        root: the root of the file system.
    """
    base = os.path.join(root, "sys/fs/cgroup")
    found = []
    for line in read(os.path.join(root, "proc/self/cgroup")).decode("utf-8", "replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            # The folder has the name of one controller, or of all that share it.
            tops = (f"{base}/{controller}", f"{base}/{controllers}")
            top, version = next(filter(os.path.isdir, tops), tops[0]), 1
        elif number == "0" and os.path.exists(f"{base}/cgroup.controllers"):
            top, version = base, 2
        else:
            continue
        # In a container the path may be the host's, and only the top is there.
        while path not in ("", "/"):
            if os.path.isdir(top + path):
                found.append((top + path, version))
            path = path.rpartition("/")[0]
        found.append((top, version))
    return found


def cpu_quota(root: str = "/") -> float | None:
    """The CPU time per second that the control groups of this process allow; None if they set no limit."""
    found = []
    for folder, version in cgroup_folders("cpu", root):
        if version == 2:
            words = read(f"{folder}/cpu.max").split()
        else:
            words = [read(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        # No limit is "max" in version 2 and -1 in version 1.
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found, default=None)


def cpu_count(root: str = "/") -> int:
    """The CPUs that this process may use: by its affinity and by the quota of its container, rounded down; at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        count = os.cpu_count() or 1
    quota = cpu_quota(root)
    return count if quota is None else max(1, min(count, int(quota)))
