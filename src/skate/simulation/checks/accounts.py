"""Accounting of grants between a process and its node, while messages about them are in transit.

The node counts at least the grants of the process: those it holds, those it has released but not reported yet, and those in
release messages, less those it has taken on its own but not reported yet. Any further grants are in transit to the process. So
the node never frees anything that a process can reach.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from skate.client.actor.actor_hold import ActorHold
from skate.client.object.object_ref import ObjectRef
from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.core.node import NodeCore
    from skate.simulation.processes.process import Process

TAKING = (m.ESCAPE, m.HOLD, m.PUT, m.CREATE_ACTOR)


def check(core: NodeCore, process: Process) -> None:
    """Raise AssertionError if a node counts fewer grants than a process has."""
    has: Counter[bytes] = Counter()
    has.update(held(process))
    for frame in process.frames():
        things: list[Any] = [*frame.refs, *frame.holds]
        for thing in things:
            check_entry(process, thing)
    for any_id, grants in process.pending_releases:
        has[any_id] += grants
    for message in process.outbox:
        word = message[0]
        if word == m.FREE:
            has[message[1]] += message[2]
        elif word in TAKING or (word == m.PUBLISH and message[5]):
            has[message[1]] -= 1
    for any_id, grants in has.items():
        if grants > 0:
            record = core.objects.get(any_id) if len(any_id) == 28 else core.actors.actors.get(any_id)
            counted = 0 if record is None else record.holders.get(process.cid, 0)
            assert counted >= grants, (
                f"{process} has {grants} grants of {record or any_id.hex()}, {counted} are counted"
            )


def check_entry(process: Process, thing: ObjectRef[Any] | ActorHold) -> None:
    """Raise AssertionError if a program has a grant that is not in the tables of its process."""
    if isinstance(thing, ObjectRef):
        granted, weak = thing._grants, process.known.get(thing._id)
    else:
        granted, weak = thing.grants, process.actors.get(thing.actor_id)
    assert not granted or (weak is not None and weak() is thing), f"{process} has lost sight of {thing}"


def held(process: Process) -> dict[bytes, int]:
    """Return the grants of everything that a process can reach."""
    refs = {oid: ref._grants for oid, weak in process.known.items() if (ref := weak()) is not None}
    holds = {
        actor_id: hold.grants for actor_id, weak in process.actors.items() if (hold := weak()) is not None
    }
    return {any_id: grants for any_id, grants in {**refs, **holds}.items() if grants}
