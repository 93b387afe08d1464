"""The hold of a process on an actor, which keeps the actor alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.client.core.owner import Owner


class ActorHold:
    """The hold of this process on an actor, shared by all its handles. It keeps the actor alive."""

    __slots__ = ("actor_id", "process", "grants", "waiting", "__weakref__")

    def __init__(self, actor_id: bytes, process: Owner) -> None:
        self.actor_id = actor_id
        self.process = process
        self.grants = 0
        self.waiting = 0

    def __del__(self) -> None:
        if self.grants:
            # As in ObjectRef: without grants, this hold counts as gone to threads that can still find it.
            grants, self.grants = self.grants, 0
            self.process.release_later(self.actor_id, grants)

    @property
    def _skate_id(self) -> bytes:
        return self.actor_id
