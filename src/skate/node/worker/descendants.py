"""The processes below a zygote: its workers, what user code has started in them, and what that has started in turn.

A worker leads a process group, which ends with it: programs that a task started do not outlive the task's process. What has left
the group (a daemon, a new session) becomes a child of the zygote when its own parent ends, and so ends with the node.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable

from skate import procfs

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Each round ends at least one generation; more of them than this are a program that forks faster than it can be killed.
ROUNDS_MAX = 100


def adopt_orphans() -> None:
    """Become the parent of every orphan below this process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def lead_a_group(parent: int) -> None:
    """In a new worker: a process group of its own, which ends with `parent`."""
    os.setpgid(0, 0)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had gone before the kernel was told
        os._exit(1)


def end_group(leader: int) -> None:
    """Kill the rest of a worker's process group; its number stays in use while a member lives."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def ended_child() -> int:
    """The pid of an ended child to be waited for; 0 if there is none, -1 without children."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return -1
    return 0 if found is None else found.si_pid


def end_all(workers: Iterable[int]) -> None:
    """Kill these children, all that they started and all orphans, and wait for them."""
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
    """The children of this process; the kernel lists them ready-made only where it was built to."""
    me = str(os.getpid()).encode()
    return [pid for pid in procfs.processes() if procfs.stat(pid)[procfs.PARENT :][:1] == [me]]


def _prctl(option: int, value: int) -> None:
    import ctypes  # loaded already, by the arena's mapping

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0)
