"""System limits of a process, and error messages for requests that exceed one."""

from __future__ import annotations

import errno
import resource
import threading
from collections.abc import Callable

from skate import procfs
from skate.core.resource.resources import human_bytes

#: The exit status of a worker that could not start because threads or memory ran out; its last line has the reason.
CANNOT_BEGIN = 71
#: The exit code of a worker whose setup hook raised.
HOOK_FAILED = 72


class LimitReached(OSError):
    """The system has denied a request of a process; the message names the request, the limit and the remedy."""


def start_thread(run: Callable[[], object], name: str, wanted_for: str = "") -> threading.Thread:
    """Start a daemon thread. Raises LimitReached if the system cannot start more."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise LimitReached(errno.EAGAIN, no_more_processes(str(error), f"a thread{wanted_for}")) from None
    return thread


def no_more_processes(why: str, what: str = "a process") -> str:
    """Return the error message for a process or a thread that could not start."""
    return (
        f"the system cannot start more processes ({why}): {what} is needed, and this user may have "
        f"{_most_processes()} processes "
        "and threads at once; run fewer workers or actors at once, or raise the limits of processes (ulimit -u) and of memory"
    )


def no_address_space(size: int) -> LimitReached:
    """Return the error for shared memory that could not be mapped."""
    problem = f"shared memory of {size} bytes ({human_bytes(size)}) cannot be mapped"
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        text = (
            f"{problem}: the system refuses more address space for this process (vm.overcommit_memory, "
            "vm.max_map_count or a limit "
            "of its container); give it more memory, or start with a smaller object_store_memory"
        )
    else:
        used = _address_space_used()
        text = (
            f"{problem}: this process may have {human_bytes(soft)} of address space (ulimit -v), of which "
            f"{human_bytes(used)} are "
            "in use; raise the limit, or start with a smaller object_store_memory"
        )
    return LimitReached(errno.ENOMEM, text)


def _most_processes() -> str:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return "any number of" if soft == resource.RLIM_INFINITY else f"at most {soft}"


def _address_space_used() -> int:
    words = procfs.read("/proc/self/statm").split()
    return int(words[0]) * procfs.PAGE_BYTES if words else 0
