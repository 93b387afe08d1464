"""Writes of a lane, with their receipts and stamps, and what a member delivers of them: the records of `fabric/order.py`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

#: Kinds of writes and deliveries.
DATA: Final = 0  # frames, in order
EXPRESS: Final = 1  # frames that are delivered once, but as soon as they arrive: what the head relays
JOINED: Final = 2  # news from the head: (member, info)
LEFT: Final = 3  # news from the head: (member, reason)

#: Where a binding frame goes, where it comes from, the number of its write, and the age in turns or ARRIVED.
Stamp = tuple[int, int, int, int]


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


class Delivery(NamedTuple):
    """Frames for the handler, or news: then `frames` has one pair."""

    source: int
    kind: int
    frames: tuple[Any, ...]
