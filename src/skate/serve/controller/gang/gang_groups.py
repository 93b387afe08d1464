"""The placement groups of gangs: one for each gang, from its first replica to the end of its last."""

from __future__ import annotations

from typing import Any

from skate.resources import Resources
from skate.serve.context import GangContext
from skate.serve.controller.gang.gangs import GROUP_PREFIX
from skate.serve.controller.records import DeploymentRecord, ReplicaRecord
from skate.util.placement_group import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

#: The bundle of a replica that needs no resources, because a bundle cannot be empty.
_SMALLEST = {"CPU": 0.001}


class GangGroups:
    """The groups, and the replicas that are on each."""

    def __init__(self) -> None:
        self._groups: dict[str, Any] = {}
        self._gang_of: dict[str, str] = {}

    def strategy(self, record: DeploymentRecord, one: ReplicaRecord) -> PlacementGroupSchedulingStrategy:
        """Return where a replica is to run, and reserve that for its whole gang. Raises what `placement_group` raises."""
        gang, target = one.gang, record.target
        assert gang is not None
        bundles = target.actor.get("placement_group_bundles") or [_bundle(target.resources())]
        group = self._groups.get(gang.gang_id)
        if group is None:
            selectors = target.actor.get("placement_group_bundle_label_selector")
            if selectors and len(selectors) > 1:  # a single one is for all bundles
                selectors = list(selectors) * gang.world_size
            settings = target.config.gang_scheduling_config
            assert settings is not None
            group = self._groups[gang.gang_id] = placement_group(
                [dict(each) for each in list(bundles) * gang.world_size],
                strategy=settings.gang_placement_strategy.value,
                name=gang.pg_name,
                lifetime="detached",
                bundle_label_selector=selectors,
            )
        self._gang_of[one.id] = gang.gang_id
        return PlacementGroupSchedulingStrategy(
            placement_group=group,
            placement_group_bundle_index=gang.rank * len(bundles),
            placement_group_capture_child_tasks=True,
        )

    def leave(self, replica: str) -> None:
        """Remove the group of a replica that has ended, if it was the last one there."""
        gang = self._gang_of.pop(replica, None)
        if gang is not None and gang not in self._gang_of.values():
            remove_placement_group(self._groups.pop(gang))

    def find_again(self, replica: str, gang: GangContext) -> None:
        """Find the group of a replica after a restart of the controller."""
        try:
            self._groups[gang.gang_id] = get_placement_group(gang.pg_name)
        except ValueError:  # it is gone
            return
        self._gang_of[replica] = gang.gang_id

    def remove_unknown(self) -> None:
        """Remove the groups of gangs of which no replica is left."""
        known = {group.id.hex() for group in self._groups.values()}
        for number, group in placement_group_table().items():
            left = group["name"].startswith(GROUP_PREFIX) and group["state"] != "REMOVED"
            if left and number not in known:
                remove_placement_group(get_placement_group(group["name"]))


def _bundle(resources: Resources) -> dict[str, float]:
    return dict(resources) or dict(_SMALLEST)
