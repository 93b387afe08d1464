"""Queries of the cluster: resources, nodes and the timeline."""

from __future__ import annotations

from typing import Any

from skate.client.object.object_ref import ObjectRef
from skate.client.session import session
from skate.core.cluster.membership import GROWS_LABEL
from skate.core.resource.resources import to_amounts
from skate.protocol.messages import ARENA, INLINE, SPILLED

NOT_STARTED = (
    "Ray has not been started yet: no session is running, so there is no cluster to query; call init() first"
)


def _ask(verb: str, *arguments: Any) -> Any:
    process = session.current_or_none()
    if process is None:
        from skate.exceptions import RaySystemError  # only errors need the tree

        raise RaySystemError(NOT_STARTED)
    return process.request(verb, *arguments)


def node_rows() -> list[dict[str, Any]]:
    """Return the rows of the nodes."""
    found: list[dict[str, Any]] = _ask("rows", "nodes", {})
    return found


def cluster_resources() -> dict[str, float]:
    """Return the total resources of all nodes, by resource."""
    return {name: amount for name, amount in to_amounts(_ask("cluster_resources")).items() if amount}


def available_resources() -> dict[str, float]:
    """Return the free resources of all nodes, by resource."""
    return to_amounts(_ask("available_resources"))


def available_per_node() -> dict[str, dict[str, float]]:
    """Return the free resources of each living node, by node id."""
    return {node["node_id"]: to_amounts(node["available"]) for node in node_rows() if node["alive"]}


#: Why a node has died, as numbers of Ray.
EXPECTED, UNEXPECTED = 1, 2


def nodes() -> list[dict[str, Any]]:
    """Return one entry per node, with its id, resources and labels."""
    return [described(row) for row in node_rows()]


def can_grow() -> bool:
    """Return True if an autoscaler starts nodes for what waits in this cluster."""
    return any(GROWS_LABEL in node["Labels"] for node in nodes() if node["Alive"])


def described(node: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a node, from its row."""
    found = {
        "NodeID": node["node_id"],
        "Alive": node["alive"],
        "alive": node["alive"],
        "NodeManagerAddress": node["address"],
        "NodeManagerHostname": node.get("host", "localhost"),
        "NodeManagerPort": 0,
        "ObjectManagerPort": 0,
        "ObjectStoreSocketName": "",
        "RayletSocketName": "",
        "MetricsExportPort": 0,
        "MetricsAgentPort": 0,
        "DashboardAgentListenPort": 0,
        "NodeName": node.get("name", node["address"]),
        "RuntimeEnvAgentPort": 0,
        "DeathReason": 0 if node["alive"] else EXPECTED if node["expected"] else UNEXPECTED,
        "DeathReasonMessage": node["reason"],
        "Resources": to_amounts(node["total"]) if node["alive"] else {},
        "Labels": {"ray.io/node-id": node["node_id"], **node["labels"]},
    }
    if node["draining"]:
        left = node["seconds_left"]
        found.update(Draining=True, DrainReason=node["draining"], DrainSecondsLeft=None if left < 0 else left)
    return found


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Return recent tasks and the spans of libraries in all processes as Chrome trace events, or write them to a file.

    Open the file in Perfetto or chrome://tracing. Times are in microseconds. In the file, numbers stand for processes and nodes,
    and further events name them.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError(NOT_STARTED)
    from skate.client.state import trace  # few programs look at it

    events = trace.events(process)
    if filename is None:
        return events
    import json  # only needed for a file

    with open(filename, "w") as file:
        json.dump(trace.numbered(events), file)
    return None


def object_location(ref: ObjectRef[Any]) -> dict[str, Any]:
    """Return the location of a ref's value: node ids, size in bytes (None if unknown), and whether it was spilled."""
    process = session.current()
    rows = process.request("rows", "objects", {"object": ref._id})
    row: dict[str, Any] = rows[0] if rows else {"kind": ref._kind, "size": 0, "place": b""}
    # A spilled value was in the tables, so its ref has escaped.
    nodes = [process.node_id.hex()] if row["kind"] in (ARENA, INLINE, SPILLED) else []
    if row["place"]:
        nodes.append(row["place"].hex())
    size = row["size"] or (len(ref._value) if ref._kind == INLINE else None)
    return {"node_ids": nodes, "object_size": size, "did_spill": row["kind"] == SPILLED}
