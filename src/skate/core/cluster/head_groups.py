"""Placement groups on the head, which plans them and has the nodes reserve their bundles.

A single node is its own head. All nodes are told the state and the places of every group.
"""

from __future__ import annotations

from typing import Any, Protocol

from skate.core.cluster.membership import Membership, Peer
from skate.core.object.object_table import ObjectTable
from skate.core.placement import bundle_policy
from skate.core.placement.placement_group import PlacementGroup, removed_text
from skate.core.placement.placement_table import PlacementTable
from skate.core.recovery.record_log import RecordLog
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol.fields import GroupFacts
from skate.protocol.states import GroupState

LIVING = frozenset(GroupState) - {GroupState.REMOVED}
#: With more nodes than this, waiting groups are tried less often, since planning one looks at all nodes.
PLAIN_NODES_MAX = 32
PAUSE_SECONDS_PER_NODE = 1e-4
#: Length of the job id at the end of a placement group's id, in bytes.
JOB_BYTES = 4


class Router(Protocol):
    """Decides where each task runs."""

    def pump(self) -> None:
        """Send queued tasks to nodes that have room."""


class HeadGroups:
    """Places the groups; waiting ones are tried again whenever resources become free."""

    def __init__(
        self, table: PlacementTable, objects: ObjectTable, members: Membership, router: Router, log: RecordLog
    ) -> None:
        self.table = table
        self.groups = table.groups
        self.scheduler = table.scheduler
        self.clock = table.task_manager.clock
        self.later = table.task_manager.later
        self.clients = table.task_manager.clients
        self.emit = table.out.emit
        self.objects = objects
        self.members = members
        self.router = router
        self.log = log
        self._not_before = 0.0
        self._will_retry = False

    # -- requests of programs

    def create(
        self, cid: int, group_id: bytes, bundles: tuple[dict[str, int], ...], fields: dict[str, Any]
    ) -> None:
        """Add a group; place it now or when there is room."""
        if group_id in self.groups:  # the head before this one had stored it, and did not answer
            return
        group = PlacementGroup(group_id, bundles, fields, cid)
        self.groups[group_id] = group
        self.announce(group)
        self.retry()

    def ready(self, cid: int, group_id: bytes, oid: bytes) -> None:
        """Set the value of the object `oid`, held by the asker, when the group is placed."""
        if cid in self.members.alive:
            self._ready_elsewhere(cid, group_id, oid)
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

    def _ready_elsewhere(self, cid: int, group_id: bytes, oid: bytes) -> None:
        """Set the value of another node's object when the group is placed."""
        group = self.groups.get(group_id)
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

    def remove(self, group_id: bytes) -> None:
        """Remove a group: release its resources, end everything that runs in it, fail everything that waits for it."""
        group = self.groups.get(group_id)
        if group is None or group.state == GroupState.REMOVED:
            return
        group.state = GroupState.REMOVED
        self.log.note(rr.GroupGone(rr.GROUP_GONE, group_id))
        text = removed_text(group_id)
        self._settle(group, m.ERROR, ("TaskPlacementGroupRemoved", {"message": text}))
        self.scheduler.version += 1
        self.table.end(group)
        self._undo(group)
        group.places = {}
        self.announce(group)
        self.retry()
        self.scheduler.dispatch_all()
        self.table.drop_removed()

    def forget_owner(self, cid: int) -> None:
        """Remove the groups of an owner that has ended, except detached ones."""
        for group in list(self.groups.values()):
            if group.owner == cid and not group.detached:
                self.remove(group.group_id)

    def end_job(self, job: str, survivors: set[int]) -> None:
        """Remove the groups of a job that has ended, except detached ones and those of the processes that stay."""
        for group in list(self.groups.values()):
            of_job = group.group_id[-JOB_BYTES:].hex() == job
            if of_job and not group.detached and group.owner not in survivors:
                self.remove(group.group_id)

    # -- placing

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
            scheduler.place = self._freed_here
            nodes = len(self.members.alive)
            self._not_before = self.clock.now + (
                PAUSE_SECONDS_PER_NODE * nodes if nodes > PLAIN_NODES_MAX else 0
            )

    def _freed_here(self) -> None:
        """Handle resources that became free on this node."""
        self.freed(self.members.here)

    def freed(self, place: Peer) -> None:
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

    def _could_use(self, group: PlacementGroup, place: Peer) -> bool:
        """Return True if an unplaced bundle would fit there; with STRICT_PACK, if all of them would."""
        if group.state not in (GroupState.PENDING, GroupState.RESCHEDULING) or group.requested:
            return False
        missing = [bundle for index, bundle in enumerate(group.bundles) if index not in group.places]
        if group.strategy != "STRICT_PACK":
            return any(place.fits(bundle) for bundle in missing)
        whole: dict[str, int] = {}
        for bundle in missing:
            for name, units in bundle.items():
                whole[name] = whole.get(name, 0) + units
        return place.fits(whole)

    def _try(self, group: PlacementGroup) -> None:
        group.why = bundle_policy.shortage(group, self.members.totals(), self.members.labels())
        if group.why and not self.members.can_grow():
            group.state = GroupState.INFEASIBLE
            self._settle(group, m.ERROR, ("TaskUnschedulableError", {"message": group.why}))
            return
        if group.state == GroupState.INFEASIBLE:
            group.state = GroupState.RESCHEDULING if group.has_lost else GroupState.PENDING
        if group.requested:
            return
        planned = self._plan(group)
        if planned is None:
            return
        for index, place in planned.items():
            if place is self.members.here and not self.table.carve(group, index):
                self.table.uncarve(group, planned)
                return
        group.planned = planned
        self._reserve(group)
        if not group.requested:
            self._placed(group)

    def _plan(self, group: PlacementGroup) -> dict[int, Any] | None:
        """Plan a node for each unplaced bundle; return None if there is no room now."""
        peers = self.members
        missing = [index for index in range(len(group.bundles)) if index not in group.places]
        wanted: list[bundle_policy.Bundle] = [
            (index, group.bundles[index], group.selectors[index] if group.selectors else None)
            for index in missing
        ]
        return bundle_policy.plan(
            group.strategy,
            wanted,
            [each for each in (peers.here, *peers.alive.values()) if not each.draining],
            list(group.places.values()),
        )

    def _placed(self, group: PlacementGroup) -> None:
        """Commit the planned places of a group, which is complete unless a node was lost meanwhile."""
        scheduler = self.scheduler
        group.places.update(group.planned)
        group.planned = {}
        whole = len(group.places) == len(group.bundles)
        group.state = GroupState.CREATED if whole else GroupState.RESCHEDULING
        group.has_lost = not whole
        self.table.open(group)
        self.announce(group)
        if whole:
            self._settle(group, m.INLINE, group.value)
        scheduler.dispatch_all()
        self.router.pump()

    def _settle(self, group: PlacementGroup, kind: int, payload: Any) -> None:
        """Resolve the waits for the group; drop it if it has no holder."""
        waiting, group.ready = group.ready, []
        elsewhere, group.ready_at = group.ready_at, []
        for cid, oid in elsewhere:
            self.emit(cid, m.Publish(m.PUBLISH, oid, kind, payload, (), False))
        for oid in waiting:
            record = self.objects.get(oid)
            if record is not None:
                self.objects.fill(record, kind, payload, ())

    # -- bundles on other nodes

    def _reserve(self, group: PlacementGroup) -> None:
        """Ask the nodes of a plan to reserve; a node that refuses has less free than was known here."""
        group.refused = set()
        for index, place in group.planned.items():
            if place is not self.members.here:
                group.requested.add(index)
                place.take(group.bundles[index])
                self.emit(place.cid, m.Reserve(m.RESERVE, group.group_id, index, group.bundles[index]))

    def reserved(self, cid: int, message: m.Reserved) -> None:
        """RESERVED: a node has reserved a bundle, or could not."""
        _, group_id, index, done = message
        group = self.groups.get(group_id)
        if group is None or index not in group.requested or group.planned[index].cid != cid:
            if done:
                self.emit(cid, m.Unreserve(m.UNRESERVE, group_id, index))
            return
        self._answered(group, index, done)

    def _answered(self, group: PlacementGroup, index: int, done: bool) -> None:
        group.requested.discard(index)
        if not done:
            group.refused.add(index)
        if group.requested:
            return
        if group.refused:
            self._undo(group)
            self.scheduler.place = self.retry
            self.scheduler.dispatch_all()  # which includes the bundles reserved here
        else:
            self._placed(group)
            if group.state != GroupState.CREATED:
                self.retry()

    def _undo(self, group: PlacementGroup) -> None:
        """Release the bundles reserved for a plan that failed."""
        here = self.members.here
        for index, place in group.planned.items():
            if place is not here and place.alive and index not in group.refused:
                self.emit(place.cid, m.Unreserve(m.UNRESERVE, group.group_id, index))
        self.table.uncarve(group, [index for index, place in group.planned.items() if place is here])
        group.planned = {}
        group.requested.clear()

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

    # -- nodes that join and leave

    def node_joined(self, peer: Peer) -> None:
        """Announce the groups to a new node, and try to place waiting ones."""
        for group in self.groups.values():
            if group.state in LIVING:
                self._tell(peer, group)
        self.retry()

    def node_left(self, peer: Peer) -> None:
        """Place bundles lost with a node on other nodes."""
        for group in list(self.groups.values()):
            indexes = [index for index, place in group.planned.items() if place is peer]
            group.refused.update(indexes)  # including bundles it reserved for a plan still in progress
            for index in [index for index in indexes if index in group.requested]:
                self._answered(group, index, False)
            group.ready_at = [(cid, oid) for cid, oid in group.ready_at if cid != peer.cid]
            lost = [index for index, place in group.places.items() if place is peer]
            if lost:  # including those of a group that already waits for lost bundles
                for index in lost:
                    del group.places[index]
                if group.state == GroupState.CREATED:
                    group.state = GroupState.RESCHEDULING
                    group.has_lost = True
                self.announce(group)
        self.retry()

    # -- checks

    def check(self) -> None:
        """Assert that each group has an owner: a process here, or the node that asked for it, even if it is lost."""
        nodes = {peer.cid for peer in self.members.by_tag.values()}
        for group in self.groups.values():
            kept = group.detached or group.state == GroupState.REMOVED
            kept = kept or group.owner in self.clients or group.owner in nodes
            assert kept, f"{group} is kept for process {group.owner}, which is gone"

    def check_placed(self) -> None:
        """Assert that no group waits although there is room; in a cluster, only once no message is in flight."""
        for group in self.groups.values():
            for index in group.requested:
                assert group.planned[index].alive, f"{group} waits for {group.planned[index]}, which is lost"
            if group.state in (GroupState.PENDING, GroupState.RESCHEDULING) and not group.requested:
                assert self._plan(group) is None, f"{group} waits, but there is room for it"
            for index in range(len(group.bundles)) if group.state == GroupState.CREATED else ():
                place = group.places.get(index)
                assert place is not None and place.alive, f"bundle {index} of {group} is at {place}"

    def __repr__(self) -> str:
        return f"<HeadGroups {len(self.groups)} groups>"
