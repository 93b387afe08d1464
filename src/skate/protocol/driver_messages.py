"""Messages between a node and a driver in another process, besides those of every client."""

from __future__ import annotations

from typing import Any, Literal

from skate.protocol.fields import Count, ObjectId
from skate.protocol.record import Record


class Attach(Record):
    """Join a node: the driver's protocol version, and its description and options (a `Greeting`)."""

    tag: Literal[80]
    protocol: int
    fields: dict[str, Any]


class Welcome(Record):
    """Answer ATTACH; the descriptors of the memory are sent along."""

    tag: Literal[81]
    fields: dict[str, Any]


class Refused(Record):
    """Reject ATTACH; the text has the reason."""

    tag: Literal[82]
    text: str


class Printed(Record):
    """Text that workers of the driver's job have printed."""

    tag: Literal[83]
    is_error: bool
    text: str


class Leave(Record):
    """End a session; lists the values that are still viewed."""

    tag: Literal[84]
    viewed: tuple[ObjectId, ...]


class Shown(Record):
    """Report how many characters of the output of workers a driver has printed."""

    tag: Literal[85]
    size: Count


class Left(Record):
    """Announce the end of the session; empty after LEAVE, once all output was sent, else the node's reason."""

    tag: Literal[86]
    reason: str
