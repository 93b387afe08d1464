"""The words that processes say to a node and hear from it, as plain tuples.

A message is a tuple whose first field is one of these numbers; the comment gives the rest. Everything in it
is what msgpack carries (integers, bytes, text, tuples, dicts), so the same tuple is a direct call in an embedded
driver, a frame on a Unix socket and an event in a simulation.

A *value* is (kind, payload): see INLINE, ARENA, ERROR below. An *error* payload is (class name, fields).
"""

from __future__ import annotations

# kinds of value
PENDING = 0  # not there yet
INLINE = 1  # payload: bytes
ARENA = 2  # payload: (offset, size) in the arena of this node
ERROR = 3  # payload: (exception class name, fields)
UNKNOWN = 4  # a borrowed ref: ask the node
REMOTE = 5  # it is there, but on another node, or not in memory; payload: size in bytes
SPILLED = 6  # on disk, as a node knows it; its clients call this REMOTE

#: What stands for the shell of a node among its clients.
SHELL = -1

# client -> node: tasks
FUNCTION = 1  # key, blob, held ids
TEMPLATE = 2  # key, fields
SUBMIT = 3  # task_id, template_key, args, deps, held ids, parent task id
CREATE_ACTOR = 4  # actor_id, template_key, args, deps, held ids, parent task id
CALL = 5  # task_id, actor_id, template_key, args, deps, held ids, parent task id
CANCEL = 6  # task_id, force, recursive
KILL = 7  # actor_id, no_restart
FORGET = 8  # keys of functions and templates that the sender will not name again; also node -> worker

# client -> node: objects
ESCAPE = 10  # oid: known here, its value is still to come
PUBLISH = 11  # oid, kind, payload, held ids
HOLD = 12  # oid or actor_id: one more grant to the sender
FREE = 13  # oid or actor_id, grants given back (0: what was allocated will not be written)
FETCH = 14  # oid: send the value when it is there
ALLOCATE = 15  # request number, oid, size
PUT = 16  # oid, size, held ids: what was allocated is written
CONSUMED = 17  # task_id, items taken from a stream
RECALLED = (
    18  # number, oid, grants of the sender if it has forgotten the place, else -1: the answer to RECALL
)
WATCH = 19  # oid: say when it is freed

# client -> node: questions
REQUEST = 20  # request number, verb, arguments

SURVEYED = 24  # key, what this process holds: the answer to SURVEY

# worker -> node
READY = 30  # pid
DONE = 31  # task_id, status, returns, retriable
ITEM = 32  # task_id, index, kind, payload, held ids: one value of a stream
RETURNED = 33  # task ids not begun
BLOCKED = 34  # task_id: waits in get
UNBLOCKED = 35  # task_id
EXITING = 36  # actor leaves by its own will: reason

# client -> node: waits that last
WAITS = 37  # number, ids (24 bytes: of a stream's task), how many of them, task id or nothing, facts
WAIT_OVER = 38  # number
STILL = 39  # round: the waits said since then are those that there are

# node -> client
RESULT = 40  # oid, kind, payload, held ids, kept
VALUE = 41  # oid, kind, payload, held ids
REPLY = 42  # request number, ok, value
STREAM = 43  # task_id, index, kind, payload, held ids, kept
STREAM_END = 44  # task_id, count
GONE = 45  # actor_id, reason: calls from now on fail without asking
CONFIRM = 46  # round: say again what is waited for
DEADLOCK = 47  # number of the wait, text: it never ends

SURVEY = 48  # key, kinds: tell what you hold
RECALL = 49  # number, oid: forget where the value is, unless it is being looked at
FREED = 58  # oid: what was watched is not held by anybody any more

# node -> worker
EXECUTE = 50  # task_id, template_key, args, deps, attempt
CONSTRUCT = 51  # actor_id, template_key, args, deps, fields
INVOKE = 52  # task_id, template_key, args, deps, attempt
LEASE = 53  # what the worker runs with: resources, gpu ids, placement group
TAKE_BACK = 54  # give back what is not begun
STOP_TASK = 55  # task_id, force: cancel it; with force by leaving, if it runs
EXIT = 56  # leave; graceful or not
ACK = 57  # task_id, items consumed so far

# node -> node, beside the words of clients and nodes: a node is a client of its peers
FORWARD = 60  # kind of task, task_id, template_key, args, deps, held ids, parent task id, fields
FINISHED = 61  # task_id, microseconds or -1, error or None: nothing more is said of a task that was forwarded
RETRIED = 70  # task_id, attempt, retries left: a task that was forwarded runs again where it is
COPY = 71  # oid, word (core/second_copies.py): of a value that was read on a third node and stays there
REPORT = 62  # resources free, those of bundles, tasks taken in from the receiver so far
SEEK = 63  # actor_id: say where it is, now and when that changes
ACTOR_AT = 64  # actor_id, state, node id, fields
ACTOR_STATE = 65  # actor_id, state, restarts, pid, death: of an actor that the head has put on the sender
RESERVE = 66  # group_id, index, resources: set a bundle apart
RESERVED = 67  # group_id, index, whether it was done
UNRESERVE = 68  # group_id, index
GROUP = 69  # group_id, fields: a placement group as the head knows it

# a driver in a process of its own <-> its node
ATTACH = 80  # what it is and wants
WELCOME = 81  # fields; with it come the descriptors of the memory
REFUSED = 82  # text
PRINTED = 83  # is_error, text: of workers of its job; back: how many characters of it are printed
LEAVE = 84  # the driver goes: ids of values still in view; back, when all that was printed is sent. From the node alone: why

# status of DONE
OK = 0
FAILED = 1
CANCELLED = 2
PARTIAL = 3  # failed, but the first results were made: returns are (error, those)
