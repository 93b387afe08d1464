"""Records as rows of a store: a store keeps what `compacted` keeps of the whole history."""

from __future__ import annotations

import random

from skate.core.recovery.records import compacted
from skate.node.registry.record_keys import changes_of, records_in
from skate.protocol import registry_records as rr
from skate.protocol.registry_records import RegistryRecord


def history(seed: int) -> list[RegistryRecord]:
    """Return records of a cluster where members, entries and actors come and go."""
    chance = random.Random(seed)
    found: list[RegistryRecord] = [rr.EpochRecord(rr.EPOCH, 1)]
    for number in range(60):
        node = b"node%d" % chance.randrange(4)
        space, key = b"space%d" % chance.randrange(2), b"key%d" % chance.randrange(3)
        actor = b"actor%d" % chance.randrange(3)
        found.append(
            chance.choice(
                (
                    rr.MemberRecord(rr.MEMBER, node, f"name{number}"),
                    rr.MemberGone(rr.MEMBER_GONE, node),
                    rr.EntryRecord(rr.ENTRY, space, key, b"%d" % number),
                    rr.EntryGone(rr.ENTRY_GONE, space, key),
                    rr.FunctionRecord(rr.FUNCTION, b"f%d" % chance.randrange(3), b"code", ()),
                    rr.ActorStarted(rr.ACTOR_STARTED, actor, number),
                    rr.ActorGone(rr.ACTOR_GONE, actor),
                )
            )
        )
    return found


def test_a_store_has_what_is_left_of_the_history() -> None:
    for seed in range(50):
        records = history(seed)
        stored: dict[bytes, bytes] = {}
        for key, value in changes_of(records):
            if value is None:
                stored.pop(key, None)
            else:
                stored[key] = value
        kept, useless = records_in(stored)
        assert sorted(kept, key=repr) == sorted(compacted(records), key=repr)
        for key, value in useless:
            assert value is None
            del stored[key]
        assert len(stored) == len(kept)
        assert records_in(stored) == (kept, [])
