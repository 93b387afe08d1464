"""Reading the stacks of running processes, which write them when they get a signal: see `skate.stack_dumps`."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from skate import procfs
from skate.stack_dumps import NAME, SIGNAL

#: How long a process may take to answer; one that waits for a slow disk takes longer.
ANSWER_SECONDS = 2.0
#: How often the answer is looked for.
_LOOK_SECONDS = 0.001
_SIGNAL_BIT = 1 << (SIGNAL - 1)


class NoAnswer(Exception):
    """Raised when a process does not write its stacks; the text says why."""


def offering() -> Iterator[int]:
    """Yield the ids of all processes of this user that answer the signal."""
    user = os.getuid()
    for pid in procfs.processes():
        with contextlib.suppress(OSError):  # it has ended
            if os.stat(f"/proc/{pid}").st_uid == user and _file_of(pid) and _catches(pid):
                yield pid


def dump(pid: int, seconds: float = ANSWER_SECONDS) -> str:
    """Return the stacks of a process's threads as `faulthandler` writes them, the latest call first.

    Args:
        pid: The process; one of `offering`.
        seconds: How long to wait for the answer.

    Raises:
        NoAnswer: The process has ended, is stopped, or does not answer in time.
    """
    path = _file_of(pid)
    if not path or not _catches(pid):
        raise NoAnswer("it has ended, or belongs to no session any more")
    if procfs.is_stopped(pid):
        raise NoAnswer(f"it is stopped; continue it with: kill -CONT {pid}")
    try:
        with open(path, "r+b", buffering=0) as file:
            file.truncate(0)
            blocked = _blocking(pid)  # threads of libraries, which leave signals to others
            os.kill(pid, SIGNAL)
            deadline = time.monotonic() + seconds
            # The kernel blocks a signal in the thread that runs its handler.
            while os.fstat(file.fileno()).st_size == 0 or _blocking(pid) - blocked:
                if time.monotonic() > deadline:
                    raise NoAnswer(f"it has not answered within {seconds:g} s: {_state(pid)}")
                time.sleep(_LOOK_SECONDS)
            text = file.read().decode("utf-8", "replace")
            file.truncate(0)
    except OSError as error:
        raise NoAnswer(f"it has ended ({error.strerror})") from None
    return text


def _file_of(pid: int) -> str:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(f"{folder}/{name}").startswith(f"/memfd:{NAME}"):
                    return f"{folder}/{name}"
    return ""


def _mask(path: str, name: bytes) -> int:
    for line in procfs.read(path).splitlines():
        if line.startswith(name):
            return int(line.split()[1], 16)
    return 0


def _catches(pid: int) -> bool:
    # A signal without a handler would end the process.
    return bool(_mask(f"/proc/{pid}/status", b"SigCgt:") & _SIGNAL_BIT)


def _blocking(pid: int) -> set[str]:
    """Return the threads in which the signal is blocked."""
    folder = f"/proc/{pid}/task"
    return {
        thread
        for thread in os.listdir(folder)
        if _mask(f"{folder}/{thread}/status", b"SigBlk:") & _SIGNAL_BIT
    }


def _state(pid: int) -> str:
    fields = procfs.stat(pid)
    state = fields[procfs.STATE].decode() if fields else ""
    if state == "D":
        return "it waits for a disk, or for memory that was swapped out"
    return f"the kernel shows it in state {state}" if state else "it has ended"
