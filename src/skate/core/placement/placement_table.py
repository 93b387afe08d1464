"""Placement groups: bundles of resources reserved together, by a strategy."""

from __future__ import annotations

from typing import Any

from skate.core.actor.actor_manager import ActorManager
from skate.core.cluster.bundle_directory import BundleDirectory, Cluster
from skate.core.cluster.membership import Membership, Peer
from skate.core.object.object_table import ObjectTable
from skate.core.placement.placement_group import PlacementGroup, removed_text
from skate.core.schedule.feasibility import matches
from skate.core.schedule.infeasible_request import infeasible_message
from skate.core.schedule.scheduler import Scheduler
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.protocol.fields import ErrorValue, GroupFacts
from skate.protocol.states import DEAD, ENDED, PLAIN, GroupState
from skate.protocol.strategies import BundleStrategy

# Number of removed groups kept for lists.
REMOVED_MAX = 100
#: With more nodes than this, waiting groups are tried less often, since planning one looks at all nodes.
PLAIN_NODES_MAX = 32
PAUSE_SECONDS_PER_NODE = 1e-4


class PlacementTable:
    """All groups of a node; waiting ones are tried again whenever resources become free."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        scheduler: Scheduler,
        objects: ObjectTable,
        members: Membership,
        cluster: Cluster,
    ) -> None:
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.clock = task_manager.clock
        self.later = task_manager.later
        self.out = task_manager.out
        self.actor_manager = actor_manager
        self.actors = actor_manager.actors
        self.scheduler = scheduler
        self.capacity = scheduler.capacity
        self.objects = objects
        self.members = members
        self.cluster = cluster
        self.groups: dict[bytes, PlacementGroup] = {}
        #: Objects here that follow a group's readiness, which the head will tell.
        self.awaiting: set[bytes] = set()
        self.bundles = BundleDirectory(self, scheduler, objects, members, cluster, self.out)
        self._not_before = 0.0
        self._will_retry = False

    def create(
        self, cid: int, group_id: bytes, bundles: tuple[dict[str, int], ...], fields: dict[str, Any]
    ) -> None:
        """Add a group; place it now or when there is room."""
        group = PlacementGroup(group_id, bundles, fields, cid)
        self.groups[group_id] = group
        self.bundles.announce(group)
        self.retry()

    def retry(self) -> None:
        """Place the waiting groups in order of arrival."""
        scheduler = self.scheduler
        scheduler.place = None  # placing a group starts tasks, which must not call this again
        for group in list(self.groups.values()):
            if group.state in (GroupState.PENDING, GroupState.INFEASIBLE, GroupState.RESCHEDULING):
                self._try(group)
        if any(
            group.state in (GroupState.PENDING, GroupState.RESCHEDULING) for group in self.groups.values()
        ):
            scheduler.place = self.freed_here
            nodes = len(self.members.alive)
            self._not_before = self.clock.now + (
                PAUSE_SECONDS_PER_NODE * nodes if nodes > PLAIN_NODES_MAX else 0
            )

    def freed_here(self) -> None:
        """Handle resources that became free on this node."""
        self.freed(self.members.here)

    def freed(self, place: Any) -> None:
        """Handle resources that became free on a node: try the waiting groups if any of them could use it."""
        if not any(self._could_use(group, place) for group in self.groups.values()):
            return
        pause = self._not_before - self.clock.now
        if pause <= 0:
            self.retry()
        elif not self._will_retry:
            self._will_retry = True
            self.later(pause, self._retry_now)

    def _retry_now(self) -> None:
        self._will_retry = False
        if self.scheduler.place is not None:
            self.retry()

    def _could_use(self, group: PlacementGroup, place: Any) -> bool:
        """Return True if an unplaced bundle would fit there; with STRICT_PACK, if all of them would."""
        if group.state not in (GroupState.PENDING, GroupState.RESCHEDULING) or group.asked:
            return False
        missing = [bundle for index, bundle in enumerate(group.bundles) if index not in group.places]
        if group.strategy != "STRICT_PACK":
            return any(place.fits(bundle) for bundle in missing)
        whole: dict[str, int] = {}
        for bundle in missing:
            for name, units in bundle.items():
                whole[name] = whole.get(name, 0) + units
        return bool(place.fits(whole))

    def _try(self, group: PlacementGroup) -> None:
        group.why = self._shortage(group)
        if group.why:
            group.state = GroupState.INFEASIBLE
            self._settle(group, m.ERROR, ("TaskUnschedulableError", {"message": group.why}))
            return
        if group.state == GroupState.INFEASIBLE:
            group.state = GroupState.PENDING
        if group.asked:
            return
        planned = self.bundles.plan(group)
        if planned is None:
            return
        for index, place in planned.items():
            if place is self.members.here and not self.carve(group, index):
                self.uncarve(group, planned)
                return
        group.planned = planned
        self.bundles.reserve(group)
        if not group.asked:
            self.placed(group)

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

    def placed(self, group: PlacementGroup) -> None:
        """Commit the planned places of a group, which is complete unless a node was lost meanwhile."""
        scheduler = self.scheduler
        group.places.update(group.planned)
        group.planned = {}
        whole = len(group.places) == len(group.bundles)
        group.state = GroupState.CREATED if whole else GroupState.RESCHEDULING
        self.open(group)
        self.bundles.announce(group)
        if whole:
            self._settle(group, m.INLINE, group.value)
        scheduler.dispatch_all()
        self.cluster.pump()

    def open(self, group: PlacementGroup) -> None:
        """Let tasks into the bundles that are here."""
        for index, (pool, _) in group.leases.items():
            self.scheduler.pools[(group.group_id, index)] = pool

    def _settle(self, group: PlacementGroup, kind: int, payload: Any) -> None:
        """Resolve the waits for the group; drop it if it has no holder."""
        waiting, group.ready = group.ready, []
        elsewhere, group.ready_at = group.ready_at, []
        for cid, oid in elsewhere:
            self.out.emit(cid, m.Publish(m.PUBLISH, oid, kind, payload, (), False))
        for oid in waiting:
            record = self.objects.get(oid)
            if record is not None:
                self.objects.fill(record, kind, payload, ())

    def _shortage(self, group: PlacementGroup) -> str:
        """Return why the group can never be placed, or nothing."""
        totals = self.members.totals()
        who = f"placement group {group.name or group.group_id.hex()[:8]}"
        for index, selector in enumerate(group.selectors):
            if not any(matches(labels, selector) for labels in self.members.labels()):
                return (
                    f"bundle {index} of {who} requests labels {selector}, but the nodes have "
                    f"{self.members.labels()}"
                )
        for bundle in group.bundles:
            if not any(
                all(total.get(name, 0) >= units for name, units in bundle.items()) for total in totals
            ):
                return infeasible_message(bundle, totals, who)
        if group.strategy == "STRICT_SPREAD" and len(group.bundles) > len(totals):
            return (
                f"No available node types can fulfill resource request of {who}: STRICT_SPREAD places each of its "
                f"{len(group.bundles)} bundles on a separate node, but this cluster has {len(totals)}; add "
                "nodes or use SPREAD"
            )
        whole: dict[str, int] = {}
        for bundle in group.bundles:
            for name, units in bundle.items():
                whole[name] = whole.get(name, 0) + units
        room = totals
        if group.strategy != "STRICT_PACK":
            room = [{n: sum(total.get(n, 0) for total in totals) for n in whole}]
        if not any(all(total.get(name, 0) >= units for name, units in whole.items()) for total in room):
            return infeasible_message(whole, room, who)
        return ""

    def ready(self, cid: int, group_id: bytes, oid: bytes) -> None:
        """Set the value of the object `oid`, held by the asker, when the group is placed."""
        if cid in self.members.alive:
            self.bundles.ready_elsewhere(cid, group_id, oid)
            return
        objects = self.objects
        record = objects.ensure(oid)
        objects.grant(record, cid)
        group = self.groups.get(group_id)
        if group is None or group.state == GroupState.REMOVED:
            objects.fail(record, "TaskPlacementGroupRemoved", message=removed_text(group_id))
        elif group.state == GroupState.CREATED:
            objects.fill(record, m.INLINE, group.value, ())
        elif group.state == GroupState.INFEASIBLE:
            objects.fail(record, "TaskUnschedulableError", message=group.why)
        else:
            group.ready.append(oid)

    def remove(self, group_id: bytes) -> None:
        """Remove a group: release its resources, end everything that runs in it, fail everything that waits for it."""
        group = self.groups.get(group_id)
        if group is None or group.state == GroupState.REMOVED:
            return
        group.state = GroupState.REMOVED
        text = removed_text(group_id)
        self._settle(group, m.ERROR, ("TaskPlacementGroupRemoved", {"message": text}))
        self.scheduler.version += 1
        self.end(group)
        self.bundles.removed(group)
        self.retry()
        self.scheduler.dispatch_all()
        self.drop_removed()

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

    def mirror(self, group_id: bytes, fields: GroupFacts) -> PlacementGroup:
        """Return a group that the head has announced; add it if it is new."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = PlacementGroup(
                group_id, fields["bundles"], {"strategy": fields["strategy"], "name": fields["name"]}, -1
            )
        group.state = GroupState(fields["state"])
        return group

    def node_joined(self, peer: Peer) -> None:
        """Add a new node."""
        self.bundles.node_joined(peer)

    def node_left(self, peer: Peer) -> None:
        """Remove a lost node."""
        self.bundles.node_left(peer)

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

    def forget_owner(self, cid: int) -> None:
        """Remove the groups of an owner that has ended, except detached ones."""
        for group in list(self.groups.values()):
            if group.owner == cid and not group.detached:
                self.remove(group.group_id)
