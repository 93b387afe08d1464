"""The time that all machines of a node agree on."""

from __future__ import annotations


class Clock:
    """The time of the event that a node is about; the shell says it with each event."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def __repr__(self) -> str:
        return f"<Clock {self.now}>"
