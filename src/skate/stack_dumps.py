"""Stacks of running processes: a signal makes Python write those of all threads to memory that its user can read.

The handler is `faulthandler`'s. It runs in C, so it needs neither the interpreter's lock nor a main loop that listens: a process
that hangs in an extension answers as well. The memory is an anonymous file, which `client.session.stack_reader` finds in /proc.
No node takes part, so one that hangs is no obstacle.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal

#: The signal, far from those at the beginning of the range, which programs prefer.
SIGNAL = getattr(signal, "SIGRTMIN", 34) + 21
NAME = "skate-stacks"
_fd = -1


def offer() -> None:
    """Answer the signal from now on. No-op where the system has no anonymous files, or no descriptors left."""
    global _fd
    if not hasattr(os, "memfd_create"):  # macOS
        return
    with contextlib.suppress(OSError):
        made = os.memfd_create(NAME)
        try:
            # Readers empty the file after each dump; with O_APPEND the next one begins at its start.
            fd = os.open(f"/proc/self/fd/{made}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        finally:
            os.close(made)
        faulthandler.register(SIGNAL, file=fd, all_threads=True)
        if _fd >= 0:
            os.close(_fd)
        _fd = fd


def withdraw() -> None:
    """Ignore the signal again, as before `offer`."""
    global _fd
    if _fd >= 0:
        faulthandler.unregister(SIGNAL)
        # By default a signal that is on its way would end the process. Only the main thread can change that.
        if signal.getsignal(SIGNAL) is signal.SIG_DFL:
            with contextlib.suppress(ValueError):
                signal.signal(SIGNAL, signal.SIG_IGN)
        os.close(_fd)
        _fd = -1
