"""Transfers of values to this node, in pieces over a lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

PIECE_BYTES: Final = 1 << 20
PIECES_AHEAD: Final = 4
READ: Final = -6  # ticket, key, at, size
PIECE: Final = -7  # ticket, at, bytes or None


class Transfer:
    """The transfer of one value."""

    __slots__ = ("asked", "done", "got", "key", "size", "source", "write")

    def __init__(
        self,
        source: int,
        key: bytes,
        size: int,
        write: Callable[[int, Any], None],
        done: Callable[[bool], None],
    ) -> None:
        self.source = source
        self.key = key
        self.size = size
        self.write = write
        self.done = done
        self.asked = 0
        self.got = 0


class Transfers:
    """The transfers of one node that are not finished."""

    def __init__(self, post: Callable[..., None]) -> None:
        self._post = post  # a frame to a member
        self._transfers: dict[int, Transfer] = {}
        self._ticket = 0

    def fetch(
        self,
        source: int,
        key: bytes,
        size: int,
        write: Callable[[int, Any], None],
        done: Callable[[bool], None],
    ) -> None:
        """Begin a transfer: `write` is called with each piece, and `done` once."""
        self._ticket += 1
        transfer = self._transfers[self._ticket] = Transfer(source, key, size, write, done)
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
        transfer = self._transfers.get(ticket)
        if transfer is None:
            return
        if piece is None:
            del self._transfers[ticket]
            transfer.done(False)
            return
        transfer.write(at, piece)
        transfer.got += len(piece)
        if transfer.got >= transfer.size:
            del self._transfers[ticket]
            transfer.done(True)
        elif transfer.asked < transfer.size:
            self._ask(ticket, transfer)

    def left(self, source: int) -> None:
        """End the transfers from a member that has left."""
        for ticket in [ticket for ticket, each in self._transfers.items() if each.source == source]:
            self._transfers.pop(ticket).done(False)
