"""Invariants between the tables of a node, checked after every step: each account against the others.

The tables check themselves; here stands what only shows across them. Tests and the simulator ask for it, a running node does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.cluster.remote_objects import PULLING
from skate.protocol.messages import SHELL
from skate.protocol.states import ALIVE, CREATION, DEAD, SENT, GroupState

if TYPE_CHECKING:
    from skate.core.node import NodeCore
    from skate.core.schedule.worker_record import Worker
    from skate.core.task.task import Task


def check(node: NodeCore) -> None:
    """Raise AssertionError if an invariant is broken."""
    check_waiting(node)
    check_tasks(node)
    check_clients(node)
    check_actors(node)
    check_room(node)


def check_waiting(node: NodeCore) -> None:
    """A task waits for as many values as have it on their lists."""
    listed: dict[int, int] = {}
    tasks: dict[int, Task] = {}
    for record in node.objects.records.values():
        for task in record.waiters:
            listed[id(task)] = listed.get(id(task), 0) + 1
            tasks[id(task)] = task
            assert node.tasks.get(task.task_id) is task, f"{record} has {task} on its list, which has ended"
    for task in node.tasks.values():
        waits = listed.get(id(task), 0)
        assert task.missing == waits, (
            f"{task} waits for {task.missing} values, but is on the lists of {waits}"
        )


def check_tasks(node: NodeCore) -> None:
    """Assert that no task works for a process that has ended."""
    for task in node.tasks.values():
        if task.kind == CREATION:
            continue
        assert not task.cancelled or task.state == SENT, f"{task} was cancelled, but is still to run"
        if task.template.streaming and task.client >= 0 and not task.cancelled:
            assert task.client in node.clients, (
                f"{task} makes a stream for process {task.client}, which is gone"
            )


def check_clients(node: NodeCore) -> None:
    """Only processes that are there hold, write, wait for or own something."""
    here = node.clients
    for record in node.objects.records.values():
        for cid in (*record.holders, *record.fetchers):
            assert cid in here or cid == SHELL, f"{record} is kept for process {cid}, which is gone"
        writer = record.writer
        assert writer is None or writer == PULLING or writer in here, f"{record} is written by nobody"
    for actor in node.actors.actors.values():
        for cid in actor.holders:
            assert cid in here or actor.state == DEAD, f"{actor} is held for process {cid}, which is gone"
    if node.peers.active:  # there, a group belongs to the node that asked for it
        return
    for group in node.placement.groups.values():
        kept = group.detached or group.state == GroupState.REMOVED or group.owner in here
        assert kept, f"{group} is kept for process {group.owner}, which is gone"


def check_actors(node: NodeCore) -> None:
    """Assert that living actors are registered under their names, and unused ones are leaving."""
    head = node.peers.head is None
    for actor in node.actors.actors.values():
        decided = (
            actor.hosted or not actor.routed
        )  # elsewhere only the end is known, not how often it was restarted
        if (
            actor.state == DEAD
            and decided
            and actor.death
            and actor.death.fields.get("reason") == "WORKER_DIED"
        ):
            assert 0 <= actor.restarts_max <= actor.restarts, (
                f"{actor} has restarts left, but died with its process"
            )
        if actor.state == DEAD or actor.leaving:
            continue
        if actor.name and head:
            named = node.actors.named(actor.namespace, actor.name)
            assert named is actor, f"the name of {actor} leads to {named}"
        if actor.state == ALIVE and actor.worker is not None:
            worker: Worker = actor.worker
            assert node.scheduler.workers.get(worker.cid) is worker, f"{actor} is in {worker}, which is gone"
            busy = worker.outstanding or actor.queue or actor.lanes
            assert actor.wanted or busy, f"{actor} lives, but nobody can call it"


def check_room(node: NodeCore) -> None:
    """Nothing waits for resources that are free."""
    scheduler = node.scheduler
    for group in scheduler.waiting:
        if any(oid in node.spill_manager.restoring for _, oid in group.queue[0].deps):
            continue
        assert not scheduler.has_room(group), f"{group} waits, but what it asks for is free"
    for group_id, index in scheduler.pools:
        known = node.placement.groups[group_id]
        assert known.state != GroupState.REMOVED, f"bundle {index} of {known} is open"
    for placed in node.placement.groups.values():
        waits = placed.ready or placed.ready_at
        assert not waits or placed.state in (GroupState.PENDING, GroupState.RESCHEDULING), (
            f"what waits for {placed} was not told"
        )
    if not node.peers.active:
        check_groups(node)


def check_groups(node: NodeCore) -> None:
    """No group waits for which there is room; in a cluster only once nothing is under way any more."""
    if node.peers.head is not None:
        return
    for group in node.placement.groups.values():
        if group.state in (GroupState.PENDING, GroupState.RESCHEDULING) and not group.asked:
            assert node.placement.bundles.plan(group) is None, f"{group} waits, but there is room for it"
        for index in range(len(group.bundles)) if group.state == GroupState.CREATED else ():
            place = group.places.get(index)
            assert place is not None and place.alive, f"bundle {index} of {group} is at {place}"


def check_quiet(node: NodeCore) -> None:
    """Nothing is under way any more: what waits here for a node must have none that would take it."""
    check_groups(node)
    where = node.peers.where
    for queue in node.peers.waiting.values():
        task = next(iter(queue.values()))
        assert not where.somewhere(task), f"{task} waits for a node, but there is one with room"
    for group in node.scheduler.waiting:
        movable = node.peers.movable(group)
        other = None if movable is None else where.elsewhere(movable)
        if (
            movable is not None and other is not None
        ):  # behind others there: only a node that is free must be used
            assert not other.fits(movable.template.request), (
                f"{movable} waits here, but {other} has room for it"
            )
