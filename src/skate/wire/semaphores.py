"""POSIX semaphores in shared memory: one process sleeps until another posts, without an intermediary.

A futex would also work, but its system call number differs between architectures, and the C library knows it.
Posting and trying keep the interpreter lock, because they never wait; waiting lets other threads run.
"""

from __future__ import annotations

import ctypes
import errno
import time

#: Room for one semaphore in its own cache line.
SEMAPHORE_BYTES = 64


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_quick = ctypes.PyDLL(None, use_errno=True)
_slow = ctypes.CDLL(None, use_errno=True)
_post = _quick.sem_post
_try = _quick.sem_trywait
_create = _quick.sem_init
# With a monotonic clock if available (glibc 2.30).
_steady = getattr(_slow, "sem_clockwait", None)
_timed = _slow.sem_timedwait
for _function in (_post, _try):
    _function.argtypes = (ctypes.c_void_p,)
_create.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)
_timed.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
if _steady is not None:
    _steady.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Semaphore:
    """A semaphore at an address; its holder keeps the memory mapped."""

    __slots__ = ("_at",)

    def __init__(self, address: int, create: bool = False) -> None:
        self._at = ctypes.c_void_p(address)
        if create and _create(self._at, 1, 0):
            raise OSError(ctypes.get_errno(), "a semaphore could not be created")

    def post(self) -> None:
        """Release one waiter, now or later."""
        _post(self._at)

    def take(self) -> bool:
        """Take one post if available; never waits."""
        return bool(_try(self._at) == 0)

    def wait(self, seconds: float) -> bool:
        """Wait for a post up to this long; return False if none arrived, or after a signal."""
        if _try(self._at) == 0:
            return True
        until = (time.monotonic() if _steady is not None else time.time()) + seconds
        whole = int(until)
        limit = _Timespec(whole, int((until - whole) * 1e9))
        if _steady is not None:
            done = _steady(self._at, time.CLOCK_MONOTONIC, ctypes.byref(limit))
        else:
            done = _timed(self._at, ctypes.byref(limit))
        if done == 0:
            return True
        code = ctypes.get_errno()
        if code not in (errno.ETIMEDOUT, errno.EINTR):
            raise OSError(code, "waiting for a semaphore failed")
        return False
