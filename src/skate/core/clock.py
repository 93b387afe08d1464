"""The time shared by all components of a node."""

from __future__ import annotations


class Clock:
    """The time of the event being handled; the shell passes it with each event."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def __repr__(self) -> str:
        return f"<Clock {self.now}>"
