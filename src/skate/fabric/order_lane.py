"""One lane as `Order` keeps it: numbered writes in both directions, and notes of binding frames."""

from __future__ import annotations

from collections import deque
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

#: Where a binding frame goes, where it comes from, the number of its write, and the age in turns or ARRIVED.
Stamp = tuple[int, int, int, int]


#: The most frames of one write, so that a long break does not end in one of gigabytes.
FRAMES_MAX: Final = 1024
#: Writes of a head and its changes of membership are numbered within its epoch; the upper bits are the epochs before.
EPOCH_BITS: Final = 32


def base_of(epoch: int) -> int:
    """Return the number before the first write and the first change of membership of the head of an epoch, from 1."""
    return (epoch - 1) << EPOCH_BITS


class Receipt(NamedTuple):
    """How much of a lane has arrived, and how much of that was delivered: the numbers of the last writes."""

    received: int
    delivered: int


class Write(NamedTuple):
    """A numbered unit of a lane: frames that are sent together."""

    number: int
    kind: int
    view: int
    receipt: Receipt  # of the opposite direction
    stamps: tuple[Stamp, ...]
    frames: tuple[Any, ...]


class OrderLane:
    """Both directions between this member and another."""

    __slots__ = (
        "peer", "news", "queued", "window", "sent", "announced", "sent_stamps", "held", "received", "delivered", "receipted",
        "waits",
    )  # fmt: skip

    def __init__(self, peer: int, base: int) -> None:
        self.peer = peer
        #: Of the head: changes of membership that the peer is not told of yet, each with its kind.
        self.news: list[tuple[int, Any]] = []
        self.queued: list[Any] = []  # frames that are in no write yet
        self.window: deque[Write] = deque()  # writes without a receipt
        self.sent = base  # number of the last write
        self.announced = 0  # index of the last note that was announced to the peer
        #: Stamps for the peer itself that writes have carried: (number of the write, source, number).
        self.sent_stamps: deque[tuple[int, int, int]] = deque()
        self.held: deque[Write] = deque()  # received, not delivered
        self.received = self.delivered = base
        self.receipted = Receipt(base, base)  # the last receipt sent
        self.waits = False

    def last_queued(self) -> int:
        """Return the number that the write of the last queued frame will have."""
        return self.sent + len(self.grouped_news()) + -(-len(self.queued) // FRAMES_MAX)

    def grouped_news(self) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the writes that tell the news: changes of the same kind that follow each other go together."""
        if not self.news:
            return []
        groups = groupby(self.news, key=itemgetter(0))
        return [(kind, tuple(frame for _, frame in group)) for kind, group in groups]


class Note:
    """Knowledge of the last binding frame between two members: it has been delivered, or perhaps not."""

    __slots__ = ("number", "arrived", "age", "index", "since")

    def __init__(self, number: int, age: int, index: int, since: int) -> None:
        self.number = number
        self.arrived = False
        self.age = age
        self.index = index  # position in the sequence of all changes of notes
        self.since = since  # position from which the pair has been told as a stamp
