"""Responds to clients whose request was in progress when the process of a replica died.

A connection is in one process only, so the kernel closes it when that process dies, and its client would learn nothing. A copy of
each connection elsewhere would cost a message for each connection. Instead a second process shares the *table of
descriptors* with the replica (clone(2) with CLONE_FILES, but with its own memory): it has every connection that the replica
ever accepts, without any work. It waits for the replica's end, responds with status 500 on the connections that are marked,
closes everything, and ends. A request marks its connection by a byte in shared memory; the first byte of the response takes the
mark off.

The second process is a copy of one thread of the replica. Other threads may have held locks at that moment, of malloc or of
the interpreter, that nobody releases in the copy. So it calls the C library through PyDLL, which never releases the
GIL, drops no object, and shows that it works by the byte READY; otherwise it is killed and another one is tried. It must run no
fork handler, because a handler that closes a descriptor would close it in the replica too.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Iterable, MutableSequence
from typing import Any, NoReturn

#: Connections with descriptors below this number can be marked. The byte after them takes the marks of all others.
CELLS = 1 << 16
#: Where connections are marked; in a process without a responder, nobody reads it.
Marks = MutableSequence[int] | memoryview
_READY, _STOPPED, _PORT = CELLS + 1, CELLS + 2, CELLS + 3
_PAGE_BYTES = CELLS + 5
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_FILES = 0x400
_CLOSE_RANGE = 436
_WAIT_ALL = 0x40000000  # a child that sends no SIGCHLD is waited for only with __WALL
_NAME = 15  # PR_SET_NAME
_SEND_FLAGS = 0x4040  # MSG_DONTWAIT, MSG_NOSIGNAL
_RECEIVE_FLAGS = 0x40
_POLLIN = 1
#: ioctl PIDFD_GET_INFO of Linux 6.15 tells the exit status of a process that was reaped, if asked for PIDFD_INFO_EXIT.
_GET_INFO, _INFO_EXIT, _INFO = 0xC040FF0B, 8, struct.Struct("=Q52xi")
_TRIES, _READY_SECONDS, _PAUSE_SECONDS = 3, 1.0, 0.002
#: How long to wait for clients that still send, because closing earlier would destroy the response.
_LINGER_SECONDS = 2.0
_BUFFER_BYTES = 1 << 16


class _Library:
    """Functions of the C library, looked up before the clone."""

    def __init__(self) -> None:
        library = ctypes.PyDLL(None, use_errno=True)
        number, address = ctypes.c_long, ctypes.c_void_p

        def function(name: str, *types: Any) -> Any:
            found = getattr(library, name)
            found.argtypes, found.restype = types, ctypes.c_long
            return found

        self.syscall = function("syscall", *[number] * 6)
        self.poll = function("poll", address, number, ctypes.c_int)
        self.setpgid = function("setpgid", ctypes.c_int, ctypes.c_int)
        self.prctl = function("prctl", ctypes.c_int, ctypes.c_char_p)
        self.open = function("open", ctypes.c_char_p, ctypes.c_int)
        self.read = function("read", ctypes.c_int, address, number)
        self.ioctl = function("ioctl", ctypes.c_int, number, address)
        self.getsockname = function("getsockname", ctypes.c_int, address, address)
        self.send = function("send", ctypes.c_int, ctypes.c_char_p, number, ctypes.c_int)
        self.recv = function("recv", ctypes.c_int, address, number, ctypes.c_int)
        self.shutdown = function("shutdown", ctypes.c_int, ctypes.c_int)
        self.exit = function("_exit", ctypes.c_int)


class CrashResponder:
    """The marks of a replica's connections, and the process that responds when the replica has died."""

    def __init__(self, app: str, deployment: str, replica: str) -> None:
        self._replica = f"replica {replica!r} of deployment {deployment!r} in application {app!r}"
        #: One byte for each descriptor: 1 while a request on it has no response yet.
        self.marks = memoryview(mmap.mmap(-1, _PAGE_BYTES))
        self.pid = 0

    def listens(self, port: int) -> None:
        """Respond only on connections to this port, in case that a descriptor is reused before its mark is taken off."""
        self.marks[_PORT : _PORT + 2] = port.to_bytes(2, "big")

    def stops(self) -> None:
        """Tell clients whose requests remain that the replica was stopped."""
        self.marks[_STOPPED] = 1

    async def start(self) -> bool:
        """Start the second process. Return False if that is not possible here."""
        has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
        if sys.platform != "linux" or os.uname().machine not in _CLONE or not has_gil:
            return False
        library = _Library()
        try:
            own = os.pidfd_open(os.getpid())
        except OSError:  # a sandbox forbids it
            return False
        for _ in range(_TRIES):
            self.pid = self._clone(library, own)
            if self.pid < 0:
                break
            for _ in range(int(_READY_SECONDS / _PAUSE_SECONDS)):
                if self.marks[_READY]:
                    return True
                await asyncio.sleep(_PAUSE_SECONDS)
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, _WAIT_ALL)
        self.pid = 0
        os.close(own)
        return False

    def _clone(self, library: _Library, own: int) -> int:
        """Start the process. Signals are blocked in it, and its garbage is never collected."""
        arguments = (_CLONE[os.uname().machine], _CLONE_FILES, 0, 0, 0, 0)
        replica = os.getpid()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        collects = gc.isenabled()
        gc.disable()
        pid: int = library.syscall(*arguments)
        if pid == 0:
            _Responder(self, library, own, replica).run()
        if collects:
            gc.enable()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return pid

    def response(self, end: str) -> bytes:
        """Return the response for a process that ended in this way."""
        body = f"{self._replica} did not finish this request: {end}".encode()
        return (
            b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain; charset=utf-8\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )


