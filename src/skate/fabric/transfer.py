"""Transfers of values to this node and from it: large ones over connections of their own, others in pieces over a lane."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skate.fabric.bulk import BulkReader, BulkSender, BulkThread, Read
from skate.wire.mailbox import Mailbox

if TYPE_CHECKING:
    from skate.fabric.arrivals import Arrival
    from skate.fabric.fabric import Space
    from skate.wire.pump import Pump

#: A value of fewer bytes is not worth a connection.
BULK_BYTES_MIN: Final = 1 << 20
TRANSFERS_MAX: Final = 4  # to this node at once
TRANSFERS_OF_A_SOURCE_MAX: Final = 2
SENDERS_MAX: Final = 8
#: Attempts without a new byte, after which a value takes the lane.
ATTEMPTS_MAX: Final = 2
PIECE_BYTES: Final = 1 << 20
PIECES_AHEAD: Final = 4
READ: Final = -6  # ticket, key, at, size
PIECE: Final = -7  # ticket, at, bytes or None

#: Opens a connection for a value: the member, and functions for the socket and for the cause of a failure.
Dial = Callable[[int, Callable[[socket.socket], None], Callable[[str], None]], None]


class Transfer:
    """The transfer of one value to this node."""

    __slots__ = (
        "arrival",
        "asked",
        "done",
        "failures",
        "got",
        "is_over",
        "key",
        "reader",
        "size",
        "source",
        "space",
        "write",
    )

    def __init__(
        self,
        source: int,
        key: bytes,
        size: int,
        write: Callable[[int, Any], None],
        done: Callable[[bool], None],
        space: Space | None,
        arrival: Arrival | None = None,
    ) -> None:
        self.source = source
        self.key = key
        self.size = size
        self.write = write
        self.done = done
        self.space = space
        self.arrival = arrival
        self.reader: BulkReader | None = None
        self.failures = 0
        self.is_over = False  # nothing more is wanted; `done` follows as soon as no thread writes
        self.asked = 0
        self.got = 0


class Transfers:
    """The transfers of one node that are not finished."""

    def __init__(self, pump: Pump, post: Callable[..., None], dial: Dial, read: Read) -> None:
        self._post = post  # a frame to a member
        self._dial = dial
        self._read = read
        self._pump = pump
        self._opened: Mailbox | None = None
        self._pieces: dict[int, Transfer] = {}  # over a lane, by ticket
        self._ticket = 0
        self._queue: list[Transfer] = []  # for a connection
        self._running: set[Transfer] = set()
        self._senders: set[BulkSender] = set()
        self._callers: list[socket.socket] = []  # that wait for a sender

    @property
    def _mailbox(self) -> Mailbox:
        """Calls of the threads, opened for the first of them."""
        if self._opened is None:
            self._opened = Mailbox(self._pump)
        return self._opened

    def fetch(self, transfer: Transfer) -> None:
        """Begin a transfer: `write` is called with each piece, unless they go into its space, and `done` once."""
        if transfer.space is not None and transfer.size >= BULK_BYTES_MIN:
            self._queue.append(transfer)
            self._start_some()
        else:
            self._begin_pieces(transfer)

    # -- over a connection

    def _start_some(self) -> None:
        counts = Counter(each.source for each in self._running)
        for transfer in list(self._queue):
            if len(self._running) >= TRANSFERS_MAX:
                return
            if counts[transfer.source] < TRANSFERS_OF_A_SOURCE_MAX:
                counts[transfer.source] += 1
                self._queue.remove(transfer)
                self._running.add(transfer)
                self._connect(transfer)

    def _connect(self, transfer: Transfer) -> None:
        def opened(sock: socket.socket) -> None:
            if transfer.is_over:
                sock.close()
                return
            space = transfer.space() if transfer.space is not None else None
            if space is None:
                sock.close()
                self._leave_connection(transfer)
                return
            reader = transfer.reader = BulkReader(
                sock,
                self._mailbox,
                partial(self._ended, transfer),
                transfer.key,
                space,
                transfer.got,
                transfer.arrival,
            )
            try:
                reader.start()
            except OSError:  # no more threads
                transfer.reader = None
                self._leave_connection(transfer)

        def failed(reason: str) -> None:
            if not transfer.is_over:
                self._retry(transfer)

        self._dial(transfer.source, opened, failed)

    def _ended(self, transfer: Transfer, reader: BulkReader) -> None:
        """Handle the end of a thread."""
        transfer.reader = None
        if reader.got > transfer.got:
            transfer.got, transfer.failures = reader.got, 0
        if transfer.got == transfer.size:
            self._finish(transfer, True)
        elif transfer.is_over or reader.is_missing:
            self._finish(transfer, False)
        else:
            self._retry(transfer)

    def _retry(self, transfer: Transfer) -> None:
        """Continue over another connection, or over the lane if there is none."""
        transfer.failures += 1
        if transfer.failures < ATTEMPTS_MAX:
            self._connect(transfer)
        else:
            self._leave_connection(transfer)

    def _leave_connection(self, transfer: Transfer) -> None:
        self._running.discard(transfer)
        self._begin_pieces(transfer)
        self._start_some()

    def _finish(self, transfer: Transfer, success: bool) -> None:
        transfer.is_over = True
        self._running.discard(transfer)
        transfer.done(success)
        self._start_some()

    # -- in pieces

    def _begin_pieces(self, transfer: Transfer) -> None:
        self._ticket += 1
        self._pieces[self._ticket] = transfer
        transfer.asked = transfer.got
        self._ask(self._ticket, transfer)

    def _ask(self, ticket: int, transfer: Transfer) -> None:
        while True:  # at least once: a value without bytes may be missing as well
            size = min(PIECE_BYTES, transfer.size - transfer.asked)
            self._post(transfer.source, READ, ticket, transfer.key, transfer.asked, size)
            transfer.asked += size
            ahead = transfer.asked - transfer.got
            if transfer.asked >= transfer.size or ahead >= PIECES_AHEAD * PIECE_BYTES:
                return

    def piece(self, ticket: int, at: int, piece: Any) -> None:
        """Handle a piece of a value, or None if its source does not have it."""
        transfer = self._pieces.get(ticket)
        if transfer is None:
            return
        if piece is None:
            del self._pieces[ticket]
            transfer.done(False)
            return
        transfer.write(at, piece)
        transfer.got += len(piece)
        if transfer.arrival is not None:
            transfer.arrival.progressed(transfer.got)
        if transfer.got >= transfer.size:
            del self._pieces[ticket]
            transfer.done(True)
        elif transfer.asked < transfer.size:
            self._ask(ticket, transfer)

    # -- to others

    def serve(self, sock: socket.socket) -> None:
        """Answer the request that comes over a connection."""
        self._callers.append(sock)
        self._serve_some()

    def _serve_some(self) -> None:
        while self._callers and len(self._senders) < SENDERS_MAX:
            sock = self._callers.pop(0)
            sender = BulkSender(sock, self._mailbox, self._served, self._read)
            try:
                sender.start()
            except OSError:  # no more threads: the other side uses the lane
                continue
            self._senders.add(sender)

    def _served(self, sender: BulkSender) -> None:
        self._senders.discard(sender)
        self._serve_some()

    # -- the end

    def left(self, source: int) -> None:
        """End the transfers from a member that has left."""
        for ticket in [ticket for ticket, each in self._pieces.items() if each.source == source]:
            self._pieces.pop(ticket).done(False)
        for transfer in [each for each in self._queue if each.source == source]:
            self._queue.remove(transfer)
            transfer.done(False)
        for transfer in [each for each in self._running if each.source == source]:
            transfer.is_over = True
            if transfer.reader is not None:
                transfer.reader.stop()
            else:
                self._finish(transfer, False)

    def _threads(self) -> list[BulkThread]:
        return [*self._senders, *(each.reader for each in self._running if each.reader is not None)]

    def forked(self) -> None:
        """In a forked child: close the inherited descriptors."""
        if self._opened is not None:
            self._opened.forked()
        for thread in self._threads():
            thread.forked()
        for sock in self._callers:
            sock.close()

    def close(self) -> None:
        """End all threads; what was not finished stays so."""
        for transfer in self._running:
            transfer.is_over = True
        threads = self._threads()
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join()
        if self._opened is not None:
            self._opened.close()
        for sock in self._callers:
            sock.close()
