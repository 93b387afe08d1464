"""Id classes: the public wrappers of the byte strings that the engine uses.

The engine passes raw ``bytes``; these classes wrap them where users see them. An id shows what made it:

    job id      4 bytes   counter, little-endian
    actor id   16 bytes   12 unique + job id
    task id    24 bytes    8 unique + actor id (of a plain task: 12 bytes of 0xff + job id)
    object id  28 bytes   task id + 4 bytes index, little-endian
    placement group id  18 bytes   14 unique + job id
    node, worker, function, actor class and cluster ids   28 bytes, unique

The constructors here make ids of this form. Real tasks have ids of another form: 8 bytes counter + 8 bytes of the node + 4 bytes
of the process + job id, so that a process can count up without random numbers (client/object/id_generator.py). The job is at
the same place in all ids. To find the actor of a task, use the state API: the id does not contain it.

Nil is all 0xff. Nothing here draws random numbers: callers pass in the unique bytes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

    from typing_extensions import Self

JOB_BYTES = 4
ACTOR_BYTES = 16
TASK_BYTES = 24
OBJECT_BYTES = 28
UNIQUE_BYTES = 28
PLACEMENT_GROUP_BYTES = 18

ACTOR_UNIQUE_BYTES = ACTOR_BYTES - JOB_BYTES
TASK_UNIQUE_BYTES = TASK_BYTES - ACTOR_BYTES
PLACEMENT_GROUP_UNIQUE_BYTES = PLACEMENT_GROUP_BYTES - JOB_BYTES

_NO_ACTOR = b"\xff" * ACTOR_UNIQUE_BYTES


def job_id(number: int) -> bytes:
    """Return the id of job `number` (0 to 2**32 - 2)."""
    return number.to_bytes(JOB_BYTES, "little")


def actor_id(unique: bytes, job: bytes) -> bytes:
    """Return an actor's id from 12 unique bytes and its job."""
    return unique + job


def task_id(unique: bytes, actor: bytes) -> bytes:
    """Return a task's id from 8 unique bytes and the actor it runs on (`no_actor(job)` for a plain task)."""
    return unique + actor


def no_actor(job: bytes) -> bytes:
    """Return the actor part in the id of a plain task of this job."""
    return _NO_ACTOR + job


def object_id(task: bytes, index: int) -> bytes:
    """Return the id of the result or put with number `index` (from 1) of a task."""
    return task + index.to_bytes(4, "little")


def task_of(object_: bytes) -> bytes:
    """Return the id of the task that made an object."""
    return object_[:TASK_BYTES]


def index_of(object_: bytes) -> int:
    """Return which result or put of its task an object is."""
    return int.from_bytes(object_[TASK_BYTES:], "little")


def job_of(id_: bytes) -> bytes:
    """Return the job that an actor, task, object or placement group id belongs to."""
    if len(id_) == OBJECT_BYTES:
        return id_[TASK_BYTES - JOB_BYTES : TASK_BYTES]
    return id_[-JOB_BYTES:]


class BaseID:
    """An id of a fixed number of bytes; equal only to an id of its own kind."""

    __slots__ = ("_bytes",)

    SIZE: ClassVar[int] = UNIQUE_BYTES

    def __init__(self, id: bytes) -> None:
        if not isinstance(id, bytes):
            raise TypeError(
                f"{type(self).__name__} takes bytes, got {type(id).__name__}; "
                f"for hexadecimal text use {type(self).__name__}.from_hex()"
            )
        if len(id) != self.SIZE:
            raise ValueError(f"{type(self).__name__} takes {self.SIZE} bytes, got {len(id)}")
        self._bytes = id

    @classmethod
    def from_hex(cls, hex_id: str) -> Self:
        """The id written as `hex_id`, two digits a byte. Raises ValueError when it has another length."""
        try:
            raw = bytes.fromhex(hex_id)
        except ValueError:
            raise ValueError(f"{cls.__name__}.from_hex() takes hexadecimal digits, got {hex_id!r}") from None
        if len(raw) != cls.SIZE:
            raise ValueError(f"{cls.__name__} has {cls.SIZE * 2} hexadecimal digits, got {len(hex_id)}")
        return cls(raw)

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Self:
        """Return the id with these bytes."""
        return cls(id_bytes)

    @classmethod
    def nil(cls) -> Self:
        """Return the nil id, all bytes 0xff."""
        return cls(b"\xff" * cls.SIZE)

    @classmethod
    def size(cls) -> int:
        """Length in bytes."""
        return cls.SIZE

    def is_nil(self) -> bool:
        """Return True for the nil id."""
        return self._bytes == b"\xff" * self.SIZE

    def binary(self) -> bytes:
        """Return the id's bytes."""
        return self._bytes

    def hex(self) -> str:
        """Return the id in lower-case hexadecimal, two digits a byte."""
        return self._bytes.hex()

    def __bytes__(self) -> bytes:
        return self._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._bytes == other._bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bytes.hex()})"

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self._bytes,)


class UniqueID(BaseID):
    """28 unique bytes with no further meaning."""

    __slots__ = ()


class NodeID(UniqueID):
    """One machine's stay in a cluster."""

    __slots__ = ()


class WorkerID(UniqueID):
    """One worker process, drivers included."""

    __slots__ = ()


class FunctionID(UniqueID):
    """A function as exported to the workers."""

    __slots__ = ()


class ActorClassID(UniqueID):
    """An actor class as exported to the workers."""

    __slots__ = ()


class ClusterID(UniqueID):
    """A cluster, from its first start to its shutdown."""

    __slots__ = ()


class JobID(BaseID):
    """A driver program's connection to a cluster."""

    __slots__ = ()

    SIZE = JOB_BYTES

    @classmethod
    def from_int(cls, value: int) -> Self:
        """Return the id of job number `value`."""
        return cls(job_id(value))

    def int(self) -> int:
        """Return the job's number."""
        return int.from_bytes(self._bytes, "little")


class ActorID(BaseID):
    """An actor, through all its restarts."""

    __slots__ = ()

    SIZE = ACTOR_BYTES

    @property
    def job_id(self) -> JobID:
        """The job that created the actor."""
        return JobID(self._bytes[-JOB_BYTES:])


class TaskID(BaseID):
    """A task or actor call, through all its retries."""

    __slots__ = ()

    SIZE = TASK_BYTES

    def actor_id(self) -> ActorID:
        """Return the actor part of an id made by `for_actor_task` or `for_actor_creation_task`.

        The ids of real tasks do not contain it: read `actor_id` of `ray.util.state.get_task(task_id.hex())`.
        """
        return ActorID(self._bytes[TASK_UNIQUE_BYTES:])

    def job_id(self) -> JobID:
        """Return the job that submitted the task."""
        return JobID(self._bytes[-JOB_BYTES:])


class ObjectID(BaseID):
    """A value: one result of a task, or one put."""

    __slots__ = ()

    SIZE = OBJECT_BYTES

    def task_id(self) -> TaskID:
        """Return the task that made the value."""
        return TaskID(self._bytes[:TASK_BYTES])

    def job_id(self) -> JobID:
        """Return the job whose task made the value."""
        return JobID(job_of(self._bytes))

    def index(self) -> int:
        """Return which result or put of its task the value is."""
        return index_of(self._bytes)


class PlacementGroupID(BaseID):
    """A placement group."""

    __slots__ = ()

    SIZE = PLACEMENT_GROUP_BYTES

    def job_id(self) -> JobID:
        """Return the job that created the group."""
        return JobID(self._bytes[-JOB_BYTES:])
