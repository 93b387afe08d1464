"""Accounting of grants between a process and its node, while messages about them are in transit.

The node counts at least what the process has: what it holds, what it has let go and not said yet, what it is giving back, less
what it has taken by itself and not said yet. More than that is on its way to the process. So nothing that a process can reach
is ever free for the node.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from skate.client.actor.actor_hold import ActorHold
from skate.client.object.object_ref import ObjectRef
from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.core.node import NodeCore
    from skate.simulation.process import Process

TAKING = (m.ESCAPE, m.HOLD, m.PUT, m.CREATE_ACTOR)


def check(core: NodeCore, process: Process) -> None:
    """Raise AssertionError if a node counts less than what a process has."""
    has: Counter[bytes] = Counter()
    has.update(held(process))
    for frame in process.frames():
        things: list[Any] = [*frame.refs, *frame.holds]
        for thing in things:
            check_entry(process, thing)
    for any_id, grants in process.graves:
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
    """Raise AssertionError if a program has something granted that is not in the tables of its process."""
    if isinstance(thing, ObjectRef):
        granted, weak = thing._grants, process.known.get(thing._id)
    else:
        granted, weak = thing.grants, process.actors.get(thing.actor_id)
    assert not granted or (weak is not None and weak() is thing), f"{process} has lost sight of {thing}"


def held(process: Process) -> dict[bytes, int]:
    """Return the grants of what a process can reach."""
    refs = {oid: ref._grants for oid, weak in process.known.items() if (ref := weak()) is not None}
    holds = {
        actor_id: hold.grants for actor_id, weak in process.actors.items() if (hold := weak()) is not None
    }
    return {any_id: grants for any_id, grants in {**refs, **holds}.items() if grants}
