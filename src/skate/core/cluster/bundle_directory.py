"""Placement groups of a cluster: the head plans them, nodes reserve the bundles, and all nodes know their places."""

from __future__ import annotations

from typing import Any, Protocol

from skate.core.cluster.membership import Membership, Peer
from skate.core.object.object_table import ObjectTable
from skate.core.outbox import Outbox
from skate.core.placement import bundle_policy
from skate.core.placement.placement_group import PlacementGroup
from skate.core.resource.capacity import Capacity, Lease
from skate.core.schedule.scheduler import Scheduler
from skate.protocol import messages as m
from skate.protocol.fields import GroupFacts
from skate.protocol.states import GroupState

LIVING = frozenset(GroupState) - {GroupState.REMOVED}


class Groups(Protocol):
    """The groups of this node, and the changes to them."""

    groups: dict[bytes, PlacementGroup]
    #: Objects here that follow a group's readiness, which the head will tell.
    awaiting: set[bytes]

    def retry(self) -> None:
        """Place the groups that wait."""

    def placed(self, group: PlacementGroup) -> None:
        """Commit the planned places of a group."""

    def uncarve(self, group: PlacementGroup, indexes: Any) -> None:
        """Give bundles on this node back."""

    def mirror(self, group_id: bytes, fields: GroupFacts) -> PlacementGroup:
        """Return a group that the head has announced; add it if it is new."""

    def open(self, group: PlacementGroup) -> None:
        """Let tasks into the bundles that are here."""

    def end(self, group: PlacementGroup) -> None:
        """End what runs in a removed group here."""

    def drop_removed(self) -> None:
        """Forget the groups that were removed longest ago."""


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def pump(self) -> None:
        """Send queued tasks to nodes that have room."""

    def touched(self) -> None:
        """Note that a peer has relied on an outdated report of free resources here."""


