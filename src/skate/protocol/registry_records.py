"""Records of the registry of a head: what another head needs to continue after it.

A record is a tuple like a message, so it packs with msgpack. The number in front says what it is, the fields up to the next
record with the same key what is so now. The head gives records to its shell (`AppendRecords`), which stores them in order.
`core/recovery/records.py` packs and reads them.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from skate.protocol.fields import (
    ActorFields,
    ActorId,
    Bundle,
    Count,
    Dependencies,
    GroupFields,
    GroupId,
    Held,
    Key,
    Parent,
    TemplateFields,
)
from skate.protocol.record import Record

EPOCH: Final = 200
MEMBER: Final = 201
MEMBER_GONE: Final = 202
FUNCTION: Final = 203
TEMPLATE: Final = 204
ACTOR: Final = 205
ACTOR_STARTED: Final = 206
ACTOR_GONE: Final = 207
GROUP: Final = 208
GROUP_GONE: Final = 209
JOB: Final = 210
JOB_GONE: Final = 211
ENTRY: Final = 212
ENTRY_GONE: Final = 213
DRAIN: Final = 214
ANSWER: Final = 215


class EpochRecord(Record):
    """A head has begun; its shell writes this before it listens, one more than the last."""

    tag: Literal[200]
    epoch: Count


class MemberRecord(Record):
    """A node has joined; its node id is never used again, and its name is its address."""

    tag: Literal[201]
    node_id: bytes
    name: str


class MemberGone(Record):
    """A node has left, or was lost."""

    tag: Literal[202]
    node_id: bytes


class FunctionRecord(Record):
    """A definition that the template of a recorded actor names."""

    tag: Literal[203]
    key: Key
    blob: bytes
    held: Held


class TemplateRecord(Record):
    """A class with its options, of a recorded actor."""

    tag: Literal[204]
    key: Key
    fields: TemplateFields


class ActorRecord(Record):
    """An actor: its creation, the node of its creator, and the job and namespace of that."""

    tag: Literal[205]
    actor_id: ActorId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent
    life: ActorFields
    node_id: bytes
    job: str
    namespace: str


class ActorStarted(Record):
    """An actor has used up so many restarts, and is alive or about to be."""

    tag: Literal[206]
    actor_id: ActorId
    restarts: Count


class ActorGone(Record):
    """An actor has ended for good."""

    tag: Literal[207]
    actor_id: ActorId


class GroupRecord(Record):
    """A placement group, and the node of its owner."""

    tag: Literal[208]
    group_id: GroupId
    bundles: tuple[Bundle, ...]
    fields: GroupFields
    node_id: bytes


class GroupGone(Record):
    """A placement group was removed."""

    tag: Literal[209]
    group_id: GroupId


class JobRecord(Record):
    """A job, the node and the client id of its driver there, and the settings of its workers as in JOB."""

    tag: Literal[210]
    job: str
    namespace: str
    node_id: bytes
    driver: int
    view: bytes
    local_view: bytes


class JobGone(Record):
    """Nothing of a job is left."""

    tag: Literal[211]
    job: str


class EntryRecord(Record):
    """An entry of the key-value store."""

    tag: Literal[212]
    namespace: bytes
    key: bytes
    value: bytes


class EntryGone(Record):
    """An entry of the key-value store was deleted."""

    tag: Literal[213]
    namespace: bytes
    key: bytes


class DrainRecord(Record):
    """A node drains, for so many seconds at most unless that is negative; without a reason, it does not drain after all."""

    tag: Literal[214]
    node_id: bytes
    reason: str
    seconds: int


class AnswerRecord(Record):
    """The answer to a question of a node that has changed something; a question with the same slot replaces it."""

    tag: Literal[215]
    node_id: bytes
    slot: Count
    number: Count
    value: Any


RegistryRecord: TypeAlias = (
    EpochRecord
    | MemberRecord
    | MemberGone
    | FunctionRecord
    | TemplateRecord
    | ActorRecord
    | ActorStarted
    | ActorGone
    | GroupRecord
    | GroupGone
    | JobRecord
    | JobGone
    | EntryRecord
    | EntryGone
    | DrainRecord
    | AnswerRecord
)
