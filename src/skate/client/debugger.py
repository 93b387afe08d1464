"""Python's debugger in a process without a terminal: it waits on a Unix socket for `skate debug`.

The socket has an abstract name, which says where the program stands, so that a list of breakpoints needs no node: the kernel
has it. Only processes of the same user may connect.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pdb
import re
import socket
import struct
import sys
from types import FrameType, TracebackType
from typing import NamedTuple

PREFIX = "skate-debug"
#: An abstract name has at most 107 bytes.
_PLACE_BYTES_MAX = 60
_NAME = re.compile(rf"@({PREFIX}/(\d+)/(\d+)/\d+/(.*))")
_CREDENTIALS = struct.Struct("3i")
_count = itertools.count(1)


class Breakpoint(NamedTuple):
    """A place at which a process waits for the debugger."""

    name: str
    pid: int
    place: str


def waiting() -> list[Breakpoint]:
    """Return the breakpoints at which processes of this user wait, by pid."""
    found = set()
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        for line in file:
            match = _NAME.search(line.rstrip("\n"))
            if match is not None and int(match[2]) == os.getuid():
                found.add(Breakpoint(match[1], int(match[3]), match[4]))
    return sorted(found, key=lambda each: (each.pid, each.name))


def set_trace(frame: FrameType) -> None:
    """Wait for `skate debug`, and stop in a frame.

    Args:
        frame: The frame.
    """
    debugger = _attached(
        f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}"
    )
    debugger.set_trace(frame)


def post_mortem(error: BaseException) -> None:
    """Wait for `skate debug`, and look at the frames that an error has passed. No-op if there are none of the program.

    Args:
        error: The error, which has been raised.
    """
    inner: TracebackType | None = error.__traceback__
    if inner is None:
        return
    while inner.tb_next is not None:
        inner = inner.tb_next
    code = inner.tb_frame.f_code
    debugger = _attached(f"{os.path.basename(code.co_filename)}:{inner.tb_lineno} {type(error).__name__}")
    debugger.message(f"{type(error).__name__}: {error}")
    debugger.reset()
    debugger.interaction(None, error.__traceback__)
    debugger.detach()


def _attached(place: str) -> SocketPdb:
    """Return a debugger, once a client is there."""
    text = place.encode()[:_PLACE_BYTES_MAX].decode("utf-8", "ignore")
    name = f"{PREFIX}/{os.getuid()}/{os.getpid()}/{next(_count)}/{text}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        print(
            f"waiting for a debugger at {place} (pid {os.getpid()}); attach one with: skate debug",
            file=sys.stderr,
        )
        while True:
            client, _ = listener.accept()
            (_, user, _) = _CREDENTIALS.unpack(
                client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            if user == os.getuid():
                return SocketPdb(client)
            client.close()


class SocketPdb(pdb.Pdb):
    """A debugger whose terminal is at the other end of a socket. Without a client the program continues."""

    def __init__(self, client: socket.socket) -> None:
        self._client: socket.socket | None = client
        self._reader = client.makefile("r", encoding="utf-8", errors="replace")
        self._writer = client.makefile("w", encoding="utf-8", errors="replace")
        super().__init__(stdin=self._reader, stdout=self._writer, nosigint=True)

    def detach(self) -> None:
        """Close the connection."""
        if self._client is not None:
            for stream in (self._writer, self._reader, self._client):
                with contextlib.suppress(OSError):  # the client is gone
                    stream.close()
            self._client = None

    def interaction(self, frame: FrameType | None, traceback: TracebackType | None) -> None:
        """Read and run commands; continue if the client goes."""
        try:
            super().interaction(frame, traceback)
        except OSError:
            self.clear_all_breaks()
            self.set_continue()

    def set_continue(self) -> None:
        """Continue up to the next breakpoint; detach if there is none."""
        super().set_continue()
        if not self.breaks:
            self.detach()

    def set_quit(self) -> None:
        """Detach, and let the task continue: it has callers, and a debugger is no reason for it to fail."""
        self.clear_all_breaks()
        self.set_continue()

    def do_EOF(self, arg: str) -> bool:
        """Continue, because the client has gone."""
        self.set_quit()
        return True

    do_q = do_quit = do_exit = do_EOF
