"""Records of the core as keys and values of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgpack

from skate.core.recovery.records import ENDED, KEY_FIELDS, compacted, pack, unpack
from skate.node.registry.store import Change
from skate.protocol import registry_records as rr
from skate.protocol.registry_records import RegistryRecord


def changes_of(records: Iterable[RegistryRecord]) -> Iterator[Change]:
    """Yield the changes of a store that records mean."""
    for record in records:
        tag = record[0]
        fields = record[1 : 1 + KEY_FIELDS.get(tag, 1)]
        for ended in ENDED.get(tag, ()):
            yield Change(_key(ended, fields), None)
        if tag not in ENDED or tag == rr.ACTOR_GONE:  # the creator of an actor may not know of its end
            yield Change(_key(tag, fields), pack(record))


def _key(tag: int, fields: tuple[object, ...]) -> bytes:
    key: bytes = msgpack.packb((tag, *fields))
    return key


def records_in(stored: Mapping[bytes, bytes]) -> tuple[list[RegistryRecord], list[Change]]:
    """Return the records of a store, and the removal of those that mean nothing any more.

    Raises:
        UnknownRecord: another version has written one of them.
    """
    found = {key: unpack(value) for key, value in stored.items()}
    kept = compacted(found.values())
    useful = set(map(id, kept))
    return kept, [Change(key, None) for key, record in found.items() if id(record) not in useful]
