"""Effects that the core requests from the shell around it. Some are answered by events (`protocol/shell_events.py`).

The core appends pairs to `NodeCore.effects`: (client id, message) for a message to a process, (SHELL, effect) for one of these.
"""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from skate.protocol.fields import Where
from skate.protocol.record import Record
from skate.protocol.registry_records import RegistryRecord

# -- clients


class Admitted(Record):
    """Answer an event by which a client joins: this is its id. The first effect; `core.node.admit_client` takes it."""

    cid: int


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
    """Find the workers stopped by a signal, for request `number` of `cid`. Answered by `StoppedFound`."""

    cid: int
    number: int
    any_id: bytes


class AdoptJob(Record):
    """Prepare for the workers of a job whose driver is at another node, with the settings that came with it."""

    job: str
    home: int
    view: bytes
    local_view: bytes


class CloseJob(Record):
    """The workers of a job whose driver has ended are ending; `home` is the node of the driver, or 0 if that is this one.

    `nodes` are the nodes that this one has sent work of the job; they report the end of its output.
    """

    job: str
    home: int
    nodes: tuple[int, ...]


class PrintOutput(Record):
    """Pass output of another node's workers to the job's driver."""

    job: str
    is_error: bool
    text: str


class PauseOutput(Record):
    """Stop reading the output of a job's workers, or resume."""

    job: str
    paused: bool


class EndOutput(Record):
    """Another node has no more output of a job."""

    job: str
    cid: int


class ReadOutput(Record):
    """Read the last output of workers for survey `key`, of those with certain columns. Answered by `OutputRead`."""

    key: bytes
    where: Where


class ForgetJob(Record):
    """Release the resources of a job of which nothing is left."""

    job: str


# -- other nodes


class Pull(Record):
    """Fetch a value from another node into memory. Answered by `PullDone`.

    The source may be receiving the value itself; it makes this node wait only if its own read has a lower `rank`.
    """

    cid: int
    oid: bytes
    offset: int
    size: int
    rank: int


class ServeReads(Record):
    """Answer the other nodes that read a value: it is in memory again, or cannot be restored."""

    oid: bytes


# -- the disk


class Spill(Record):
    """Copy a value from memory to a place on disk, or to the storage outside if that is -1. Answered by `SpillDone`."""

    number: int
    oid: bytes
    offset: int
    size: int
    place: int


class Restore(Record):
    """Copy a value back into memory. Answered by `RestoreDone`."""

    number: int
    place: int
    offset: int
    size: int


class Reserve(Record):
    """Allocate blocks of the overflow file. Answered by `ReserveDone`."""

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


# -- memory


class ReleasePages(Record):
    """Give free memory of the arena back to the system: (offset, size) of each range."""

    ranges: tuple[tuple[int, int], ...]


# -- the registry


class AppendRecords(Record):
    """Store records of the registry, in order and for good. Answered by `RecordsStored` or `RecordsRefused`, also for several
    numbers at once; an effect that depends on the records follows the answer."""

    number: int
    records: tuple[RegistryRecord, ...]


# -- the end


class LeaveCluster(Record):
    """End this node; the reason continues the sentence "node x ...", for the others."""

    reason: str


DiskEffect: TypeAlias = Spill | Restore | Reserve | FreeBlocks | DropCopy
ShellEffect: TypeAlias = (
    Admitted
    | Spawn
    | KillWorker
    | EndTask
    | FindStopped
    | AdoptJob
    | CloseJob
    | PrintOutput
    | PauseOutput
    | EndOutput
    | ReadOutput
    | ForgetJob
    | Pull
    | ServeReads
    | DiskEffect
    | ReleasePages
    | AppendRecords
    | LeaveCluster
)
#: For `isinstance`.
DISK_EFFECTS = (Spill, Restore, Reserve, FreeBlocks, DropCopy)


def unknown_effect(effect: NoReturn) -> NoReturn:
    """Reject an effect that a shell does not handle; mypy verifies that there is none."""
    raise AssertionError(f"no shell handles the effect {effect!r}")
