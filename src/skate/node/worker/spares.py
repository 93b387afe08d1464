"""A spare worker, forked before it is needed, where workers come and go.

A worker begins some milliseconds after the request for it: its process is forked, and the first pages that it writes are
copied. If workers of a zygote end and others follow, as the trials of a search do, the zygote forks the next one while nothing
else is to do. It waits for its request on a socket. Programs that start workers once have no spare, and a spare that nobody has
used for a second ends.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import msgpack

REQUEST_BYTES_MAX = 1 << 17
#: A worker that starts so long after another has ended replaces it; and how long a spare waits.
TURNOVER_SECONDS = 1.0

Request = tuple[dict[str, Any], list[int]]
Fork = Callable[[Callable[[], Request]], int]


class Spares:
    """The spare worker of a zygote, if it has one."""

    def __init__(self) -> None:
        self._pid = 0
        self._socket: socket.socket | None = None
        self._wanted = False
        self._ended_at = -TURNOVER_SECONDS
        self._until = 0.0

    def poll_timeout_ms(self) -> int | None:
        """Return for how many milliseconds the zygote may wait for a request before it calls `idle`; None for no limit."""
        if self._wanted and not self._pid:
            return 0
        if self._pid:
            return max(0, int((self._until - time.monotonic()) * 1000)) + 1
        return None

    def idle(self, fork: Fork) -> None:
        """Fork a spare worker if one is wanted, or end one that nobody has used."""
        if not self._pid and self._wanted:
            self._wanted = False
            self._make(fork)
        elif self._pid and time.monotonic() >= self._until:
            self.clear()

    def _make(self, fork: Fork) -> None:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            # No more descriptors; workers start without a spare.
            return

        def wait() -> Request:
            ours.close()
            data, fds, _, _ = socket.recv_fds(theirs, REQUEST_BYTES_MAX, 8)
            theirs.close()
            if not data:  # no longer wanted
                os._exit(0)
            return msgpack.unpackb(data, strict_map_key=False), fds

        try:
            self._pid = fork(wait)
        except OSError:
            ours.close()
            return
        finally:
            theirs.close()
        self._socket = ours
        self._until = time.monotonic() + TURNOVER_SECONDS

    def take(self, data: bytes, fds: list[int]) -> int:
        """Give a request to the spare; return its pid, or 0 if there is none."""
        self._wanted = time.monotonic() - self._ended_at < TURNOVER_SECONDS
        pid, waiting = self._pid, self._socket
        self._pid, self._socket = 0, None
        if waiting is None:
            return 0
        try:
            with waiting:
                socket.send_fds(waiting, [data], fds)
        except OSError:
            # It has ended; the zygote reaps it like any other child.
            return 0
        return pid

    def ended(self, pid: int) -> None:
        """Record that a child has ended."""
        if pid == self._pid:
            self.clear()
        else:
            self._ended_at = time.monotonic()

    def clear(self) -> None:
        """End the spare: its socket closes."""
        if self._socket is not None:
            self._socket.close()
        self._pid, self._socket = 0, None

    def pids(self) -> set[int]:
        """Return the pid of the spare, if there is one."""
        return {self._pid} if self._pid else set()
