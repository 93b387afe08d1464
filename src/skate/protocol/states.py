"""Kinds and states of what a node keeps, by the numbers and words that travel between nodes.

The members stand again under their bare names, as code that runs for every task compares with them: to look up a member of an
enum costs more than a global name.
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
    """How far a task is: it waits for arguments; for resources or its actor; it was sent to a worker or a node; it has ended."""

    WAITING = 0
    QUEUED = 1
    SENT = 2
    ENDED = 3


WAITING: Final = TaskState.WAITING
QUEUED: Final = TaskState.QUEUED
SENT: Final = TaskState.SENT
ENDED: Final = TaskState.ENDED


class ActorState(IntEnum):
    """How far an actor is; its creation waits for arguments or resources, or its constructor runs, while it is PENDING."""

    PENDING = 0
    ALIVE = 1
    RESTARTING = 2
    DEAD = 3

    @property
    def public(self) -> str:
        """The state as the public API names it."""
        return "PENDING_CREATION" if self is ActorState.PENDING else self.name


PENDING: Final = ActorState.PENDING
ALIVE: Final = ActorState.ALIVE
RESTARTING: Final = ActorState.RESTARTING
DEAD: Final = ActorState.DEAD


class GroupState(str, Enum):
    """How far a placement group is; INFEASIBLE: no node could ever hold it; RESCHEDULING: bundles were lost with a node."""

    PENDING = "PENDING"
    CREATED = "CREATED"
    REMOVED = "REMOVED"
    INFEASIBLE = "INFEASIBLE"
    RESCHEDULING = "RESCHEDULING"


class CopyState(IntEnum):
    """The meaning of COPY about a second copy.

    A reader has it, and counts a grant for the owner; it has neither any more; the owner needs it, as it is the value now;
    the owner does not want it.
    """

    THERE = 0
    GONE = 1
    NEEDED = 2
    UNWANTED = 3
