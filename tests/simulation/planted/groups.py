"""Placement groups: bundles kept after removal, after a failed reservation, and by the tasks that ran in them."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "bundles of a removed group are not released",
        "skate.core.placement.placement_table:PlacementTable.end",
        "self.uncarve(group, list(group.leases))",
        "pass",
    ),
    Bug(
        "one bundle of a removed group is not released",
        "skate.core.placement.placement_table:PlacementTable.end",
        "self.uncarve(group, list(group.leases))",
        "self.uncarve(group, list(group.leases)[:1])",
    ),
    Bug(
        "the tasks of a removed group keep running",
        "skate.core.placement.placement_table:PlacementTable.end",
        "self._end_users(group, removed_text(group.group_id))",
        "pass",
    ),
    Bug(
        "the actors of a removed group stay alive",
        "skate.core.placement.placement_table:PlacementTable._end_users",
        "for actor in list(self.actors.actors.values()):",
        "for actor in ():",
    ),
    Bug(
        "the worker that is killed for a removed group keeps its part of a bundle",
        "skate.core.placement.placement_table:PlacementTable._end_task",
        "self.scheduler.end_lease(worker)",
        "pass",
    ),
    Bug(
        "the groups of a dead driver stay",
        "skate.core.cluster.head_groups:HeadGroups.forget_owner",
        "if group.owner == cid and not group.detached:",
        "if group.owner == cid and group.detached:",
    ),
    Bug(
        "tasks that wait for a removed group wait forever",
        "skate.core.cluster.head_groups:HeadGroups.remove",
        'self._settle(group, m.ERROR, ("TaskPlacementGroupRemoved", {"message": text}))',
        "pass",
    ),
    Bug(
        "bundles reserved here for a rejected plan are kept",
        "skate.core.cluster.head_groups:HeadGroups._undo",
        "self.table.uncarve(group, [index for index, place in group.planned.items() if place is here])",
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "bundles reserved on other nodes for a rejected plan are kept",
        "skate.core.cluster.head_groups:HeadGroups._undo",
        "self.emit(place.cid, m.Unreserve(m.UNRESERVE, group.group_id, index))",
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "a bundle reserved for a group that was removed meanwhile is kept",
        "skate.core.cluster.member_groups:MemberGroups.unreserve",
        "self.capacity.release(carved[1])",
        "pass",
        CLUSTER,
    ),
    Bug(
        "a node that is lost during a bundle request is still awaited",
        "skate.core.cluster.head_groups:HeadGroups.node_left",
        "self._answered(group, index, False)",
        "pass",
        CLUSTER,
    ),
    Bug(
        "a bundle that was lost with its node is not reserved again",
        "skate.core.cluster.head_groups:HeadGroups.node_left",
        "group.state = GroupState.RESCHEDULING",
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "bundles of a group removed by the head stay taken on the other nodes",
        "skate.core.cluster.member_groups:MemberGroups.group_changed",
        "self.table.end(group)",
        "pass",
        CLUSTER,
    ),
)
