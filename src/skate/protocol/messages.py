"""The messages between processes and a node, as plain tuples: their numbers, their records, kinds of value.

A message is a tuple whose first field is one of these numbers. Its contents are types that msgpack supports
(integers, bytes, text, tuples, dicts), so the same tuple is a direct call in an embedded driver, a frame on a
Unix socket and an event in a simulation. Each has a record of the corresponding name, which a sender fills in
(`m.Kill(m.KILL, actor_id, True)`) and a receiver unpacks (`_, actor_id, no_restart = message`). A message
from a socket is a tuple without names, so its fields are only read by unpacking. docs/protocol.md lists them
all.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from skate.protocol.client_messages import (
    Allocate,
    Call,
    CallTuple,
    Cancel,
    Consumed,
    CreateActor,
    Escape,
    Fetch,
    Forget,
    Free,
    FreeTuple,
    FromClient,
    Function,
    Hold,
    Kill,
    Publish,
    Put,
    Recalled,
    Request,
    Still,
    Submit,
    SubmitTuple,
    Surveyed,
    Template,
    WaitOver,
    Waits,
    Watch,
)
from skate.protocol.driver_messages import Attach, Leave, Left, Printed, Refused, Shown, Welcome
from skate.protocol.fields import ArgumentValues, LeaseFields
from skate.protocol.node_messages import (
    Confirm,
    Deadlock,
    Freed,
    Recall,
    Reply,
    Result,
    ResultTuple,
    Stream,
    StreamEnd,
    StreamTuple,
    Survey,
    ToClient,
    Value,
)
from skate.protocol.peer_messages import (
    ActorAt,
    ActorReport,
    Answered,
    BetweenNodes,
    Copy,
    Drain,
    Finished,
    Forward,
    Group,
    HeldBundles,
    Job,
    JobClosed,
    JobOver,
    JobPaused,
    JobPrinted,
    JobQuiet,
    Leaving,
    Registered,
    Report,
    Reserve,
    Reserved,
    Retried,
    Seek,
    SurveyEnd,
    Unreserve,
)
from skate.protocol.values import (
    ARENA,
    CANCELLED,
    ERROR,
    FAILED,
    INLINE,
    OK,
    PARTIAL,
    PENDING,
    REMOTE,
    SHELL,
    SPILLED,
    UNKNOWN,
)
from skate.protocol.worker_messages import (
    Ack,
    Blocked,
    Construct,
    Done,
    DoneTuple,
    Execute,
    Exit,
    Exiting,
    FromWorker,
    Invoke,
    Item,
    ItemTuple,
    Lease,
    Ready,
    Returned,
    RunTuple,
    StopTask,
    TakeBack,
    ToWorker,
    Unblocked,
    Work,
)

# every client -> node
FUNCTION: Final = 1
TEMPLATE: Final = 2
SUBMIT: Final = 3
CREATE_ACTOR: Final = 4
CALL: Final = 5
CANCEL: Final = 6
KILL: Final = 7
FORGET: Final = 8
ESCAPE: Final = 10
PUBLISH: Final = 11
HOLD: Final = 12
FREE: Final = 13
FETCH: Final = 14
ALLOCATE: Final = 15
PUT: Final = 16
CONSUMED: Final = 17
RECALLED: Final = 18
WATCH: Final = 19
REQUEST: Final = 20
SURVEYED: Final = 24
WAITS: Final = 37
WAIT_OVER: Final = 38
STILL: Final = 39

# worker -> node (30 to 36), node -> worker
READY: Final = 30
DONE: Final = 31
ITEM: Final = 32
RETURNED: Final = 33
BLOCKED: Final = 34
UNBLOCKED: Final = 35
EXITING: Final = 36
EXECUTE: Final = 50
CONSTRUCT: Final = 51
INVOKE: Final = 52
LEASE: Final = 53
TAKE_BACK: Final = 54
STOP_TASK: Final = 55
EXIT: Final = 56
ACK: Final = 57

# node -> client
RESULT: Final = 40
VALUE: Final = 41
REPLY: Final = 42
STREAM: Final = 43
STREAM_END: Final = 44
CONFIRM: Final = 46
DEADLOCK: Final = 47
SURVEY: Final = 48
RECALL: Final = 49
FREED: Final = 58

# node -> node
FORWARD: Final = 60
FINISHED: Final = 61
REPORT: Final = 62
SEEK: Final = 63
ACTOR_AT: Final = 64
ACTOR_REPORT: Final = 65
RESERVE: Final = 66
RESERVED: Final = 67
UNRESERVE: Final = 68
GROUP: Final = 69
RETRIED: Final = 70
COPY: Final = 71
SURVEY_END: Final = 72
JOB: Final = 73
JOB_OVER: Final = 74
JOB_CLOSED: Final = 75
JOB_PRINTED: Final = 76
JOB_PAUSED: Final = 77
JOB_QUIET: Final = 78
LEAVING: Final = 79
DRAIN: Final = 94
HELD_BUNDLES: Final = 95
REGISTERED: Final = 96
ANSWERED: Final = 97

# a driver in a separate process <-> its node
ATTACH: Final = 80
WELCOME: Final = 81
REFUSED: Final = 82
PRINTED: Final = 83
LEAVE: Final = 84
SHOWN: Final = 85
LEFT: Final = 86

#: Messages of a node; to its peers it is itself a client.
OfNode: TypeAlias = ToClient | ToWorker | BetweenNodes | FromClient
#: Messages of a process to its node.
ToNode: TypeAlias = FromClient | FromWorker | Shown | Leave

__all__ = [
    "OfNode", "ToNode", "Work", "ArgumentValues", "LeaseFields", "FromClient", "FromWorker", "ToWorker", "ToClient",
    "BetweenNodes",
    "ACK", "ACTOR_AT", "ACTOR_REPORT", "ALLOCATE", "ANSWERED", "ARENA", "ATTACH", "Ack", "ActorAt", "ActorReport", "Allocate",
    "Answered",
    "Attach", "BLOCKED", "Blocked", "CALL", "CANCEL", "CANCELLED", "CONFIRM", "CONSTRUCT", "CONSUMED", "COPY",
    "CREATE_ACTOR", "Call", "CallTuple", "Cancel", "Confirm", "Construct", "Consumed", "Copy", "CreateActor",
    "DEADLOCK", "DONE", "Deadlock", "Done", "DoneTuple", "DRAIN", "Drain", "ERROR", "ESCAPE", "EXECUTE", "EXIT", "EXITING",
    "Escape", "Execute", "Exit", "Exiting", "FAILED", "FETCH", "FINISHED", "FORGET", "FORWARD", "FREE", "FREED", "FUNCTION",
    "Fetch", "Finished", "Forget", "Forward", "Free", "FreeTuple", "Freed", "Function", "GROUP", "Group", "HOLD",
    "HELD_BUNDLES", "HeldBundles",
    "Hold", "INLINE", "INVOKE", "ITEM", "Invoke", "Item", "ItemTuple", "JOB", "JOB_CLOSED", "JOB_OVER", "JOB_PAUSED",
    "JOB_PRINTED", "JOB_QUIET", "Job", "JobClosed", "JobOver", "JobPaused", "JobPrinted", "JobQuiet",
    "KILL", "Kill", "LEASE", "LEAVE", "LEAVING", "LEFT", "Leaving",
    "Lease", "Leave", "Left", "OK", "PARTIAL", "PENDING", "PRINTED", "PUBLISH", "PUT", "Printed", "Publish", "Put",
    "READY", "RECALL", "RECALLED", "REFUSED", "REGISTERED", "REMOTE",
    "Registered", "REPLY", "REPORT", "REQUEST", "RESERVE", "RESERVED",
    "RESULT", "RETRIED", "RETURNED", "Ready", "Recall", "Recalled", "Refused", "Reply", "Report", "Request",
    "Reserve", "Reserved", "Result", "ResultTuple", "Retried", "Returned", "RunTuple", "SEEK", "SHELL", "SHOWN",
    "SPILLED", "STILL", "STOP_TASK", "STREAM", "STREAM_END", "SUBMIT", "SURVEY", "SURVEYED", "SURVEY_END", "Seek",
    "Shown", "Still", "StopTask", "Stream", "StreamEnd", "StreamTuple", "Submit", "SubmitTuple", "Survey",
    "SurveyEnd", "Surveyed", "TAKE_BACK", "TEMPLATE", "TakeBack", "Template", "UNBLOCKED", "UNKNOWN", "UNRESERVE",
    "Unblocked", "Unreserve", "VALUE", "Value", "WAITS", "WAIT_OVER", "WATCH", "WELCOME", "WaitOver", "Waits",
    "Watch", "Welcome",
]  # fmt: skip
