"""A timer of the kernel that a pump polls, so that what is due at intervals runs in the loop of the pump."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skate.wire.pump import Pump

CLOCK_MONOTONIC: Final = 1
NANOSECONDS: Final = 1_000_000_000
_libc = ctypes.CDLL(None, use_errno=True)  # `os` has these functions from Python 3.13 on


class _Times(ctypes.Structure):
    """The kernel's `struct itimerspec`: interval and first expiry, each in seconds and nanoseconds."""

    _fields_ = [(name, ctypes.c_long) for name in ("seconds", "nanoseconds", "first_s", "first_ns")]


class Timer:
    """Calls a function under the engine lock at an interval in seconds."""

    __slots__ = ("_call", "_fd", "_interval", "_pump")

    def __init__(self, pump: Pump, interval: float, call: Callable[[], None]) -> None:
        self._pump = pump
        self._call = call
        self._fd = _checked(_libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        self._interval = interval
        self._begin(interval)
        pump.add(self._fd, self._expired)

    def _begin(self, first: float) -> None:
        """Expire after so many seconds, and then at the interval."""
        times = _Times(*_parts(self._interval), *_parts(first))
        _checked(_libc.timerfd_settime(self._fd, 0, ctypes.byref(times), None))

    def shift(self, seconds: float) -> None:
        """Let the next expiry and all that follow come later, or earlier if this is negative; less than an interval."""
        if self._fd >= 0:
            times = _Times()
            _checked(_libc.timerfd_gettime(self._fd, ctypes.byref(times)))
            left = times.first_s + times.first_ns / NANOSECONDS
            self._begin((left + seconds) % self._interval or self._interval)

    def _expired(self, events: int) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        self._call()

    def close(self) -> None:
        """Stop; safe to call more than once."""
        if self._fd >= 0:
            self._pump.remove(self._fd)
            os.close(self._fd)
            self._fd = -1

    def forked(self) -> None:
        """In a forked child: close the inherited descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parts(seconds: float) -> tuple[int, int]:
    """Return seconds and nanoseconds; not both zero, which would stop the timer."""
    return divmod(max(1, int(seconds * NANOSECONDS)), NANOSECONDS)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno() or errno.EINVAL
        raise OSError(code, f"the kernel gives no timer: {os.strerror(code)}")
    return result
