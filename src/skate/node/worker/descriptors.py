"""File descriptors of the driver: each worker needs three, so the usual limit of 1024 is soon reached."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import resource
import socket

from skate.wire.limits import LimitReached, no_more_processes

MARGIN = 64
#: The lowest number that no program takes for its input or output.
_FIRST_FREE = 3


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets whose descriptors are not those of input and output.

    A program may have closed its output. A socket with that number would get what it prints.
    """
    ours, theirs = socket.socketpair()
    try:
        return _above_output(ours), _above_output(theirs)
    except OSError:
        ours.close()
        theirs.close()
        raise


def _above_output(sock: socket.socket) -> socket.socket:
    if sock.fileno() >= _FIRST_FREE:
        return sock
    moved = socket.socket(fileno=fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE))
    sock.close()
    return moved


class Descriptors:
    """Raises the soft limit only when descriptors run out, because programs that use `select` need small numbers."""

    def __init__(self) -> None:
        self._soft = _limits()[0]

    def used(self, number: int) -> None:
        """Record the number of a new descriptor, which is always the lowest free one."""
        if number + MARGIN < self._soft:
            return
        soft, hard = _limits()
        if soft < hard:
            # If the system refuses, opening the next descriptor fails with its own error.
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(4 * soft, 4096)), hard))
            soft = _limits()[0]
        self._soft = soft

    @staticmethod
    def explain(error: OSError) -> str:
        """Return advice about a failure to start a worker."""
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            if isinstance(error, LimitReached):
                return str(error.strerror)
            return no_more_processes(str(error.strerror))
        soft, hard = _limits()
        return (
            f"{error.strerror or error}; a worker takes three file descriptors of the driver, whose limit is {soft}"
            + (f" (at most {hard})" if hard > soft else "")
            + ": run fewer workers or actors at once, or raise the limit (ulimit -n)"
        )


def _limits() -> tuple[int, int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 30
    if hard == resource.RLIM_INFINITY:
        hard = 1 << 30
    return soft, hard
