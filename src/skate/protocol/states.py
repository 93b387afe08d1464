"""Kinds and states of a node's records, by the numbers and texts used between nodes.

The members are repeated as global names, because code that runs for every task compares with them, and
looking up an enum member costs more than a global.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class TaskKind(IntEnum):
    """The kinds of tasks."""

    PLAIN = 0
    CREATION = 1
    METHOD = 2


PLAIN: Final = TaskKind.PLAIN
CREATION: Final = TaskKind.CREATION
METHOD: Final = TaskKind.METHOD


class TaskState(IntEnum):
    """The state of a task: it waits for arguments; for resources or its actor; it was sent to a worker or a
    node; it has ended."""

    WAITING = 0
    QUEUED = 1
    SENT = 2
    ENDED = 3


WAITING: Final = TaskState.WAITING
QUEUED: Final = TaskState.QUEUED
SENT: Final = TaskState.SENT
ENDED: Final = TaskState.ENDED


class ActorState(IntEnum):
    """The state of an actor. While PENDING, its creation waits for arguments or resources, or its constructor runs."""

    PENDING = 0
    ALIVE = 1
    RESTARTING = 2
    DEAD = 3

    @property
    def public(self) -> str:
        """The name of the state in the public API."""
        return "PENDING_CREATION" if self is ActorState.PENDING else self.name


PENDING: Final = ActorState.PENDING
ALIVE: Final = ActorState.ALIVE
RESTARTING: Final = ActorState.RESTARTING
DEAD: Final = ActorState.DEAD


class GroupState(str, Enum):
    """The state of a placement group. INFEASIBLE: the nodes could never hold it; RESCHEDULING: bundles were
    lost with a node."""

    PENDING = "PENDING"
    CREATED = "CREATED"
    REMOVED = "REMOVED"
    INFEASIBLE = "INFEASIBLE"
    RESCHEDULING = "RESCHEDULING"


class CopyState(IntEnum):
    """The meaning of COPY about a second copy.

    A reader has it, and counts a grant for the owner; it no longer has either; the owner needs it, because it
    is now the only copy; the owner does not want it; a reader has read it, and keeps no copy.
    """

    ADDED = 0
    GONE = 1
    NEEDED = 2
    UNWANTED = 3
    READ = 4
