"""Readings from /proc and from control groups, versions 1 and 2: states of processes, memory, and available
CPUs.

Functions that take a `root` read files below that folder, for tests; by default those of this machine.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: States of a process that was stopped by a signal or a tracer.
STOPPED = (b"T", b"t")
#: The position of fields in `stat` after the program's name, from 0.
STATE, PARENT, ARGUMENTS_START, ARGUMENTS_END = 0, 1, 45, 46


def read(path: str) -> bytes:
    """Return the content of a small kernel file; empty if it does not exist or is not readable."""
    try:
        with open(
            path, "rb", buffering=0
        ) as file:  # unlike a bare descriptor, it is closed even after Ctrl-C
            return file.read(1 << 14)
    except OSError:  # also a process that has just ended
        return b""


def field(text: bytes, name: bytes) -> int | None:
    """Return the number after a name at the beginning of a line, or None."""
    at = 0 if text.startswith(name) else text.find(b"\n" + name) + 1
    if at == 0 and not text.startswith(name):
        return None
    words = text[at + len(name) : at + len(name) + 40].split(None, 1)
    return int(words[0]) if words and words[0].isdigit() else None


def stat(pid: int | str) -> list[bytes]:
    """Return the fields of a process's `stat` after the program's name, which may contain anything; empty if
    it has ended.
    """
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def is_stopped(pid: int) -> bool:
    """Return True if a process is stopped: by SIGSTOP, a debugger or Ctrl-Z."""
    fields = stat(pid)
    return bool(fields) and fields[STATE] in STOPPED


def processes() -> Iterator[int]:
    """Yield the ids of all visible processes."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def cgroup_folders(controller: str, root: str = "/") -> list[tuple[str, int]]:
    """Return the folders of this process's control groups, from its own to the outermost visible one, and
    their version.

    Args: controller: the controller, such as "memory" or "cpu". root: the root of the file system.
    """
    base = os.path.join(root, "sys/fs/cgroup")
    found = []
    for line in read(os.path.join(root, "proc/self/cgroup")).decode("utf-8", "replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            # The folder is named after one controller, or after all that share it.
            tops = (f"{base}/{controller}", f"{base}/{controllers}")
            top, version = next(filter(os.path.isdir, tops), tops[0]), 1
        elif number == "0" and os.path.exists(f"{base}/cgroup.controllers"):
            top, version = base, 2
        else:
            continue
        # In a container, the path may be the host's; then only the top folder is visible.
        while path not in ("", "/"):
            if os.path.isdir(top + path):
                found.append((top + path, version))
            path = path.rpartition("/")[0]
        found.append((top, version))
    return found


def cpu_quota(root: str = "/") -> float | None:
    """Return the CPU time per second that the control groups of this process allow; None for no limit."""
    found = []
    for folder, version in cgroup_folders("cpu", root):
        if version == 2:
            words = read(f"{folder}/cpu.max").split()
        else:
            words = [read(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        # "max" in version 2, or -1 in version 1, means no limit.
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found, default=None)


def cpu_count(root: str = "/") -> int:
    """Return the number of CPUs available to this process: by its affinity and its container's quota, rounded
    down, at least 1.
    """
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not available on macOS
        count = os.cpu_count() or 1
    quota = cpu_quota(root)
    return count if quota is None else max(1, min(count, int(quota)))
