"""Facts about the cluster in Ray's shapes: version, nodes, actors, jobs, resources, health."""

from __future__ import annotations

import platform
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

import skate
from skate.autoscaler.report import status_fields, status_text
from skate.autoscaler.view import demand
from skate.dashboard.machine import Machine
from skate.dashboard.ray_page import machines
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
    try:
        readings = machines.Readings()
    except TimeoutError as error:
        return reply({}, str(error), 503)
    rows = [machines.described(node, readings) for node in found]
    return reply({"summary": rows, "nodeLogicalResources": usage}, "Node summary fetched.")


def node(request: Request) -> Response:
    """Return the details of one node."""
    wanted = request.path_params["node_id"]
    for each in skate.nodes():
        if each["NodeID"] == wanted:
            readings = machines.Readings()
            detail = machines.with_details(each, readings, _actors(readings))
            return reply({"detail": detail}, "Node details fetched.")
    return reply({}, f"there is no node {wanted}", 404)


def actors(request: Request) -> Response:
    """Return the actors, by id."""
    found = _actors(machines.Readings())
    return reply({"actors": {row["actorId"]: row for row in found}}, "All actors fetched.")


def actor(request: Request) -> Response:
    """Return one actor."""
    wanted = request.path_params["actor_id"]
    row = state.get_actor(wanted)
    if row is None:
        return reply({}, f"there is no actor {wanted}", 404)
    return reply({"detail": _actor(row, _addresses(), machines.Readings())}, "Actor details fetched.")


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


def _usage(row: dict[str, Any]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(row["Resources"].items()))


def _addresses() -> dict[str, str]:
    return {node["NodeID"]: node["NodeManagerAddress"] for node in skate.nodes()}


def _actors(readings: machines.Readings) -> list[dict[str, Any]]:
    addresses = _addresses()
    return [_actor(row, addresses, readings) for row in state.list_actors(detail=True, limit=10_000)]


def _actor(row: Any, addresses: dict[str, str], readings: machines.Readings) -> dict[str, Any]:
    ip = addresses.get(row.node_id, "")
    return {
        "actorId": row.actor_id,
        "jobId": row.job_id,
        "name": row.name,
        "className": row.class_name,
        "actorClass": row.class_name,
        "state": row.state,
        "numRestarts": str(row.num_restarts),
        "pid": row.pid,
        "address": {"nodeId": row.node_id, "ipAddress": ip, "port": 0, "workerId": ""},
        "reprName": row.repr_name,
        "labelSelector": row.label_selector,
        "requiredResources": row.required_resources,
        "placementGroupId": row.placement_group_id,
        "isDetached": row.is_detached,
        "callSite": row.call_site or "",
        "exitDetail": _why_dead(row.death_cause),
        "startTime": None,
        "endTime": None,
        "gpus": [],
        "tpus": [],
        "processStats": readings.of_process(ip, row.pid) if row.pid else {},
    }


def _why_dead(cause: Any) -> str:
    """Return the text of the cause of a death, which has one in each of its kinds."""
    if not isinstance(cause, dict):
        return "" if cause is None else str(cause)
    texts = [str(each.get("error_message", "")) for each in cause.values() if isinstance(each, dict)]
    return next(filter(None, texts), "-")
