"""Values on their way to a node, which passes on what it has received to other nodes that read them: pure.

A reader waits here for bytes that have not come yet. It waits only if its rank is higher than that of the read it waits for, so
nodes never wait for each other in a circle. If that read fails, the reader is answered, and finds the value elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Wait(NamedTuple):
    """A request for bytes that have not come yet."""

    at: int
    size: int
    visit: Visit
    #: Takes the offset of the bytes in memory, or None if they are not here.
    answer: Callable[[int | None], None]


class Arrival:
    """A value on its way here."""

    __slots__ = ("failed", "got", "key", "offset", "rank", "size", "waits")

    def __init__(self, key: bytes, offset: int, size: int, rank: int) -> None:
        self.key = key
        self.offset = offset  # in memory
        self.size = size
        self.rank = rank
        self.got = 0  # bytes that are known to be right, from the start
        self.failed = False
        self.waits: list[Wait] = []

    def progressed(self, got: int) -> None:
        """Answer those who wait for bytes that are here now."""
        if got <= self.got or self.failed:
            return
        self.got = got
        ready = [wait for wait in self.waits if wait.at + wait.size <= got]
        if ready:
            self.waits = [wait for wait in self.waits if wait.at + wait.size > got]
            for wait in ready:
                wait.answer(self.offset + wait.at)

    def __repr__(self) -> str:
        return f"<Arrival of {self.key.hex()[:16]}: {self.got} of {self.size} bytes, {len(self.waits)} wait>"


class Visit:
    """One connection over which another node reads a value; `rank` is that of its read, 0 if it must not wait."""

    __slots__ = ("arrival", "begun", "from_memory", "place", "rank")

    def __init__(self, rank: int = 0, from_memory: bool = False) -> None:
        self.rank = rank
        self.from_memory = from_memory  # a value on disk is restored first
        self.begun = False
        self.arrival: Arrival | None = None  # that it has received bytes of
        self.place: int | None = None  # on disk, that it has received bytes from

    @property
    def waits(self) -> bool:
        """True if the value had not arrived when it was first read."""
        return self.arrival is not None


class Arrivals:
    """The values on their way to one node."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, Arrival] = {}

    def begin(self, key: bytes, offset: int, size: int, rank: int) -> Arrival:
        """Add a value that this node begins to read."""
        arrival = self.by_key[key] = Arrival(key, offset, size, rank)
        return arrival

    def end(self, arrival: Arrival, success: bool) -> list[Wait]:
        """Remove a value that has arrived, or never will; return what still waits for it."""
        if self.by_key.get(arrival.key) is arrival:
            del self.by_key[arrival.key]
        if success:
            arrival.got = arrival.size
        else:
            arrival.failed = True
        waits, arrival.waits = arrival.waits, []
        return waits

    def read(
        self, key: bytes, at: int, size: int, visit: Visit, answer: Callable[[int | None], None]
    ) -> None:
        """Answer with the place of bytes of a value that has not arrived: now, when they have come, or with None."""
        arrival = self.by_key.get(key)
        if arrival is not None and visit.arrival is None and not visit.begun and not at:
            if arrival.rank < visit.rank:
                visit.arrival = arrival
        visit.begun = True
        # A second attempt of the task may have made other bytes, so nobody continues with those of another read.
        if arrival is None or visit.arrival is not arrival or at + size > arrival.size:
            answer(None)
        elif at + size <= arrival.got:
            answer(arrival.offset + at)
        else:
            arrival.waits.append(Wait(at, size, visit, answer))

    @staticmethod
    def may_continue(visit: Visit, offset: int) -> bool:
        """Return True if a reader may take bytes of a complete value at an offset: it has none of another read."""
        visit.begun = True
        arrival = visit.arrival
        return arrival is None or (not arrival.failed and arrival.offset == offset)
