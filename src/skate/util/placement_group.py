"""Placement groups, by the names that programs know from `ray.util.placement_group`."""

from __future__ import annotations

from skate.client.placement_groups import (
    STRATEGIES,
    PlacementGroup,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

VALID_PLACEMENT_GROUP_STRATEGIES = frozenset(STRATEGIES)

__all__ = [
    "VALID_PLACEMENT_GROUP_STRATEGIES",
    "PlacementGroup",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]
