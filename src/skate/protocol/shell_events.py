"""Events that the shell around a node gives its core: who has joined or left, what processes, disk and memory have done.

An event is a tuple like a message. It goes through `NodeCore.step` under the client id SHELL and never travels: the core refuses
it from anybody else. So a log of (client id, message or event, time) has everything that a node was ever given.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from skate.protocol.fields import Death, ObjectId
from skate.protocol.record import Record

DRIVER_JOINED: Final = 100
DRIVER_LEFT: Final = 101
JOB_BEGUN: Final = 102
JOB_ENDED: Final = 103
VIEWS_CLOSED: Final = 104
WORKER_STARTED: Final = 105
WORKER_LOST: Final = 106
STOPPED_FOUND: Final = 107
PEER_JOINED: Final = 108
PEER_LEFT: Final = 109
PULL_DONE: Final = 110
REMOTE_READ: Final = 111
SPILL_DONE: Final = 112
RESTORE_DONE: Final = 113
RESERVE_DONE: Final = 114
MEMORY_READING: Final = 115
MEMORY_IDLE: Final = 116
TRIM_DUE: Final = 117
OUTPUT_READ: Final = 118
STOP_WANTED: Final = 140
RECORDS_STORED: Final = 141
RECORDS_REFUSED: Final = 142

# -- clients


class DriverJoined(Record):
    """A program has joined; the one in the node's own process is client 0. Answered by `Admitted`."""

    tag: Literal[100]
    job: str
    namespace: str
    in_process: bool


class DriverLeft(Record):
    """A program of `DriverJoined` has ended."""

    tag: Literal[101]
    cid: int


class JobBegun(Record):
    """A driver in a process of its own begins a job. Answered by `Admitted`.

    Other nodes get the settings of its workers, packed: `view` on any machine, `local_view` as well on this one.
    """

    tag: Literal[102]
    job: str
    namespace: str
    view: bytes
    local_view: bytes


class JobEnded(Record):
    """The driver of a job has ended; `reason` is for what ends with it.

    Values that its program still has in view stay until `ViewsClosed`, held by a client of their own, whose id is the answer.
    `pid` is that of the program, or 0 if it is not to be listed; `left` says that it ended its session itself.
    """

    tag: Literal[103]
    cid: int
    viewed: tuple[ObjectId, ...]
    reason: str
    pid: int
    left: bool


class ViewsClosed(Record):
    """The program that had values in view has ended; `cid` is the client that held them."""

    tag: Literal[104]
    cid: int


# -- worker processes


class WorkerStarted(Record):
    """A worker process was forked."""

    tag: Literal[105]
    cid: int
    pid: int


class WorkerLost(Record):
    """A worker process has ended, or could not be started; `error` says why if the shell knows, `details` are more lines.

    The first `begun` of the tasks that it was sent were begun, and those of the numbers `beyond`. `oom_peak` is -1, or the most
    bytes that the process had mapped if the kernel ended it because memory ran out.
    """

    tag: Literal[106]
    cid: int
    reason: str
    begun: int
    beyond: tuple[int, ...]
    error: Death | None
    details: str
    oom_peak: int


class StoppedFound(Record):
    """Answer `FindStopped` with the processes of workers that a signal has stopped."""

    tag: Literal[107]
    cid: int
    number: int
    any_id: bytes
    pids: tuple[int, ...]


class OutputRead(Record):
    """Answer `ReadOutput` with one row for each stream of a worker: pid, stream ("out" or "err"), and the lines if one pid was
    requested.
    """

    tag: Literal[118]
    key: bytes
    rows: tuple[dict[str, Any], ...]


# -- other nodes


class PeerJoined(Record):
    """Another node has joined; `info` is what it says of itself. Answered by `Admitted`."""

    tag: Literal[108]
    info: dict[str, Any]


class PeerLeft(Record):
    """Another node was lost; `reason` continues the sentence "node x ..."."""

    tag: Literal[109]
    cid: int
    reason: str


class PullDone(Record):
    """Answer `Pull`: a value from another node is in memory, or is not available."""

    tag: Literal[110]
    offset: int
    success: bool


class RemoteRead(Record):
    """Another node reads a value; `ServeReads` follows if it is on disk."""

    tag: Literal[111]
    oid: ObjectId


# -- the disk


class SpillDone(Record):
    """Answer `Spill`: a copy is on disk, or there was no room for it."""

    tag: Literal[112]
    number: int
    success: bool


class RestoreDone(Record):
    """Answer `Restore`: a value is in memory again; else `problem` says why not."""

    tag: Literal[113]
    number: int
    problem: str


class ReserveDone(Record):
    """Answer `Reserve`: blocks of the overflow file are allocated; else `problem` says why not."""

    tag: Literal[114]
    number: int
    problem: str


# -- memory


class MemoryReading(Record):
    """Memory in use and its limit, in bytes, and what sets that limit; bytes that each worker holds, and others by name."""

    tag: Literal[115]
    use: int
    limit: int
    source: str
    resident: dict[int, int]
    others: tuple[tuple[str, int], ...]


class MemoryIdle(Record):
    """No worker has work, so memory is not read for a while."""

    tag: Literal[116]


class TrimDue(Record):
    """Memory of the arena that has lain free since the last time may go back to the system: `ReleasePages` follows."""

    tag: Literal[117]
    limit: int


# -- the registry


class RecordsStored(Record):
    """Answer `AppendRecords`: the records up to this number are stored for good."""

    tag: Literal[141]
    number: int


class RecordsRefused(Record):
    """Answer `AppendRecords`: the records of this number cannot be stored, and are not; `problem` says why not."""

    tag: Literal[142]
    number: int
    problem: str


# -- the end


class StopWanted(Record):
    """This node is to stop within so many seconds: `LeaveCluster` follows when nothing runs here any more, or then."""

    tag: Literal[140]
    seconds: int


DiskAnswer: TypeAlias = SpillDone | RestoreDone | ReserveDone
#: Events by which a client joins: the first effect is `Admitted`.
JoinEvent: TypeAlias = DriverJoined | JobBegun | JobEnded | PeerJoined
ShellEvent: TypeAlias = (
    JoinEvent
    | DriverLeft
    | ViewsClosed
    | WorkerStarted
    | WorkerLost
    | StoppedFound
    | OutputRead
    | PeerLeft
    | PullDone
    | RemoteRead
    | DiskAnswer
    | MemoryReading
    | MemoryIdle
    | TrimDue
    | RecordsStored
    | RecordsRefused
    | StopWanted
)
