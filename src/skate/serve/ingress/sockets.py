"""The listening socket that all ingress replicas share, and the transfer of sockets between processes.

The listening socket is opened once, by the controller, and passed to each replica, so that a replica which ends
loses no waiting connection. A connection moves to another process in the same way, with the bytes already read.
Both use Unix sockets without a file (abstract names); the kernel identifies the sender, and only the same user
is accepted.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
from typing import Any

import msgpack

_CREDENTIALS = struct.Struct("3i")
#: The maximum bytes in one message beside a descriptor; more go through a file in memory.
INLINE_BYTES = 32 * 1024


def listen(
    host: str | None,
    port: int,
    what: str = "Serve",
    instead: str = 'another port with serve.start(http_options={"port": ...})',
) -> socket.socket:
    """Open a listening socket. Raise RuntimeError with a remedy if the port is taken."""
    family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host or "0.0.0.0", port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise RuntimeError(
            f"{what} cannot listen on {host}:{port}: {error.strerror}; stop the process that listens there, or choose {instead}"
        ) from None
    sock.setblocking(False)
    return sock


#: The maximum number of messages dropped in one iteration of the loop.
_DROPPED_AT_ONCE = 64


class SocketReceiver:
    """Receives sockets from other processes."""

    def __init__(self) -> None:
        self.name = b"\0skate-serve-" + os.urandom(12).hex().encode()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.sock.setblocking(False)
        self.sock.bind(self.name)

    def take(self) -> tuple[dict[str, Any], bytes, socket.socket] | None:
        """Return the next arrival: the message, the bytes read so far, the socket. None if there is none.

        Messages of other users and malformed ones are skipped.
        """
        space = socket.CMSG_SPACE(3 * array.array("i").itemsize) + socket.CMSG_SPACE(_CREDENTIALS.size)
        for _ in range(_DROPPED_AT_ONCE):
            try:
                data, ancillary, _, _ = self.sock.recvmsg(2 * INLINE_BYTES, space)
            except OSError:
                return None
            found = _checked(data, ancillary)
            if found is not None:
                return found
        return None

    def close(self) -> None:
        """Stop receiving."""
        self.sock.close()


def _checked(
    data: bytes, ancillary: list[tuple[int, int, bytes]]
) -> tuple[dict[str, Any], bytes, socket.socket] | None:
    fds = array.array("i")
    user = -1
    for level, kind, body in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
        elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            _, user, _ = _CREDENTIALS.unpack(body)
    message = _unpacked(data) if user == os.geteuid() and fds else None
    if message is None:
        for fd in fds:
            os.close(fd)
        return None
    head: bytes = message.pop("head", b"")
    if len(fds) > 1:
        with os.fdopen(fds[1], "rb") as file:
            file.seek(0)
            head = file.read()
    sock = socket.socket(fileno=fds[0])
    sock.setblocking(False)
    return message, head, sock


def _unpacked(data: bytes) -> dict[str, Any] | None:
    try:
        found = msgpack.unpackb(data)
    except (ValueError, msgpack.UnpackException):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("head", b""), bytes) else None


_out: list[socket.socket] = []


def send(to: bytes, sock: socket.socket, head: bytes, **message: Any) -> bool:
    """Send a copy of a socket to another process; return False if it does not accept it."""
    if not _out:
        _out.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        _out[0].setblocking(False)
    fds = [sock.fileno()]
    with contextlib.ExitStack() as stack:
        if len(head) > INLINE_BYTES:
            file = stack.enter_context(
                os.fdopen(os.memfd_create("skate-serve-head", os.MFD_CLOEXEC), "wb", 0)
            )
            file.write(head)
            fds.append(file.fileno())
            head = b""
        try:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            _out[0].sendmsg([msgpack.packb({**message, "head": head})], rights, 0, to)
        except OSError:
            return False
    return True


def forget_outgoing() -> None:
    """Drop the sending socket in a forked child; it belongs to the parent."""
    _out.clear()


os.register_at_fork(after_in_child=forget_outgoing)
