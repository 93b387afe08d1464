"""The functions of `ray._private.state`: the state of the cluster, in Ray's internal format."""

from __future__ import annotations

from typing import Any

import skate
from skate.client.state import cluster_queries
from skate.util.placement_group import placement_group_table as _placement_group_table
from skate.util.state import list_actors, list_jobs, list_workers

_ALL = 10_000


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the free resources of each live node, by node id."""
    return cluster_queries.available_per_node()


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the total resources of each live node, by node id."""
    return {each["NodeID"]: dict(each["Resources"]) for each in skate.nodes() if each["Alive"]}


def node_ids() -> list[str]:
    """Return the names of the resources that identify single nodes."""
    return [
        name
        for each in skate.nodes()
        for name in each["Resources"]
        if name.startswith("node:") and not name.startswith("node:__")
    ]


def actors(
    actor_id: str | None = None, job_id: Any = None, actor_state_name: str | None = None
) -> dict[str, Any]:
    """Return the actors by id, or the one with `actor_id`, optionally only those of a job or in a state."""
    found = {}
    places = {node["NodeID"]: node["NodeManagerAddress"] for node in skate.nodes()}
    for each in list_actors(limit=_ALL, detail=True):
        if job_id is not None and each.job_id != job_id.hex():
            continue
        if actor_state_name is not None and each.state != actor_state_name:
            continue
        address = {"IPAddress": places.get(each.node_id, ""), "Port": 0, "NodeID": each.node_id or ""}
        found[each.actor_id] = {
            "ActorID": each.actor_id,
            "ActorClassName": each.class_name,
            "IsDetached": each.is_detached,
            "Name": each.name or "",
            "JobID": each.job_id,
            "Address": dict(address),
            "OwnerAddress": dict(address),
            "State": each.state,
            "NumRestarts": each.num_restarts,
            "Timestamp": 0.0,
            "StartTime": 0,
            "EndTime": 0,
            "DeathCause": each.death_cause,
            "Pid": each.pid or 0,
        }
    if actor_id is not None:
        one: dict[str, Any] = found.get(actor_id, {})
        return one
    return found


def jobs() -> list[dict[str, Any]]:
    """Return the jobs, one for each driver."""
    return [
        {
            "JobID": each.job_id,
            "DriverIPAddress": (each.driver_info or {}).get("node_ip_address", ""),
            "DriverPid": int((each.driver_info or {}).get("pid", 0)),
            "Entrypoint": each.entrypoint,
            "IsDead": each.status != "RUNNING",
            "StartTime": each.start_time or 0,
            "EndTime": each.end_time or 0,
        }
        for each in list_jobs(limit=_ALL, detail=True)
        if each.job_id is not None  # a submitted command that is no driver has none
    ]


def workers() -> dict[str, Any]:
    """Return the live worker processes, by id."""
    return {
        each.worker_id: {"node_ip_address": each.ip, "pid": each.pid}
        for each in list_workers(limit=_ALL)
        if each.worker_type == "WORKER" and each.is_alive
    }


class GlobalState:
    """The functions of this module as methods of one object, for older programs."""

    def node_table(self) -> list[dict[str, Any]]:
        """Return the nodes."""
        return cluster_queries.nodes()

    def job_table(self) -> list[dict[str, Any]]:
        """Return the jobs, one for each driver."""
        return jobs()

    def actors(self) -> dict[str, Any]:
        """Return the actors by id."""
        return actors()

    def actor_table(
        self, actor_id: str | None = None, job_id: Any = None, actor_state_name: str | None = None
    ) -> dict[str, Any]:
        """See `actors`."""
        return actors(actor_id, job_id, actor_state_name)

    def placement_group_table(self, placement_group_id: Any = None) -> dict[str, Any]:
        """Return the placement groups by id, or the one with an id."""
        table: dict[str, Any] = _placement_group_table()
        if placement_group_id is None:
            return table
        one: dict[str, Any] = table.get(placement_group_id.hex(), {})
        return one

    def cluster_resources(self) -> dict[str, float]:
        """Return the total resources of all nodes."""
        return cluster_queries.cluster_resources()

    def available_resources(self) -> dict[str, float]:
        """Return the free resources of all nodes."""
        return cluster_queries.available_resources()

    def available_resources_per_node(self) -> dict[str, dict[str, float]]:
        """Return the free resources of each node."""
        return available_resources_per_node()

    _available_resources_per_node = available_resources_per_node

    def total_resources_per_node(self) -> dict[str, dict[str, float]]:
        """Return the total resources of each node."""
        return total_resources_per_node()

    _total_resources_per_node = total_resources_per_node


state = GlobalState()
