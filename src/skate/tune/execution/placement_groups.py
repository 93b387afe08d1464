"""Resource requests of trials, under the names of `ray.tune.execution.placement_groups`."""

from __future__ import annotations

from skate.tune.placement import PlacementGroupFactory, resource_dict_to_pg_factory

__all__ = ["PlacementGroupFactory", "resource_dict_to_pg_factory"]
