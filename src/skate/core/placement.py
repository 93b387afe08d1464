"""Placement groups: bundles of resources set apart together, by a strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core import messages as m
from skate.core.capacity import Capacity, Lease
from skate.core.feasibility import matches
from skate.core.shortage import infeasible_message
from skate.core.tasks import ENDED, PLAIN, Task

if TYPE_CHECKING:
    from skate.core.node import NodeCore

ErrorValue = tuple[str, dict[str, Any]]

PENDING = "PENDING"
CREATED = "CREATED"
REMOVED = "REMOVED"
INFEASIBLE = "INFEASIBLE"


class PlacementGroup:
    """One group: what its bundles ask for and where they are."""

    __slots__ = (
        "group_id", "bundles", "strategy", "name", "namespace", "owner", "detached", "state", "leases", "ready", "why",
        "value", "selectors",
    )  # fmt: skip

    def __init__(self, group_id: bytes, bundles: tuple[dict[str, int], ...], fields: dict[str, Any], owner: int) -> None:
        self.group_id = group_id
        self.bundles = bundles
        self.strategy: str = fields.get("strategy") or "PACK"
        self.name: str = fields.get("name") or ""
        self.namespace: str = fields.get("namespace") or ""
        self.detached: bool = bool(fields.get("detached"))
        self.owner = owner
        self.state = PENDING
        self.leases: list[tuple[Capacity, Lease]] = []
        #: Objects that become ready with the group.
        self.ready: list[bytes] = []
        self.why = ""
        #: The handle to the group, packed: the value of what becomes ready with it.
        self.value: bytes = fields.get("value") or group_id
        #: For each bundle the conditions on its node's labels.
        self.selectors: tuple[Any, ...] = tuple(fields.get("selectors") or ())

    def __repr__(self) -> str:
        return f"<PlacementGroup {self.group_id.hex()[:8]} {self.strategy} {self.state} bundles={len(self.bundles)}>"


class PlacementTable:
    """All groups of a node; waiting ones are tried again whenever resources come free."""

    def __init__(self, node: NodeCore) -> None:
        self.node = node
        self.groups: dict[bytes, PlacementGroup] = {}

    def create(self, cid: int, group_id: bytes, bundles: tuple[dict[str, int], ...], fields: dict[str, Any]) -> None:
        """Enter a group; it is placed now or when there is room."""
        group = PlacementGroup(group_id, bundles, fields, cid)
        self.groups[group_id] = group
        self.retry()

    def retry(self) -> None:
        """Place the groups that wait, in the order they came."""
        scheduler = self.node.scheduler
        scheduler.place = None  # placing one lets tasks go, which must not lead back here
        for group in list(self.groups.values()):
            if group.state in (PENDING, INFEASIBLE):
                self._try(group)
        if any(group.state == PENDING for group in self.groups.values()):
            scheduler.place = self.retry

    def _try(self, group: PlacementGroup) -> None:
        group.why = self._shortage(group)
        if group.why:
            group.state = INFEASIBLE
            self._settle(group, m.ERROR, ("TaskUnschedulableError", {"message": group.why}))
            return
        group.state = PENDING
        scheduler = self.node.scheduler
        placed: list[tuple[Capacity, Lease]] = []
        for index, bundle in enumerate(group.bundles):
            carved = self.node.capacity.carve(f"{group.group_id.hex()}:{index}", bundle)
            if carved is None:
                for _, lease in placed:
                    self.node.capacity.release(lease)
                return
            placed.append(carved)
        group.leases = placed
        group.state = CREATED
        for index, (pool, _) in enumerate(placed):
            scheduler.pools[(group.group_id, index)] = pool
        self._settle(group, m.INLINE, group.value)
        scheduler.dispatch_all()

    def _settle(self, group: PlacementGroup, kind: int, payload: Any) -> None:
        """Give what waits for the group its value; what nobody holds any more is gone."""
        waiting, group.ready = group.ready, []
        for oid in waiting:
            record = self.node.objects.get(oid)
            if record is not None:
                self.node.objects.fill(record, kind, payload, ())

    def _shortage(self, group: PlacementGroup) -> str:
        """Why the group can never be placed, or nothing."""
        totals = self.node.node_totals()
        who = f"placement group {group.name or group.group_id.hex()[:8]}"
        for index, selector in enumerate(group.selectors):
            if not any(matches(labels, selector) for labels in self.node.node_labels()):
                return f"bundle {index} of {who} asks for labels {selector}, but the nodes have {self.node.node_labels()}"
        for bundle in group.bundles:
            if not any(all(total.get(name, 0) >= units for name, units in bundle.items()) for total in totals):
                return infeasible_message(bundle, totals, who)
        if group.strategy == "STRICT_SPREAD" and len(group.bundles) > len(totals):
            return (
                f"No available node types can fulfill resource request of {who}: STRICT_SPREAD puts each of its "
                f"{len(group.bundles)} bundles on a node of its own, but this cluster has {len(totals)}; add nodes or use SPREAD"
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
        """The object `oid`, held by the asker, gets a value when the group is placed."""
        objects = self.node.objects
        record = objects.ensure(oid)
        objects.grant(record, cid)
        group = self.groups.get(group_id)
        if group is None or group.state == REMOVED:
            objects.fail(record, "TaskPlacementGroupRemoved", message=removed_text(group_id))
        elif group.state == CREATED:
            objects.fill(record, m.INLINE, group.value, ())
        elif group.state == INFEASIBLE:
            objects.fail(record, "TaskUnschedulableError", message=group.why)
        else:
            group.ready.append(oid)

    def remove(self, group_id: bytes) -> None:
        """Give a group's resources back; what runs in it is ended, what waits for it fails."""
        group = self.groups.get(group_id)
        if group is None or group.state == REMOVED:
            return
        node = self.node
        was = group.state
        group.state = REMOVED
        text = removed_text(group_id)
        self._settle(group, m.ERROR, ("TaskPlacementGroupRemoved", {"message": text}))
        node.scheduler.version += 1
        self._end_users(group, text)
        if was == CREATED:
            for index, (_, lease) in enumerate(group.leases):
                node.scheduler.pools.pop((group_id, index), None)
                node.capacity.release(lease)
            group.leases = []
        self.retry()
        node.scheduler.dispatch_all()

    def _end_users(self, group: PlacementGroup, text: str) -> None:
        node = self.node
        for task in list(node.tasks.values()):
            strategy = task.template.strategy
            if not strategy or strategy[0] != "bundle" or strategy[1] != group.group_id:
                continue
            if task.kind == PLAIN and task.state != ENDED:  # not ended with another one, whose result it was to take
                self._end_task(task, text)
        for actor in list(node.actors.actors.values()):
            strategy = actor.template.strategy
            if strategy and strategy[0] == "bundle" and strategy[1] == group.group_id and actor.state != 3:
                if actor.worker is not None:
                    node.shell("kill", actor.worker.cid)
                else:
                    node.scheduler.dequeue(actor.creation)
                node.calls.die(actor, ("ActorDiedError", {"message": f"{actor.describe()}: {text}"}))

    def _end_task(self, task: Task, text: str) -> None:
        node = self.node
        worker = task.worker
        if worker is None:
            node.scheduler.dequeue(task)
        else:
            node.shell("kill", worker.cid)
            worker.leaving = True
            worker.outstanding.pop(task.task_id, None)
            if not worker.outstanding:
                node.scheduler.end_lease(worker)
        node.execution.fail(task, ("TaskPlacementGroupRemoved", {"message": text}))

    def refusal(self, task: Task, group_id: bytes, index: int) -> ErrorValue | None:
        """Why a task can never run in a bundle, or None."""
        group = self.groups.get(group_id)
        what = "Task" if task.kind == PLAIN else "Actor"
        if group is None or group.state == REMOVED:
            return (f"{what}PlacementGroupRemoved", {"message": removed_text(group_id)})
        request = {**task.template.request, **task.template.placement}
        bundles = group.bundles if index < 0 else group.bundles[index : index + 1]
        if any(all(bundle.get(name, 0) >= units for name, units in request.items()) for bundle in bundles):
            return None
        return (f"{what}UnschedulableError", {"message": infeasible_message(request, bundles, task.template.name)})

    def will_settle(self, oid: bytes) -> bool:
        """True if an object waits for a group."""
        return any(oid in group.ready for group in self.groups.values())

    def forget_owner(self, cid: int) -> None:
        """The process that made groups is gone: those that are not detached go too."""
        for group in list(self.groups.values()):
            if group.owner == cid and not group.detached:
                self.remove(group.group_id)


def removed_text(group_id: bytes) -> str:
    """The message of everything that wanted a removed group."""
    return f"the placement group {group_id.hex()} has been removed"
