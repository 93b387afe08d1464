"""Placement groups: bundles kept after removal, after a failed reservation, and by those who ran in them."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "bundles of a removed group are not given back",
        "skate.core.placement.placement_table:PlacementTable.end",
        "self.uncarve(group, list(group.leases))",
        "pass",
    ),
    Bug(
        "one bundle of a removed group is not given back",
        "skate.core.placement.placement_table:PlacementTable.end",
        "self.uncarve(group, list(group.leases))",
        "self.uncarve(group, list(group.leases)[:1])",
    ),
    Bug(
        "the tasks of a removed group run on",
        "skate.core.placement.placement_table:PlacementTable.end",
        "self._end_users(group, removed_text(group.group_id))",
        "pass",
    ),
    Bug(
        "the actors of a removed group live on",
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
        "the groups of a driver that is gone stay",
        "skate.core.placement.placement_table:PlacementTable.forget_owner",
        "if group.owner == cid and not group.detached:",
        "if group.owner == cid and group.detached:",
    ),
    Bug(
        "what waits for a group that is removed waits for ever",
        "skate.core.placement.placement_table:PlacementTable.remove",
        'self._settle(group, m.ERROR, ("TaskPlacementGroupRemoved", {"message": text}))',
        "pass",
    ),
    Bug(
        "what a refused plan has set apart here is kept",
        "skate.core.cluster.bundle_directory:BundleDirectory._undo",
        "self.table.uncarve(group, [index for index, place in group.planned.items() if place is here])",
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "what a refused plan has set apart on other nodes is kept",
        "skate.core.cluster.bundle_directory:BundleDirectory._undo",
        "self.emit(place.cid, m.Unreserve(m.UNRESERVE, group.group_id, index))",
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "a bundle set apart for a group that was removed meanwhile is kept",
        "skate.core.cluster.bundle_directory:BundleDirectory.unreserve_here",
        "self.capacity.release(carved[1])",
        "pass",
        CLUSTER,
    ),
    Bug(
        "a node that is lost while it is asked for a bundle is waited for",
        "skate.core.cluster.bundle_directory:BundleDirectory.node_left",
        "self._answered(group, index, False)",
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "a bundle that was lost with its node is not set apart anew",
        "skate.core.cluster.bundle_directory:BundleDirectory.node_left",
        "group.state = GroupState.RESCHEDULING",
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "bundles of a group removed by the head stay taken on the other nodes",
        "skate.core.cluster.bundle_directory:BundleDirectory.heard",
        "self.table.end(group)",
        "pass",
        CLUSTER,
    ),
)
