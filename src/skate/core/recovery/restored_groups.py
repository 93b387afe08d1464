"""Placement groups of the last head, on the next one: their bundles stay where members hold them, others are placed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.placement.placement_group import PlacementGroup
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol.fields import GroupFacts
from skate.protocol.states import GroupState

if TYPE_CHECKING:
    from skate.core.parts import Parts


class RestoredGroups:
    """Collects what members report about bundles, and makes the groups of the records again."""

    def __init__(self, core: Parts) -> None:
        self._core = core
        self._records: list[rr.GroupRecord] = []
        self._held: dict[bytes, dict[int, tuple[int, ...]]] = {}

    def held(self, cid: int, message: m.HeldBundles) -> None:
        """HELD_BUNDLES: a member knows a group, and holds some of its bundles."""
        _, group_id, bundles = message
        self._held.setdefault(group_id, {})[cid] = bundles

    def forget(self, cid: int) -> None:
        """Forget the reports of a member that was lost."""
        for by_member in self._held.values():
            by_member.pop(cid, None)

    def add(self, record: rr.GroupRecord) -> None:
        """Add a group of the records."""
        self._records.append(record)

    def restore(self) -> None:
        """Make the groups again, except those of owners that are gone; end what members know of others."""
        core = self._core
        groups = core.head_groups
        for record in self._records:
            owner = core.members.by_tag.get(record.node_id[:8])
            is_left = owner is not None and owner.alive
            if not is_left and not record.fields.get("detached"):
                core.log.note(rr.GroupGone(rr.GROUP_GONE, record.group_id))
                continue
            cid = owner.cid if owner is not None and is_left else -1
            group = PlacementGroup(record.group_id, record.bundles, dict(record.fields), cid)
            groups.groups[group.group_id] = group
            for member, bundles in self._held.get(group.group_id, {}).items():
                for index in bundles:
                    group.places[index] = core.members.alive[member]
            if len(group.places) == len(group.bundles):
                group.state = GroupState.CREATED
            elif group.places:
                group.state = GroupState.RESCHEDULING
            groups.announce(group)
        gone: GroupFacts = {
            "bundles": (),
            "strategy": "PACK",
            "name": "",
            "state": GroupState.REMOVED.value,
            "places": {},
        }
        for group_id, members in self._held.items():
            for member in members if group_id not in groups.groups else ():
                core.out.emit(member, m.Group(m.GROUP, group_id, gone))
        groups.retry()

    def __repr__(self) -> str:
        return f"<RestoredGroups {len(self._records)} recorded, {len(self._held)} reported>"
