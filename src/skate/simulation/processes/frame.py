"""The variables of a scripted program: its refs, actors, streams and groups."""

from __future__ import annotations

from typing import Any

from skate.client.actor.actor_hold import ActorHold
from skate.client.object.generators import ObjectRefGenerator
from skate.client.object.object_ref import ObjectRef

Ref = ObjectRef[Any]


class Frame:
    """The variables of one program."""

    def __init__(self) -> None:
        self.refs: list[Ref] = []
        self.holds: list[ActorHold] = []
        self.streams: list[ObjectRefGenerator] = []
        self.groups: list[bytes] = []

    def pick(self, number: int) -> Ref | None:
        """Return the ref for a number, or None if there is none."""
        return self.refs[number % len(self.refs)] if self.refs else None

    def take(self, thing: Ref | ActorHold) -> None:
        """Keep the contents of a value."""
        if isinstance(thing, ObjectRef):
            self.refs.append(thing)
        else:
            self.holds.append(thing)

    def clear(self) -> None:
        """Drop everything."""
        self.refs.clear()
        self.holds.clear()
        self.streams.clear()