class _Responder:
    """The program of the second process."""

    def __init__(self, shared: CrashResponder, library: _Library, own: int, replica: int) -> None:
        self._shared = shared
        self._library = library
        self._own = own
        self._replica = replica
        self._buffer = ctypes.create_string_buffer(_BUFFER_BYTES)

    def run(self) -> NoReturn:
        """Wait for the end of the replica, respond, and end."""
        library, marks = self._library, self._shared.marks
        try:
            library.setpgid(0, 0)  # the group of the replica is killed with it
            library.prctl(_NAME, b"serve-crash")
            self._exit_status()  # try what is needed later
            marks[_READY] = 1
            self._wait([self._own], -1)
            status = self._exit_status()
            end = "it was stopped" if marks[_STOPPED] else f"its process {describe(status)}"
            open_ = self._marked(bytes(marks[:CELLS]))
            data = self._shared.response(end)
            for fd in open_:
                library.send(fd, data, len(data), _SEND_FLAGS)
                library.shutdown(fd, 1)
            self._close_others(open_)
            last = time.monotonic() + _LINGER_SECONDS
            while (left := last - time.monotonic()) > 0:
                open_ = [fd for fd in open_ if self._is_open(fd)]
                if not open_:
                    break
                self._wait(open_, int(left * 1000))
        finally:
            while True:
                library.exit(0)

    def _wait(self, fds: list[int], milliseconds: int) -> None:
        """Wait until one of these descriptors has something to read."""
        packed = ctypes.create_string_buffer(b"".join(struct.pack("=ihh", fd, _POLLIN, 0) for fd in fds))
        while self._library.poll(ctypes.addressof(packed), len(fds), milliseconds) < 0:
            continue

    def _exit_status(self) -> int | None:
        """Return how the replica has ended: as a zombie it is in /proc, afterwards the descriptor of the process knows."""
        library, buffer = self._library, self._buffer
        address = ctypes.addressof(buffer)
        file = library.open(b"/proc/%d/stat" % self._replica, os.O_RDONLY | os.O_CLOEXEC)
        if file >= 0:
            count = library.read(file, address, 4096)
            library.syscall(_CLOSE_RANGE, file, file, 0, 0, 0)
            fields = buffer.raw[: max(0, count)].rpartition(b")")[2].split()
            if len(fields) > 49 and fields[0] in b"ZX":
                return int(fields[49])
        ctypes.memmove(address, _INFO.pack(_INFO_EXIT, 0), _INFO.size)
        if library.ioctl(self._own, _GET_INFO, address) == 0:
            mask, status = _INFO.unpack(buffer.raw[: _INFO.size])
            if mask & _INFO_EXIT:
                return int(status)
        return None

    def _marked(self, marks: bytes) -> list[int]:
        """Return the marked descriptors that still are connections of Serve."""
        buffer, found = self._buffer, []
        port = self._shared.marks[_PORT : _PORT + 2]
        at = marks.find(1)
        while at >= 0:
            length = ctypes.c_uint(_BUFFER_BYTES)
            if not self._library.getsockname(at, ctypes.addressof(buffer), ctypes.addressof(length)):
                # A socket of Unix leads to the process that has the keys of an encrypted connection, or to another node.
                family = int.from_bytes(buffer.raw[:2], sys.byteorder)
                if family == 1 or buffer.raw[2:4] == port:
                    found.append(at)
            at = marks.find(1, at + 1)
        return found

    def _close_others(self, kept: Iterable[int]) -> None:
        """Close all descriptors except these, which are sorted."""
        first = 0
        for fd in [*kept, (1 << 31)]:
            if fd > first:
                self._library.syscall(_CLOSE_RANGE, first, fd - 1, 0, 0, 0)
            first = fd + 1

    def _is_open(self, fd: int) -> bool:
        """Discard what the client has sent. Return False if it has closed the connection."""
        count, address = 1, ctypes.addressof(self._buffer)
        while count > 0:
            count = self._library.recv(fd, address, _BUFFER_BYTES, _RECEIVE_FLAGS)
        return bool(count and ctypes.get_errno() == errno.EAGAIN)


def describe(status: int | None) -> str:
    """Describe how a process has ended."""
    if status is None:
        return "ended"
    if not os.WIFSIGNALED(status):
        return f"exited with exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    why = ""
    if number == signal.SIGKILL:
        why = ": by Serve if its health check failed, or by the kernel if the machine was short of memory"
    return f"was killed by {name}{why}"
