"""The public id classes: those of the core, with constructors that need random bytes or hashes."""

from __future__ import annotations

import os
from typing import Any

from skate.client.digest import blake2b
from skate.core import ids
from skate.core.ids import (
    ActorClassID,
    ActorID,
    BaseID,
    ClusterID,
    FunctionID,
    JobID,
    NodeID,
    PlacementGroupID,
    TaskID,
    UniqueID,
    WorkerID,
)

__all__ = [
    "ActorClassID",
    "ActorID",
    "BaseID",
    "ClusterID",
    "FunctionID",
    "JobID",
    "NodeID",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
]


def _from_random(cls: type[BaseID]) -> BaseID:
    """Return an id of random bytes."""
    return cls(os.urandom(cls.SIZE))


def _made_of(size: int, *parts: bytes) -> bytes:
    """Return bytes that depend only on the parts."""
    return blake2b(b"\0".join(parts), digest_size=size).digest()


def _actor_of(cls: Any, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int) -> ActorID:
    """Return a new id for an actor of a job."""
    return ActorID(ids.actor_id(os.urandom(ids.ACTOR_UNIQUE_BYTES), bytes(job_id)))


def _group_of(cls: Any, job_id: JobID) -> PlacementGroupID:
    """Return a new id for a placement group of a job."""
    return PlacementGroupID(os.urandom(ids.PLACEMENT_GROUP_UNIQUE_BYTES) + bytes(job_id))


def _for_fake_task(cls: Any, job_id: JobID) -> TaskID:
    """Return a new id for a task that never runs."""
    return TaskID(ids.task_id(os.urandom(ids.TASK_UNIQUE_BYTES), ids.no_actor(bytes(job_id))))


def _for_driver_task(cls: Any, job_id: JobID) -> TaskID:
    """Return the id of a job's driver task."""
    return TaskID(ids.task_id(b"\xff" * ids.TASK_UNIQUE_BYTES, ids.no_actor(bytes(job_id))))


def _for_actor_creation_task(cls: Any, actor_id: ActorID) -> TaskID:
    """Return the id of the task that creates an actor."""
    return TaskID(ids.task_id(b"\xff" * ids.TASK_UNIQUE_BYTES, bytes(actor_id)))


def _for_normal_task(cls: Any, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int) -> TaskID:
    """Return the id of the `parent_task_counter`-th task that a task submits."""
    unique = _made_of(
        ids.TASK_UNIQUE_BYTES, bytes(job_id), bytes(parent_task_id), b"%d" % parent_task_counter
    )
    return TaskID(ids.task_id(unique, ids.no_actor(bytes(job_id))))


def _for_actor_task(
    cls: Any, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int, actor_id: ActorID
) -> TaskID:
    """Return the id of the `parent_task_counter`-th task that a task submits to an actor."""
    unique = _made_of(
        ids.TASK_UNIQUE_BYTES, bytes(job_id), bytes(parent_task_id), b"%d" % parent_task_counter
    )
    return TaskID(ids.task_id(unique, bytes(actor_id)))


# The core uses no randomness, so the constructors that need it are added here.
for _kind in (ActorID, PlacementGroupID, UniqueID):
    setattr(_kind, "from_random", classmethod(_from_random))  # noqa: B010
setattr(ActorID, "of", classmethod(_actor_of))  # noqa: B010
setattr(PlacementGroupID, "of", classmethod(_group_of))  # noqa: B010
for _name, _way in (
    ("for_fake_task", _for_fake_task),
    ("for_driver_task", _for_driver_task),
    ("for_actor_creation_task", _for_actor_creation_task),
    ("for_normal_task", _for_normal_task),
    ("for_actor_task", _for_actor_task),
):
    setattr(TaskID, _name, classmethod(_way))
