"""Messages between a node and a driver in another process, beside those of every client."""

from __future__ import annotations

from typing import Any, Literal

from skate.protocol.fields import Count, ObjectId
from skate.protocol.record import Record


class Attach(Record):
    """Join a node: the protocol that the driver speaks, and what it is and wants (a `Greeting`)."""

    tag: Literal[80]
    protocol: int
    fields: dict[str, Any]


class Welcome(Record):
    """Answer ATTACH; the descriptors of the memory come with it."""

    tag: Literal[81]
    fields: dict[str, Any]


class Refused(Record):
    """Answer ATTACH of a driver that cannot join; the text says why."""

    tag: Literal[82]
    text: str


class Printed(Record):
    """Text that workers of the driver's job have printed."""

    tag: Literal[83]
    is_error: bool
    text: str


class Leave(Record):
    """End a session; the values that stay in view."""

    tag: Literal[84]
    viewed: tuple[ObjectId, ...]


class Shown(Record):
    """Report how many characters of the output of workers a driver has printed."""

    tag: Literal[85]
    size: Count


class Left(Record):
    """The session is over; empty after LEAVE, when all output was sent, else why the node ends it."""

    tag: Literal[86]
    reason: str
