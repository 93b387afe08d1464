"""Invariants between the tables of a node, checked after every step.

Each table checks itself; this module checks them against each other. Tests and the simulator run it, a real node does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.cluster.remote_objects import PULLING
from skate.core.object.lifetimes import owner_of
from skate.core.state import task_counts
from skate.protocol.messages import PENDING, SHELL
from skate.protocol.states import ALIVE, CREATION, DEAD, ENDED, METHOD, SENT, WAITING, GroupState

if TYPE_CHECKING:
    from skate.core.node_tables import NodeTables
    from skate.core.object.object_table import ObjectRecord
    from skate.core.schedule.worker_record import Worker
    from skate.core.task.task import Task


def check(tables: NodeTables) -> None:
    """Raise AssertionError if an invariant is broken."""
    check_causes(tables)
    check_books(tables)
    check_waiting(tables)
    check_tasks(tables)
    task_counts.check(tables)
    check_clients(tables)
    check_actors(tables)
    check_room(tables)


def counted_pins(tables: NodeTables) -> dict[bytes, int]:
    """Count the pins of each object and actor by tasks, actors, functions and values."""
    counted: dict[bytes, int] = {}
    tasks = list(tables.tasks.values())
    tasks += [
        a.creation
        for a in tables.actors.actors.values()
        if a.creation.task_id not in tables.tasks and a.state != DEAD
    ]
    for task in tasks:
        for oid in (*(oid for _, oid in task.deps), *task.held):
            counted[oid] = counted.get(oid, 0) + 1
    remote = tables.peers.remote_objects
    for oid in remote.lineage.pinned():
        counted[oid] = counted.get(oid, 0) + 1
    inside = [held for _, _, held in remote.pulls.values()]
    inside += remote.waiting
    inside += [held for _, held in tables.functions.functions.values()]
    inside += [record.held for record in tables.objects.records.values()]
    for held in inside:
        for oid in held:
            counted[oid] = counted.get(oid, 0) + 1
    return counted


def check_causes(tables: NodeTables) -> None:
    """Assert that everything that waits has a cause to wait for."""
    for task_id, task in tables.tasks.items():
        assert task.task_id == task_id and task.state != ENDED, task
        if task.state == WAITING:
            lane = task.actor.lanes.get(task.actor.lane_of(task), ()) if task.kind == METHOD else ()
            assert task.missing > 0 or task in lane, f"{task} waits for nothing"
        if task.state == SENT and task.node is None:
            assert task.task_id in task.worker.outstanding, f"{task} is with nobody"
    for record in tables.objects.records.values():
        assert record.kind != PENDING or _has_a_cause(tables, record), f"{record} waits for nothing"


def _has_a_cause(tables: NodeTables, record: ObjectRecord) -> bool:
    oid = record.oid
    if record.remote is not None and record.remote.owner is not None:  # which has one
        return True
    if record.writer is not None or oid[:24] in tables.tasks or owner_of(oid) in tables.clients:
        return True
    return tables.placement.will_settle(oid)


def check_books(tables: NodeTables) -> None:
    """Assert that free and held resources add up to the total, for the node and every bundle."""
    scheduler, placement = tables.scheduler, tables.placement
    free = {id(each): dict(each.available) for each in (scheduler.capacity, *scheduler.pools.values())}
    leases = [worker.lease for worker in scheduler.workers.values() if worker.lease is not None]
    leases += [lease for group in placement.groups.values() for _, lease in group.leases.values()]
    leases += [lease for _, lease in placement.reserved.values()]
    for lease in leases:
        books = free.get(id(lease.capacity))
        assert books is not None, f"{lease} is of a bundle that is gone"
        for name, units in lease.request.items():
            if name != "CPU" or not lease.cpu_returned:
                books[name] += units
    for each in (scheduler.capacity, *scheduler.pools.values()):
        held = {name: units for name, units in free[id(each)].items() if units or name in each.total}
        assert held == each.total, f"{each}: free and held together are {held}"


def check_waiting(tables: NodeTables) -> None:
    """Assert that each task waits for as many values as list it as a waiter."""
    listed: dict[int, int] = {}
    tasks: dict[int, Task] = {}
    for record in tables.objects.records.values():
        for task in record.waiters:
            listed[id(task)] = listed.get(id(task), 0) + 1
            tasks[id(task)] = task
            assert tables.tasks.get(task.task_id) is task, f"{record} has {task} on its list, which has ended"
    for task in tables.tasks.values():
        waits = listed.get(id(task), 0)
        assert task.missing == waits, (
            f"{task} waits for {task.missing} values, but is on the lists of {waits}"
        )


def check_tasks(tables: NodeTables) -> None:
    """Assert that no task works for a process that has ended."""
    for task in tables.tasks.values():
        if task.kind == CREATION:
            continue
        assert not task.cancelled or task.state == SENT, f"{task} was cancelled, but is still to run"
        if task.template.streaming and task.client >= 0 and not task.cancelled:
            assert task.client in tables.clients, (
                f"{task} makes a stream for process {task.client}, which is gone"
            )


def check_clients(tables: NodeTables) -> None:
    """Assert that only live processes hold, write, wait for or own anything."""
    here = tables.clients
    for record in tables.objects.records.values():
        for cid in (*record.holders, *record.fetchers):
            assert cid in here or cid == SHELL, f"{record} is kept for process {cid}, which is gone"
        writer = record.writer
        assert writer is None or writer == PULLING or writer in here, f"{record} is written by nobody"
    for actor in tables.actors.actors.values():
        for cid in actor.holders:
            assert cid in here or actor.state == DEAD, f"{actor} is held for process {cid}, which is gone"


def check_actors(tables: NodeTables) -> None:
    """Assert that dead actors have used their restarts, and that unused ones are leaving."""
    for actor in tables.actors.actors.values():
        decided = (
            actor.hosted or not actor.routed
        )  # other nodes know only that it ended, not how often it was restarted
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
        if actor.state == ALIVE and actor.worker is not None:
            worker: Worker = actor.worker
            assert tables.scheduler.workers.get(worker.cid) is worker, (
                f"{actor} is in {worker}, which is gone"
            )
            busy = worker.outstanding or actor.queue or actor.lanes
            assert actor.wanted or busy, f"{actor} lives, but nobody can call it"


def check_room(tables: NodeTables) -> None:
    """Assert that nothing waits for free resources."""
    scheduler = tables.scheduler
    for group in scheduler.waiting:
        if any(oid in tables.disk.restoring for _, oid in group.queue[0].deps):
            continue
        assert not scheduler.has_room(group), f"{group} waits, but what it asks for is free"
    for group_id, index in scheduler.pools:
        known = tables.placement.groups[group_id]
        assert known.state != GroupState.REMOVED, f"bundle {index} of {known} is open"
    for placed in tables.placement.groups.values():
        waits = placed.ready or placed.ready_at
        assert not waits or placed.state in (GroupState.PENDING, GroupState.RESCHEDULING), (
            f"what waits for {placed} was not told"
        )
    if not tables.members.active:
        tables.cluster.registry.check_placed()


def check_quiet(tables: NodeTables) -> None:
    """Assert, once no message is in flight, that no node could take the tasks that wait here for one."""
    tables.cluster.registry.check_placed()
    where = tables.peers.where
    for queue in tables.peers.waiting.values():
        task = next(iter(queue.values()))
        assert not where.somewhere(task), f"{task} waits for a node, but there is one with room"
    for group in tables.scheduler.waiting:
        movable = tables.peers.movable(group)
        other = None if movable is None else where.elsewhere(movable)
        if (
            movable is not None and other is not None
        ):  # behind others there: only a node that is free must be used
            assert not other.fits(movable.template.request), (
                f"{movable} waits here, but {other} has room for it"
            )
