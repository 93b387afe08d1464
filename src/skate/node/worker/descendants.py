"""The descendants of a zygote: its workers, and all processes that user code has started in them.

A worker leads a process group, which ends with it, so programs started by a task do not outlive the worker. A process that has
left the group (a daemon, a new session) becomes a child of the zygote when its parent ends, and so ends with the node.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from skate import procfs

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Each round ends at least one generation. After so many rounds, the program forks faster than it can be killed.
ROUNDS_MAX = 100


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def lead_a_group(parent: int) -> None:
    """Put a new worker into its own process group, and have the kernel kill the worker when `parent` ends."""
    os.setpgid(0, 0)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call above
        os._exit(1)


def end_group(leader: int) -> None:
    """Kill the rest of a worker's process group. Its number is not reused while a member lives."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def ended_child() -> int:
    """Return the pid of an ended child that was not reaped, 0 if there is none, or -1 without children."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return -1
    return 0 if found is None else found.si_pid


def end_all(workers: Iterable[int]) -> None:
    """Kill these children, everything they started and all orphans, and reap them."""
    left = list(workers)
    for pid in left:
        _kill(pid)
        end_group(pid)
    for pid in left:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            continue
        end_group(pid)
    for _ in range(ROUNDS_MAX):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        for pid in _children():
            _kill(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _children() -> list[int]:
    """Return the children of this process, found in /proc because not every kernel can list them."""
    me = str(os.getpid()).encode()
    return [pid for pid in procfs.processes() if procfs.stat(pid)[procfs.PARENT :][:1] == [me]]


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc().prctl(option, int(value), 0, 0, 0)


@functools.cache
def _libc() -> Any:
    """Return the C library. The zygote loads it before it forks; a worker that loaded it would touch 30 pages more."""
    import ctypes  # the arena's mapping has loaded it already

    return ctypes.CDLL(None)
