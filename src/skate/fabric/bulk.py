"""Threads that move the bytes of large values, from memory to memory over a connection of their own.

The engine lock is not held, so messages pass while gigabytes move. The side that reads asks by key, offset, size and rank. The
other side sends chunks of one size, each after a byte that is 1 as long as the value stays where it is: memory may be given away
while a chunk is sent, so a chunk counts only when the byte after it has come.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skate.fabric.arrivals import Visit
from skate.wire.limits import start_thread
from skate.wire.memory_map import address_of

if TYPE_CHECKING:
    from skate.fabric.arrivals import Arrival
    from skate.wire.mailbox import Mailbox

#: A large value moves in chunks of this size; others in 64 chunks, so that a chain of nodes passes them on soon.
CHUNK_BYTES: Final = 4 << 20
CHUNK_BYTES_MIN: Final = 256 << 10
CHUNKS: Final = 64
REQUEST: Final = struct.Struct("!HQQH")  # bytes of the key, offset, size, rank
VALID: Final = b"\x01"
GONE: Final = b"\x00"
#: How long a connection may be silent; a value may have to be read from disk first.
SILENCE_SECONDS: Final = 60.0
#: How long a reader waits for bytes that have not come to its source either; then it asks for another one.
READ_SECONDS: Final = 5.0
END_SECONDS: Final = 5.0

#: Asks the node for bytes of a value: key, offset, size, a function for the answer, and who reads.
Read = Callable[[bytes, int, int, Callable[[Any], None], Visit], None]


class FilePart(NamedTuple):
    """Bytes of a value in a file."""

    fd: int
    at: int
    size: int

    def read(self) -> bytes | None:
        """Return the bytes; None if they cannot be read."""
        try:
            data = os.pread(self.fd, self.size, self.at)
        except OSError:
            return None
        return data if len(data) == self.size else None


def chunk_bytes(size: int) -> int:
    """Return the size of the chunks of a value; both ends compute it."""
    return min(max(size // CHUNKS, CHUNK_BYTES_MIN), CHUNK_BYTES)


class BulkThread:
    """One end of a transfer.

    `ended` is called with this object and must not hold it: in a cycle, its memory would keep an arena open that has ended.
    """

    def __init__(
        self,
        sock: socket.socket,
        mailbox: Mailbox,
        ended: Callable[[Any], None],
        seconds: float = SILENCE_SECONDS,
    ) -> None:
        sock.settimeout(seconds)
        self._sock = sock
        self._mailbox = mailbox
        self._ended = ended
        self._seconds = seconds
        self._stopped = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. Raises LimitReached if there can be no more."""
        try:
            self._thread = start_thread(self._main, "skate-bulk", " for a transfer")
        except OSError:
            self._sock.close()
            raise

    def _main(self) -> None:
        try:
            self.run()
        except OSError:  # the connection has ended or was silent; TLS errors are among them
            pass
        finally:
            self._sock.close()
            self._mailbox.post(partial(self._ended, self))

    def run(self) -> None:
        """Transfer; may raise OSError."""
        raise NotImplementedError

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("the connection has ended")
            data += piece
        return data

    def stop(self) -> None:
        """Make the thread end soon."""
        self._stopped = True
        self._wake.set()
        with contextlib.suppress(OSError):
            # Not the method of a TLS socket, which would let the thread continue without encryption.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait for the end of the thread, which takes no lock."""
        if self._thread is not None:
            self._thread.join(END_SECONDS)

    def forked(self) -> None:
        """In a forked child: close the inherited descriptor."""
        self._sock.close()


class BulkReader(BulkThread):
    """The end that asks for a value, and writes it to memory."""

    def __init__(
        self,
        sock: socket.socket,
        mailbox: Mailbox,
        ended: Callable[[BulkReader], None],
        key: bytes,
        space: memoryview,
        got: int,
        arrival: Arrival | None,
    ) -> None:
        super().__init__(sock, mailbox, ended)
        self._key = key
        self._arrival = arrival
        self._space = space
        self.got = got  # bytes that are known to be right
        self.is_missing = False

    def run(self) -> None:
        """Ask for the value, and receive it."""
        space, sock = self._space, self._sock
        size, at = len(space), self.got
        arrival, rank = self._arrival, 0 if self._arrival is None else self._arrival.rank
        step = chunk_bytes(size)
        sock.sendall(REQUEST.pack(len(self._key), at, size - at, rank) + self._key)
        while True:
            if self._receive(1) != VALID:
                self.is_missing = True
                return
            self.got = at
            if at == size:
                return
            if arrival is not None and at:
                self._mailbox.post(partial(arrival.progressed, at))
            end = min(at + step, size)
            while at < end:
                count = sock.recv_into(space[at:end])
                if not count:
                    return
                at += count


class BulkSender(BulkThread):
    """The end that has the value."""

    def __init__(
        self, sock: socket.socket, mailbox: Mailbox, ended: Callable[[BulkSender], None], read: Read
    ) -> None:
        super().__init__(sock, mailbox, ended)
        self._read = read

    def run(self) -> None:
        """Answer one request."""
        length, at, size, rank = REQUEST.unpack(self._receive(REQUEST.size))
        key = self._receive(length)
        end = at + size
        visit = Visit(rank)
        step = chunk_bytes(end)
        base: tuple[int, int] | None = None
        if not end:
            self._sock.sendall(GONE)
            return
        while True:
            count = min(step, end - at)
            # After the last chunk, look once more whether its last byte is still there.
            found = self._chunk(key, at, count, visit) if count else self._chunk(key, at - 1, 1, visit)
            if found is None or (base is not None and found[0] != base):
                self._sock.sendall(GONE)
                return
            self._sock.sendall(VALID)
            if not count:
                return
            base, piece = found
            self._sock.sendall(piece)
            at += count

    def _chunk(
        self, key: bytes, at: int, size: int, visit: Visit
    ) -> tuple[tuple[int, int], bytes | memoryview] | None:
        """Return bytes of the value, and where the value begins: a file, or -1 for memory, and the place in it."""
        piece = self._lend(key, at, size, visit)
        if isinstance(piece, FilePart):
            data = piece.read()
            if data is not None:
                return (piece.fd, piece.at - at), data
            visit.from_memory = True  # the node restores the value, or finds out that it is lost
            piece = self._lend(key, at, size, visit)
        if not isinstance(piece, memoryview):
            return None
        return (-1, address_of(piece) - at), piece

    def _lend(self, key: bytes, at: int, size: int, visit: Visit) -> memoryview | FilePart | None:
        """Return bytes of the value, or None if it is not here."""
        answers: list[memoryview | FilePart | None] = []
        self._wake.clear()

        def answer(piece: memoryview | FilePart | None) -> None:
            answers.append(piece)
            self._wake.set()

        self._mailbox.post(lambda: self._read(key, at, size, answer, visit))
        if not self._stopped and not self._wake.wait(min(READ_SECONDS, self._seconds)):
            if visit.waits:
                return None
            self._wake.wait(self._seconds)
        if self._stopped or not answers:
            raise ConnectionError("this node ends, or the value does not come back from disk")
        return answers[0]
