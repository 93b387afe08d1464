"""The possessions of a scripted program: refs, holds on actors, streams."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.simulation.process import Process


class Ref:
    """A reference as one process holds it."""

    __slots__ = ("oid", "process", "kind", "value", "held", "grants", "views", "__weakref__")

    def __init__(self, oid: bytes, process: Process, kind: int, value: Any = None) -> None:
        self.oid = oid
        self.process = process
        self.kind = kind
        self.value = value
        self.held: list[Any] = []
        self.grants = 0
        self.views = 0

    def __del__(self) -> None:
        if self.grants:
            self.process.graves.append((self.oid, self.grants))

    def __repr__(self) -> str:
        return f"<Ref {self.oid.hex()[:16]} kind={self.kind} grants={self.grants}>"


class Hold:
    """A process's share in keeping an actor alive."""

    __slots__ = ("oid", "process", "grants", "__weakref__")

    def __init__(self, actor_id: bytes, process: Process) -> None:
        self.oid = actor_id
        self.process = process
        self.grants = 0

    def __del__(self) -> None:
        if self.grants:
            self.process.graves.append((self.oid, self.grants))


class Stream:
    """The items of a streaming call that have arrived."""

    def __init__(self, task_id: bytes) -> None:
        self.task_id = task_id
        self.ready: deque[Ref] = deque()
        self.arrived = 0
        self.taken = 0
        self.count: int | None = None


class Frame:
    """The variables of a program: refs, actors, streams and groups it has come by."""

    def __init__(self) -> None:
        self.refs: list[Ref] = []
        self.holds: list[Hold] = []
        self.streams: list[Stream] = []
        self.groups: list[bytes] = []

    def pick(self, number: int) -> Ref | None:
        """Return the ref for a number, or None if there is none."""
        return self.refs[number % len(self.refs)] if self.refs else None

    def take(self, thing: Any) -> None:
        """Keep what came out of a value."""
        (self.refs if isinstance(thing, Ref) else self.holds).append(thing)

    def clear(self) -> None:
        """Drop everything."""
        self.refs.clear()
        self.holds.clear()
        self.streams.clear()
