"""Resources of a trial, under deprecated names."""

from __future__ import annotations

import json
from collections import namedtuple
from typing import Any

from skate.tune.error import TuneError
from skate.tune.placement import PlacementGroupFactory, resource_dict_to_pg_factory

_INSTEAD = "tune.Resources is deprecated. Use tune.PlacementGroupFactory instead."
_AMOUNTS = ("cpu", "gpu", "memory", "object_store_memory")
_FIELDS = (
    *_AMOUNTS,
    *(f"extra_{name}" for name in _AMOUNTS),
    "custom_resources",
    "extra_custom_resources",
    "has_placement_group",
)


_Fields: Any = namedtuple("_Fields", _FIELDS)  # type: ignore[misc]  # noqa: PYI024  # the fields are made from two lists


class Resources(_Fields):
    """Rejected: use a `PlacementGroupFactory`."""

    __slots__ = ()

    def __new__(
        cls,
        cpu: float,
        gpu: float,
        memory: float = 0,
        object_store_memory: float = 0.0,
        extra_cpu: float = 0.0,
        extra_gpu: float = 0.0,
        extra_memory: float = 0.0,
        extra_object_store_memory: float = 0.0,
        custom_resources: dict[str, float] | None = None,
        extra_custom_resources: dict[str, float] | None = None,
        has_placement_group: bool = False,
    ) -> Resources:
        raise DeprecationWarning(_INSTEAD)


def json_to_resources(data: Any) -> PlacementGroupFactory | None:
    """Build resources from a JSON text or a dict such as {"cpu": 2, "gpu": 1}; None from "null".

    Raises:
        TuneError: limits of the driver are given.
        ValueError: a field is unknown.
    """
    if data is None or data == "null":
        return None
    found = json.loads(data) if isinstance(data, str) else dict(data)
    for name in found:
        if name in ("driver_cpu_limit", "driver_gpu_limit"):
            raise TuneError(
                f"The field `{name}` is no longer supported. Use `extra_cpu` or `extra_gpu` instead."
            )
        if name not in _FIELDS:
            raise ValueError(f"Unknown resource field {name}, must be one of {_FIELDS}")
    wanted = {name: found[name] for name in ("cpu", "gpu", "memory", "custom_resources") if name in found}
    return resource_dict_to_pg_factory({"cpu": 1, **wanted})


def resources_to_json(*args: Any, **kwargs: Any) -> Any:
    """Rejected, like `Resources`."""
    raise DeprecationWarning(_INSTEAD)


__all__ = [
    "PlacementGroupFactory",
    "Resources",
    "json_to_resources",
    "resource_dict_to_pg_factory",
    "resources_to_json",
]
