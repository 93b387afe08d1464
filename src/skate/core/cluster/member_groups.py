"""Placement groups on a node that is not the head: bundles reserved for the head, and the groups as the head reports them."""

from __future__ import annotations

from typing import Any, Protocol

from skate.core.cluster.membership import Membership, Peer
from skate.core.object.object_table import ObjectTable
from skate.core.placement.placement_group import PlacementGroup
from skate.core.placement.placement_table import PlacementTable
from skate.protocol import messages as m
from skate.protocol.fields import GroupFacts
from skate.protocol.states import GroupState


class Router(Protocol):
    """Decides where each task runs, and reports free resources."""

    def pump(self) -> None:
        """Send queued tasks to nodes that have room."""

    def touched(self) -> None:
        """Note that a peer has relied on an outdated report of free resources here."""


class MemberGroups:
    """Reserves bundles here for the head, and mirrors its groups."""

    def __init__(
        self, table: PlacementTable, objects: ObjectTable, members: Membership, router: Router
    ) -> None:
        self.table = table
        self.reserved = table.reserved
        self.scheduler = table.scheduler
        self.capacity = table.capacity
        self.emit = table.out.emit
        self.objects = objects
        self.members = members
        self.router = router

    def await_ready(self, cid: int, group_id: bytes, oid: bytes) -> None:
        """Make an object here, held by the asker, wait for its value from the head."""
        objects = self.objects
        self.table.awaiting[oid] = group_id
        objects.grant(objects.ensure(oid), cid)

    def reserve(self, cid: int, message: m.Reserve) -> None:
        """RESERVE: reserve a bundle for a group that is being placed."""
        _, group_id, index, request = message
        self.router.touched()
        carved = self.capacity.carve(f"{group_id.hex()}:{index}", request)
        if carved is not None:
            self.reserved[(group_id, index)] = carved
        self.emit(cid, m.Reserved(m.RESERVED, group_id, index, carved is not None))

    def unreserve(self, cid: int, message: m.Unreserve) -> None:
        """UNRESERVE: release the bundles of a plan that failed."""
        self.router.touched()
        _, group_id, index = message
        carved = self.reserved.pop((group_id, index), None)
        if carved is not None:
            self.capacity.release(carved[1])
            self.scheduler.dispatch_all()

    def group_changed(self, cid: int, message: m.Group) -> None:
        """GROUP: the head reports the state of a group."""
        _, group_id, fields = message
        self.router.touched()
        group = self._mirror(group_id, fields)
        group.places = {index: self._node(node_id) for index, node_id in fields["places"].items()}
        self.scheduler.version += 1
        for index, place in group.places.items():
            carved = self.reserved.pop((group_id, index), None) if place is self.members.here else None
            if carved is not None:
                group.leases[index] = carved
        self.table.open(group)
        if group.state == GroupState.REMOVED:
            for key in [key for key in self.reserved if key[0] == group_id]:
                self.capacity.release(self.reserved.pop(key)[1])
            self.table.end(group)
            self.table.drop_removed()
        self.scheduler.dispatch_all()
        self.router.pump()

    def register_again(self, head: Peer) -> None:
        """Report to a new head the groups that are known here, with the bundles that are reserved here."""
        for group in self.table.groups.values():
            if group.state != GroupState.REMOVED:
                planned = [index for group_id, index in self.reserved if group_id == group.group_id]
                bundles = tuple(sorted({*group.leases, *planned}))
                self.emit(head.cid, m.HeldBundles(m.HELD_BUNDLES, group.group_id, bundles))

    def _mirror(self, group_id: bytes, fields: GroupFacts) -> PlacementGroup:
        """Return a group that the head has announced; add it if it is new."""
        groups = self.table.groups
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = PlacementGroup(
                group_id, fields["bundles"], {"strategy": fields["strategy"], "name": fields["name"]}, -1
            )
        group.state = GroupState(fields["state"])
        return group

    def _node(self, node_id: bytes) -> Any:
        peers = self.members
        return peers.here if node_id == peers.here.node_id else peers.by_tag.get(node_id[:8])

    def __repr__(self) -> str:
        return f"<MemberGroups {len(self.table.groups)} groups, {len(self.reserved)} bundles reserved>"
