"""Facts about the cluster in Ray's shapes: version, nodes, actors, jobs, resources, health."""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

import skate
from skate.autoscaler.report import status_fields, status_text
from skate.autoscaler.view import demand
from skate.dashboard.machine import Machine
from skate.dashboard.state_routes import reply
from skate.util import state
from skate.util.exposition import CONTENT_TYPE, exposition
from skate.version import RAY_VERSION

_machine = Machine()


def healthy(request: Request) -> Response:
    """Answer a probe once the node has answered."""
    skate.cluster_resources()
    return PlainTextResponse("success")


def version(request: Request) -> Response:
    """Return the versions, which every client asks for first."""
    facts = {"version": "4", "ray_version": RAY_VERSION, "ray_commit": "", "session_name": _session_name()}
    return JSONResponse(facts)


def authentication_mode(request: Request) -> Response:
    """Return how clients prove who they are."""
    return JSONResponse({"authentication_mode": "token"})


def metrics(request: Request) -> Response:
    """Return the metrics in the text format of Prometheus."""
    of_machine = _machine.rows(skate.util.get_node_ip_address())
    try:
        return Response(exposition(more=of_machine), headers={"content-type": CONTENT_TYPE})
    except TimeoutError as error:  # Prometheus counts a scrape that has failed
        return PlainTextResponse(str(error), 503)


def service_discovery(request: Request) -> Response:
    """Return where Prometheus finds the metrics: here."""
    return JSONResponse([{"labels": {"job": "ray"}, "targets": [request.headers["host"]]}])


def nodes(request: Request) -> Response:
    """Return a summary of the nodes, or their names."""
    view = request.query_params.get("view")
    found = skate.nodes()
    if view == "hostNameList":
        names = [node["NodeManagerHostname"] for node in found if node["Alive"]]
        return reply({"hostNameList": names}, "Node hostname list fetched.")
    if view != "summary":
        return reply({}, f"view={view} is unknown; use summary or hostNameList", 400)
    usage = {node["NodeID"]: _usage(node) for node in found}
    return reply(
        {"summary": [_node(node) for node in found], "nodeLogicalResources": usage}, "Node summary fetched."
    )


def node(request: Request) -> Response:
    """Return the details of one node."""
    wanted = request.path_params["node_id"]
    for each in skate.nodes():
        if each["NodeID"] == wanted:
            return reply({"detail": _node(each)}, "Node details fetched.")
    return reply({}, f"there is no node {wanted}", 404)


def actors(request: Request) -> Response:
    """Return the actors, by id."""
    found = state.list_actors(detail=True, limit=10_000)
    return reply({"actors": {row.actor_id: _actor(row) for row in found}}, "All actors fetched.")


def actor(request: Request) -> Response:
    """Return one actor."""
    wanted = request.path_params["actor_id"]
    row = state.get_actor(wanted)
    if row is None:
        return reply({}, f"there is no actor {wanted}", 404)
    return reply({"detail": _actor(row)}, "Actor details fetched.")


def cluster_status(request: Request) -> Response:
    """Return the nodes and resources of the cluster, and the demand that waits."""
    waiting = demand()
    text = status_text(waiting)
    if request.query_params.get("format") == "1":
        return reply({"clusterStatus": text}, "Got formatted cluster status.")
    report = {"loadMetricsReport": status_fields(waiting)}
    data = {"autoscalingStatus": text, "autoscalingError": None, "clusterStatus": report}
    return reply(data, "Got cluster status.")


def cluster_metadata(request: Request) -> Response:
    """Return the versions of the cluster."""
    facts = {"rayVersion": RAY_VERSION, "pythonVersion": platform.python_version(), "rayInitCluster": True}
    return reply(facts)


def component_activities(request: Request) -> Response:
    """Return if programs are connected, which decides about the end of an idle cluster."""
    count = sum(row.status in ("PENDING", "RUNNING") for row in state.list_jobs(limit=10_000))
    return JSONResponse(
        {
            "driver": {
                "is_active": "ACTIVE" if count else "INACTIVE",
                "reason": f"Number of active drivers: {count}" if count else None,
                "timestamp": time.time(),
                "last_activity_at": None,
            }
        }
    )


def timezone(request: Request) -> Response:
    """Return the time zone of this machine."""
    return JSONResponse(
        {"offset": time.strftime("%z")[:3] + ":" + time.strftime("%z")[3:], "value": time.tzname[0]}
    )


def events(request: Request) -> Response:
    """Return events by job. There are none of this older kind."""
    return reply({"events": {}}, "All events fetched.")


def _session_name() -> str:
    return f"session_{skate.get_runtime_context().get_node_id()[:16]}"


def _node(row: dict[str, Any]) -> dict[str, Any]:
    """Return a node in Ray's shape. Readings of a machine are only those of this one."""
    total = row["Resources"]
    load = os.getloadavg()
    memory_total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory_free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    used = memory_total - memory_free
    cpus = os.cpu_count() or 1
    return {
        "now": time.time(),
        "hostname": socket.gethostname(),
        "ip": row["NodeManagerAddress"],
        "cpus": [cpus, cpus],
        "mem": [memory_total, memory_free, round(100 * used / memory_total, 1), used],
        "loadAvg": [load, [round(each / cpus, 2) for each in load]],
        "gpus": [],
        "tpus": [],
        "workers": [],
        "raylet": {
            "nodeId": row["NodeID"],
            "nodeManagerAddress": row["NodeManagerAddress"],
            "nodeManagerHostname": row["NodeManagerHostname"],
            "nodeName": row["NodeName"],
            "resourcesTotal": total,
            "isHeadNode": "node:__internal_head__" in total,
            "labels": row["Labels"],
            "state": "ALIVE" if row["Alive"] else "DEAD",
            "stateMessage": row["DeathReasonMessage"] or None,
        },
    }


def _usage(row: dict[str, Any]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(row["Resources"].items()))


def _actor(row: Any) -> dict[str, Any]:
    return {
        "actorId": row.actor_id,
        "jobId": row.job_id,
        "name": row.name,
        "className": row.class_name,
        "actorClass": row.class_name,
        "state": row.state,
        "numRestarts": str(row.num_restarts),
        "pid": row.pid,
        "address": {"nodeId": row.node_id, "ipAddress": "", "port": 0, "workerId": ""},
        "reprName": row.repr_name,
        "labelSelector": row.label_selector,
        "requiredResources": row.required_resources,
        "placementGroupId": row.placement_group_id,
        "isDetached": row.is_detached,
    }