class BundleDirectory:
    """Reserves bundles: on the head, on other nodes; on other nodes, here for the head."""

    def __init__(
        self,
        table: Groups,
        scheduler: Scheduler,
        objects: ObjectTable,
        members: Membership,
        cluster: Cluster,
        out: Outbox,
    ) -> None:
        self.table = table
        self.scheduler = scheduler
        self.capacity = scheduler.capacity
        self.objects = objects
        self.members = members
        self.cluster = cluster
        self.emit = out.emit
        #: Bundles reserved here for groups that are not placed yet.
        self.reserved: dict[tuple[bytes, int], tuple[Capacity, Lease]] = {}

    # -- on the head

    def plan(self, group: PlacementGroup) -> dict[int, Any] | None:
        """Plan a node for each unplaced bundle; return None if there is no room now."""
        peers = self.members
        missing = [index for index in range(len(group.bundles)) if index not in group.places]
        wanted: list[bundle_policy.Bundle] = [
            (index, group.bundles[index], group.selectors[index] if group.selectors else None)
            for index in missing
        ]
        return bundle_policy.plan(
            group.strategy, wanted, [peers.here, *peers.alive.values()], list(group.places.values())
        )

    def reserve(self, group: PlacementGroup) -> None:
        """Ask the nodes of a plan to reserve; a node that refuses has less free than was known here."""
        group.refused = set()
        for index, place in group.planned.items():
            if place is not self.members.here:
                group.asked.add(index)
                place.take(group.bundles[index])
                self.emit(place.cid, m.Reserve(m.RESERVE, group.group_id, index, group.bundles[index]))

    def reserved_there(self, cid: int, message: m.Reserved) -> None:
        """RESERVED: a node has reserved a bundle, or could not."""
        _, group_id, index, done = message
        group = self.table.groups.get(group_id)
        if group is None or index not in group.asked or group.planned[index].cid != cid:
            if done:
                self.emit(cid, m.Unreserve(m.UNRESERVE, group_id, index))
            return
        self._answered(group, index, done)

    def _answered(self, group: PlacementGroup, index: int, done: bool) -> None:
        group.asked.discard(index)
        if not done:
            group.refused.add(index)
        if group.asked:
            return
        if group.refused:
            self._undo(group)
            self.scheduler.place = self.table.retry
            self.scheduler.dispatch_all()  # which includes the bundles reserved here
        else:
            self.table.placed(group)
            if group.state != GroupState.CREATED:
                self.table.retry()

    def _undo(self, group: PlacementGroup) -> None:
        """Release the bundles reserved for a plan that failed."""
        here = self.members.here
        for index, place in group.planned.items():
            if place is not here and place.alive and index not in group.refused:
                self.emit(place.cid, m.Unreserve(m.UNRESERVE, group.group_id, index))
        self.table.uncarve(group, [index for index, place in group.planned.items() if place is here])
        group.planned = {}
        group.asked.clear()

    def removed(self, group: PlacementGroup) -> None:
        """Release the bundles of a removed group on all nodes."""
        self._undo(group)
        group.places = {}
        self.announce(group)

    def announce(self, group: PlacementGroup) -> None:
        """Send the state of a group to the other nodes."""
        for peer in self.members.alive.values():
            self._tell(peer, group)

    def _tell(self, peer: Peer, group: PlacementGroup) -> None:
        fields: GroupFacts = {
            "bundles": group.bundles,
            "strategy": group.strategy,
            "name": group.name,
            "state": group.state.value,
            "places": {index: place.node_id for index, place in group.places.items()},
        }
        self.emit(peer.cid, m.Group(m.GROUP, group.group_id, fields))

    def ready_elsewhere(self, cid: int, group_id: bytes, oid: bytes) -> None:
        """Set the value of another node's object when the group is placed."""
        group = self.table.groups.get(group_id)
        if group is None or group.state == GroupState.REMOVED:
            text = f"the placement group {group_id.hex()} has been removed"
            kind, payload = m.ERROR, ("TaskPlacementGroupRemoved", {"message": text})
        elif group.state == GroupState.INFEASIBLE:
            kind, payload = m.ERROR, ("TaskUnschedulableError", {"message": group.why})
        elif group.state == GroupState.CREATED:
            self.emit(cid, m.Publish(m.PUBLISH, oid, m.INLINE, group.value, (), False))
            return
        else:
            group.ready_at.append((cid, oid))
            return
        self.emit(cid, m.Publish(m.PUBLISH, oid, kind, payload, (), False))

    def node_joined(self, peer: Peer) -> None:
        """Announce the groups to a new node, and try to place waiting ones."""
        if self.members.head is not None:
            return
        for group in self.table.groups.values():
            if group.state in LIVING:
                self._tell(peer, group)
        self.table.retry()

    def node_left(self, peer: Peer) -> None:
        """Place bundles lost with a node on other nodes."""
        if self.members.head is not None:
            return
        for group in list(self.table.groups.values()):
            there = [index for index, place in group.planned.items() if place is peer]
            group.refused.update(there)  # including bundles it reserved for a plan still in progress
            for index in [index for index in there if index in group.asked]:
                self._answered(group, index, False)
            group.ready_at = [(cid, oid) for cid, oid in group.ready_at if cid != peer.cid]
            lost = [index for index, place in group.places.items() if place is peer]
            if lost:  # including those of a group that already waits for lost bundles
                for index in lost:
                    del group.places[index]
                if group.state == GroupState.CREATED:
                    group.state = GroupState.RESCHEDULING
                self.announce(group)
        self.table.retry()

    # -- on the other nodes

    def await_head(self, cid: int, oid: bytes) -> None:
        """Make an object here, held by the asker, wait for its value from the head."""
        objects = self.objects
        self.table.awaiting.add(oid)
        objects.grant(objects.ensure(oid), cid)

    def reserve_here(self, cid: int, message: m.Reserve) -> None:
        """RESERVE: reserve a bundle for a group that is being placed."""
        _, group_id, index, request = message
        self.cluster.touched()
        carved = self.capacity.carve(f"{group_id.hex()}:{index}", request)
        if carved is not None:
            self.reserved[(group_id, index)] = carved
        self.emit(cid, m.Reserved(m.RESERVED, group_id, index, carved is not None))

    def unreserve_here(self, cid: int, message: m.Unreserve) -> None:
        """UNRESERVE: release the bundles of a plan that failed."""
        self.cluster.touched()
        _, group_id, index = message
        carved = self.reserved.pop((group_id, index), None)
        if carved is not None:
            self.capacity.release(carved[1])
            self.scheduler.dispatch_all()

    def heard(self, cid: int, message: m.Group) -> None:
        """GROUP: the head reports the state of a group."""
        _, group_id, fields = message
        self.cluster.touched()
        group = self.table.mirror(group_id, fields)
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
        self.cluster.pump()

    def _node(self, node_id: bytes) -> Any:
        peers = self.members
        return peers.here if node_id == self.members.here.node_id else peers.by_tag.get(node_id[:8])
