"""Accounting of grants between a process and its node, while messages about them are in transit.

The node counts at least what the process has: what it holds, what it has let go and not said yet, what it is giving back, less
what it has taken by itself and not said yet. More than that is on its way to the process. So nothing that a process can reach
is ever free for the node.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.core.node import NodeCore
    from skate.simulation.process import Process

TAKING = (m.ESCAPE, m.HOLD, m.PUT, m.CREATE_ACTOR)


def check(core: NodeCore, process: Process) -> None:
    """Raise AssertionError if a node counts less than what a process has."""
    has: Counter[bytes] = Counter()
    for table in (process.known, process.actors):
        for any_id, weak in table.items():
            thing = weak()
            if thing is not None:
                has[any_id] += thing.grants
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
