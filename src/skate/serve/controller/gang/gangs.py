"""Gangs: replicas that start, stop and are replaced together. A replica without one is a unit of its own."""

from __future__ import annotations

from collections.abc import Iterable

from skate.serve.config.deployment import DeploymentConfig
from skate.serve.context import GangContext
from skate.serve.controller.records import STARTING, Key, ReplicaRecord

#: The beginning of the name of a gang's placement group.
GROUP_PREFIX = "SERVE_GANG::"
Unit = list[ReplicaRecord]


def size_of(config: DeploymentConfig) -> int:
    """Return the number of replicas that start together."""
    gang = config.gang_scheduling_config
    return 1 if gang is None else gang.gang_size


def members(key: Key, config: DeploymentConfig, names: list[str]) -> list[GangContext | None]:
    """Return the place of each named replica in a new gang; None for a replica without a gang."""
    if config.gang_scheduling_config is None:
        return [None for _ in names]
    gang = f"{names[0]}-{len(names)}"
    group = f"{GROUP_PREFIX}{key[0]}_{key[1]}_{gang}"
    return [GangContext(gang, rank, len(names), list(names), group) for rank in range(len(names))]


def units(replicas: Iterable[ReplicaRecord]) -> list[Unit]:
    """Return the replicas by gang."""
    found: dict[str, Unit] = {}
    for one in replicas:
        found.setdefault(one.id if one.gang is None else one.gang.gang_id, []).append(one)
    return list(found.values())


def torn(living: list[ReplicaRecord]) -> list[ReplicaRecord]:
    """Return the living replicas whose gang lacks a member."""
    return [
        one for unit in units(living) if unit[0].gang for one in unit if len(unit) < unit[0].gang.world_size
    ]


def with_siblings(some: list[ReplicaRecord], living: list[ReplicaRecord]) -> list[ReplicaRecord]:
    """Return replicas, and all others of their gangs."""
    chosen = {one.id for one in some}
    return [one for unit in units(living) if any(one.id in chosen for one in unit) for one in unit]


def starts(unit: Unit) -> bool:
    """Return True if a replica of the unit is not ready."""
    return any(one.state is STARTING for one in unit)


def surplus(unit_list: list[Unit], number: int) -> list[Unit]:
    """Return the first units that have at most `number` replicas together."""
    taken = []
    for unit in unit_list:
        if len(unit) <= number:
            number -= len(unit)
            taken.append(unit)
    return taken
