"""The cluster as its autoscaler sees it, by the public state API of a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import skate
from skate.autoscaler.demand import Demand, Group, Node, Shape
from skate.autoscaler.machines import NodeRow
from skate.client.state import cluster_queries
from skate.experimental import internal_kv
from skate.util.placement_group import placement_group_table
from skate.util.state import list_actors, list_tasks

#: The key of what programs have requested by `request_resources`.
KEY = b"requested"
NAMESPACE = b"skate.autoscaler"
#: The key of the resources of a worker, which the head reads too.
WORKER_KEY = b"worker"
TASKS_MAX = 10_000
HEAD_RESOURCE = "node:__internal_head__"


def request(shapes: list[Shape]) -> None:
    """Record a request, which replaces the last one."""
    internal_kv._internal_kv_put(KEY, json.dumps(shapes).encode(), overwrite=True, namespace=NAMESPACE)


def publish_worker(worker: Shape) -> None:
    """Record the resources of the workers, for texts about what waits."""
    internal_kv._internal_kv_put(WORKER_KEY, json.dumps(worker).encode(), overwrite=True, namespace=NAMESPACE)


def requested() -> tuple[Shape, ...]:
    """Return what programs have requested last."""
    found = internal_kv._internal_kv_get(KEY, namespace=NAMESPACE)
    return () if found is None else tuple(json.loads(found))


def demand() -> Demand:
    """Return what waits for a node now."""
    waiting = list_tasks(
        filters=[("state", "=", "PENDING_NODE_ASSIGNMENT")],
        limit=TASKS_MAX,
        detail=True,
        raise_on_missing_output=False,
    )
    # Tasks in bundles wait for their group.
    tasks = tuple(dict(each.required_resources or {}) for each in waiting if not each.placement_group_id)
    groups = tuple(
        Group(tuple(dict(bundle) for bundle in entry["bundles"].values()), entry["strategy"])
        for entry in placement_group_table().values()
        if entry["state"] in ("PENDING", "RESCHEDULING")
    )
    return Demand(tasks, groups, requested())


@dataclass
class NodeView:
    """The living nodes, with the time since when each has been unused."""

    name_of: Callable[[NodeRow], str | None]
    _unused_since: dict[str, float] = field(default_factory=dict)
    #: The ids of living nodes, by the names of their machines.
    ids: dict[str, str] = field(default_factory=dict)

    def nodes(self, now: float) -> list[Node]:
        """Return the nodes; those that are not on one of the machines are named by their ids, and never end."""
        rows = [row for row in skate.nodes() if row["Alive"]]
        free = cluster_queries.available_per_node()
        hosts = {
            actor.node_id
            for actor in list_actors(limit=TASKS_MAX, raise_on_missing_output=False)
            if actor.state != "DEAD"
        }
        found = []
        self.ids = {}
        for row in rows:
            node_id = row["NodeID"]
            name = self.name_of(row)
            total, left = _amounts(row["Resources"]), _amounts(free.get(node_id, {}))
            used = node_id in hosts or any(left.get(key, 0.0) < amount for key, amount in total.items())
            since = self._unused_since.setdefault(node_id, now)
            if used:
                self._unused_since[node_id] = since = now
            if name is not None:
                self.ids[name] = node_id
            head = HEAD_RESOURCE in row["Resources"] or name is None
            found.append(Node(name or node_id, total, left, now - since, bool(row.get("Draining")), head))
        living = {row["NodeID"] for row in rows}
        self._unused_since = {key: since for key, since in self._unused_since.items() if key in living}
        return found


def _amounts(resources: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(amount) for name, amount in resources.items() if not name.startswith("node:")}
