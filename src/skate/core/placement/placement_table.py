"""Placement groups as one node knows them: their states and places, and the bundles that are reserved on this node."""

from __future__ import annotations

from typing import Any

from skate.core.actor.actor_manager import ActorManager
from skate.core.placement.placement_group import PlacementGroup, removed_text
from skate.core.resource.capacity import Capacity, Lease
from skate.core.schedule.infeasible_request import infeasible_message
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_record import GROUP_REMOVED
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.protocol.effects import KillWorker
from skate.protocol.fields import ErrorValue
from skate.protocol.states import DEAD, ENDED, PLAIN, GroupState
from skate.protocol.strategies import BundleStrategy

# Number of removed groups kept for lists.
REMOVED_MAX = 100


class PlacementTable:
    """The groups, and their bundles on this node. The head of the cluster decides about them."""

    def __init__(self, task_manager: TaskManager, actor_manager: ActorManager, scheduler: Scheduler) -> None:
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.out = task_manager.out
        self.actor_manager = actor_manager
        self.actors = actor_manager.actors
        self.scheduler = scheduler
        self.capacity = scheduler.capacity
        self.groups: dict[bytes, PlacementGroup] = {}
        #: Objects here that follow the readiness of a group, which the head will report.
        self.awaiting: dict[bytes, bytes] = {}
        #: Bundles reserved here for groups that are not placed yet, by group and index.
        self.reserved: dict[tuple[bytes, int], tuple[Capacity, Lease]] = {}

    def carve(self, group: PlacementGroup, index: int) -> bool:
        """Reserve a bundle on this node."""
        carved = self.capacity.carve(f"{group.group_id.hex()}:{index}", group.bundles[index])
        if carved is not None:
            group.leases[index] = carved
        return carved is not None

    def uncarve(self, group: PlacementGroup, indexes: Any) -> None:
        """Give bundles on this node back."""
        for index in indexes:
            self.scheduler.pools.pop((group.group_id, index), None)
            carved = group.leases.pop(index, None)
            if carved is not None:
                self.capacity.release(carved[1])

    def open(self, group: PlacementGroup) -> None:
        """Let tasks into the bundles that are here."""
        for index, (pool, _) in group.leases.items():
            self.scheduler.pools[(group.group_id, index)] = pool

    def drop_removed(self) -> None:
        """Forget the groups removed longest ago; a query for an unknown group says that it was removed."""
        removed = [group_id for group_id, group in self.groups.items() if group.state == GroupState.REMOVED]
        for group_id in removed[:-REMOVED_MAX]:
            del self.groups[group_id]

    def end(self, group: PlacementGroup) -> None:
        """End everything that runs in a removed group here, and release its resources."""
        for index in range(
            len(group.bundles)
        ):  # close the bundles first, so that the end of one task does not start another
            self.scheduler.pools.pop((group.group_id, index), None)
        self._end_users(group, removed_text(group.group_id))
        self.uncarve(group, list(group.leases))

    def pools_free(self) -> dict[str, int]:
        """Return the free resources of the bundles on this node, under Ray's names."""
        free: dict[str, int] = {}
        for (group_id, index), pool in self.scheduler.pools.items():
            for name, units in pool.available.items():
                if units > 0:
                    wild = f"{name}_group_{group_id.hex()}"
                    free[wild] = free.get(wild, 0) + units
                    free[f"{name}_group_{index}_{group_id.hex()}"] = units
        return free

    def _end_users(self, group: PlacementGroup, text: str) -> None:
        for task in list(self.tasks.values()):
            strategy = task.template.strategy
            if not isinstance(strategy, BundleStrategy) or strategy.group_id != group.group_id:
                continue
            if task.node is not None and task.node.alive:  # the node it was forwarded to ends it
                continue
            if (
                task.kind == PLAIN and task.state != ENDED
            ):  # not already ended with a task whose result it was to take
                self._end_task(task, text)
        for actor in list(self.actors.actors.values()):
            strategy = actor.template.strategy
            if not isinstance(strategy, BundleStrategy) or strategy.group_id != group.group_id:
                continue
            if actor.state != DEAD:
                if actor.worker is not None:
                    actor.worker.ending = GROUP_REMOVED
                    self.out.shell(KillWorker(actor.worker.cid))
                else:
                    self.scheduler.dequeue(actor.creation)
                self.actor_manager.die(actor, ("ActorDiedError", {"message": f"{actor.describe()}: {text}"}))

    def _end_task(self, task: Task, text: str) -> None:
        worker = task.worker
        if worker is None:
            self.scheduler.dequeue(task)
        else:
            self.out.shell(KillWorker(worker.cid))
            worker.leaving = True
            worker.ending = GROUP_REMOVED
            worker.outstanding.pop(task.task_id, None)
            if not worker.outstanding:
                self.scheduler.end_lease(worker)
        self.task_manager.fail(task, ("TaskPlacementGroupRemoved", {"message": text}))

    def refusal(self, task: Task, group_id: bytes, index: int) -> ErrorValue | None:
        """Return why a task can never run in its bundle, or None."""
        group = self.groups.get(group_id)
        what = "Task" if task.kind == PLAIN else "Actor"
        if group is None or group.state == GroupState.REMOVED:
            return (f"{what}PlacementGroupRemoved", {"message": removed_text(group_id)})
        if group.state == GroupState.INFEASIBLE:
            text = f"{task.template.name} must run in a placement group that cannot be placed: {group.why}"
            return (f"{what}UnschedulableError", {"message": text})
        request = {**task.template.request, **task.template.placement}
        bundles = group.bundles if index < 0 else group.bundles[index : index + 1]
        if any(all(bundle.get(name, 0) >= units for name, units in request.items()) for bundle in bundles):
            return None
        return (
            f"{what}UnschedulableError",
            {"message": infeasible_message(request, bundles, task.template.name)},
        )

    def will_settle(self, oid: bytes) -> bool:
        """Return True if an object will get its value from a group."""
        return oid in self.awaiting or any(oid in group.ready for group in self.groups.values())
