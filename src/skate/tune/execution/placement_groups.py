"""What a trial asks for, by the names that programs know from `ray.tune.execution.placement_groups`."""

from __future__ import annotations

from skate.tune.placement import PlacementGroupFactory, resource_dict_to_pg_factory

__all__ = ["PlacementGroupFactory", "resource_dict_to_pg_factory"]
