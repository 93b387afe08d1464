"""Effects that the core requests from the shell around it, and the disk's answers to some of them.

The core appends pairs to `NodeCore.effects`: (client id, message) for a message to a process, (SHELL, effect) for one of these.
"""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from skate.protocol.record import Record

# -- worker processes


class Spawn(Record):
    """Start a worker process, in a runtime environment (as JSON) if there is one."""

    cid: int
    environment: str | None


class KillWorker(Record):
    """End a worker process at once."""

    cid: int


class EndTask(Record):
    """End a worker process if the last task that it has begun has this number."""

    cid: int
    sequence: int


class FindStopped(Record):
    """Find the workers stopped by a signal; `Reasons.looked` receives the answer to request `number` of `cid`."""

    cid: int
    number: int
    any_id: bytes


class ForgetJob(Record):
    """Release the resources of a job of which nothing is left."""

    job: str


# -- other nodes


class Pull(Record):
    """Fetch a value from another node into memory; `NodeCore.pulled` receives the outcome."""

    cid: int
    oid: bytes
    offset: int
    size: int


class ServeReads(Record):
    """Answer the other nodes that read a value: it is in memory again, or cannot be restored."""

    oid: bytes


# -- the disk


class Spill(Record):
    """Copy a value from memory to a place on disk, or to the storage outside if that is -1. Answered by `Spilled`."""

    number: int
    oid: bytes
    offset: int
    size: int
    place: int


class Restore(Record):
    """Copy a value back into memory. Answered by `Restored`."""

    number: int
    place: int
    offset: int
    size: int


class Reserve(Record):
    """Allocate blocks of the overflow file. Answered by `Reserved`."""

    number: int
    place: int
    size: int


class FreeBlocks(Record):
    """Return blocks of the overflow file to the disk."""

    place: int
    size: int


class DropCopy(Record):
    """Delete a copy from the storage outside."""

    number: int


DiskEffect: TypeAlias = Spill | Restore | Reserve | FreeBlocks | DropCopy
ShellEffect: TypeAlias = (
    Spawn | KillWorker | EndTask | FindStopped | ForgetJob | Pull | ServeReads | DiskEffect
)
#: For `isinstance`.
DISK_EFFECTS = (Spill, Restore, Reserve, FreeBlocks, DropCopy)


# -- answers of the disk


class Spilled(Record):
    """Report that a copy is on disk, or that there was no room for it."""

    number: int
    there: bool


class Restored(Record):
    """Report that a value is in memory again; otherwise `problem` has the reason."""

    number: int
    problem: str


class Reserved(Record):
    """Report that blocks of the overflow file are allocated; otherwise `problem` has the reason."""

    number: int
    problem: str


DiskAnswer: TypeAlias = Spilled | Restored | Reserved


def unknown_effect(effect: NoReturn) -> NoReturn:
    """Reject an effect that a shell does not handle; mypy verifies that there is none."""
    raise AssertionError(f"no shell handles the effect {effect!r}")
