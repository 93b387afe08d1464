"""Records of the registry as bytes, and the least list of them that says the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgpack

from skate.protocol import registry_records as rr
from skate.protocol.registry_records import RegistryRecord

RECORDS: Final[dict[int, type]] = {
    rr.EPOCH: rr.EpochRecord,
    rr.MEMBER: rr.MemberRecord,
    rr.MEMBER_GONE: rr.MemberGone,
    rr.FUNCTION: rr.FunctionRecord,
    rr.TEMPLATE: rr.TemplateRecord,
    rr.ACTOR: rr.ActorRecord,
    rr.ACTOR_STARTED: rr.ActorStarted,
    rr.ACTOR_GONE: rr.ActorGone,
    rr.GROUP: rr.GroupRecord,
    rr.GROUP_GONE: rr.GroupGone,
    rr.JOB: rr.JobRecord,
    rr.JOB_GONE: rr.JobGone,
    rr.ENTRY: rr.EntryRecord,
    rr.ENTRY_GONE: rr.EntryGone,
    rr.DRAIN: rr.DrainRecord,
    rr.ANSWER: rr.AnswerRecord,
}
#: What a record ends, by its number: the numbers of the records with the same key.
ENDED: Final[dict[int, tuple[int, ...]]] = {
    rr.MEMBER_GONE: (rr.MEMBER, rr.DRAIN),
    rr.ACTOR_GONE: (rr.ACTOR, rr.ACTOR_STARTED),
    rr.GROUP_GONE: (rr.GROUP,),
    rr.JOB_GONE: (rr.JOB,),
    rr.ENTRY_GONE: (rr.ENTRY,),
}
#: The last actors that have ended which are remembered.
GONE_MAX: Final = 1000
#: How many fields after the number are the key, where it is not one.
KEY_FIELDS: Final[dict[int, int]] = {rr.EPOCH: 0, rr.ENTRY: 2, rr.ENTRY_GONE: 2, rr.ANSWER: 2}


class UnknownRecord(ValueError):
    """A stored record that this version cannot read."""


def pack(record: RegistryRecord) -> bytes:
    """Return a record as bytes.

    Args:
        record: a record of `protocol/registry_records.py`.
    Returns:
        Its msgpack form, which `unpack` reads.
    """
    packed: bytes = msgpack.packb(tuple(record))
    return packed


def unpack(packed: bytes) -> RegistryRecord:
    """Return the record that `pack` has made into bytes.

    Args:
        packed: bytes of one record.
    Returns:
        The record.
    Raises:
        UnknownRecord: if another version has written it, or if it is damaged.
    """
    try:
        values: Any = msgpack.unpackb(packed, use_list=False, strict_map_key=False)
        record: RegistryRecord = RECORDS[values[0]](*values)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UnknownRecord(
            f"a record of the registry cannot be read: {packed[:40]!r}, {len(packed)} bytes ({error!r}); "
            "another version of Skate may have written it, so start the head with that one or with an empty --state-dir"
        ) from error
    return record


def compacted(records: Iterable[RegistryRecord]) -> list[RegistryRecord]:
    """Return the least list of records with the same meaning, in the order of their first appearance.

    Only for a head that begins: one that runs names definitions that it has recorded before.

    Args:
        records: all records so far, oldest first.
    Returns:
        The last record of each key; of what has ended only the last GONE_MAX actors, and neither definitions that no actor
        names nor answers to nodes that are gone.
    """
    last: dict[tuple[int, tuple[Any, ...]], RegistryRecord] = {}
    for record in records:
        tag = record[0]
        key = tuple(record[1 : 1 + KEY_FIELDS.get(tag, 1)])
        if tag in ENDED:
            for begun in ENDED[tag]:
                last.pop((begun, key), None)
            if tag == rr.ACTOR_GONE:  # its creator may not know
                last[tag, key] = record
        elif tag != rr.ACTOR_STARTED or (rr.ACTOR, key) in last:
            last[tag, key] = record
    gone = [each for each in last if each[0] == rr.ACTOR_GONE]
    for each in gone[:-GONE_MAX]:
        del last[each]
    used = {record.template for record in last.values() if isinstance(record, rr.ActorRecord)}
    templates = [each for each in last.values() if isinstance(each, rr.TemplateRecord) and each.key in used]
    used |= {each.fields["function"] for each in templates}
    used |= {record.node_id for record in last.values() if isinstance(record, rr.MemberRecord)}
    return [record for record in last.values() if _names(record) in used or _names(record) is None]


def _names(record: RegistryRecord) -> bytes | None:
    """Return the key of a definition, or the node of an answer; None for a record that stands by itself."""
    match record:
        case rr.FunctionRecord() | rr.TemplateRecord():
            return record.key
        case rr.AnswerRecord():
            return record.node_id
    return None


def epoch_of(records: Iterable[RegistryRecord]) -> int:
    """Return the epoch of the last head.

    Args:
        records: all records so far.
    Returns:
        The epoch; 0 if there was no head.
    """
    return max((record.epoch for record in records if isinstance(record, rr.EpochRecord)), default=0)
