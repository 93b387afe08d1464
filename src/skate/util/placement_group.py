"""Placement groups, under the names of `ray.util.placement_group`."""

from __future__ import annotations

from skate.client.placement_groups import (
    STRATEGIES,
    PlacementGroup,
    check_placement_group_index,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
    validate_placement_group,
)

#: The label that identifies a node; its name in `topology_strategy`.
NODE_ID_LABEL_KEY = "ray.io/node-id"
VALID_PLACEMENT_GROUP_STRATEGIES = frozenset(STRATEGIES)

__all__ = [
    "NODE_ID_LABEL_KEY",
    "VALID_PLACEMENT_GROUP_STRATEGIES",
    "PlacementGroup",
    "check_placement_group_index",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
    "validate_placement_group",
]
