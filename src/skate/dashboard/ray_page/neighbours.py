"""Grafana and Prometheus, if the environment names them: whether they answer, for pages that embed their charts.

Without one, the answer says so with status 200: a browser would print any other status as an error.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import skate
from skate.dashboard.state_routes import reply

SECONDS = 2.0
#: The identifiers of Ray's boards in Grafana.
BOARDS = {
    "default": "rayDefaultDashboard",
    "serve": "rayServeDashboard",
    "serveDeployment": "rayServeDeploymentDashboard",
    "serveLlm": "rayServeLlmDashboard",
    "data": "rayDataDashboard",
    "dataLlm": "rayDataLlmDashboard",
    "train": "rayTrainDashboard",
}


def grafana(request: Request) -> Response:
    """Return where Grafana is, if it answers."""
    host = os.environ.get("RAY_GRAFANA_HOST", "")
    if not _answers(host, "/api/health"):
        return reply_of(False, "Grafana healthcheck failed", host, "RAY_GRAFANA_HOST")
    data = {
        "grafanaHost": os.environ.get("RAY_GRAFANA_IFRAME_HOST", host),
        "grafanaOrgId": os.environ.get("RAY_GRAFANA_ORG_ID", "1"),
        "grafanaClusterFilter": os.environ.get("RAY_GRAFANA_CLUSTER_FILTER"),
        "sessionName": f"session_{skate.get_runtime_context().get_node_id()[:16]}",
        "dashboardUids": BOARDS,
        "dashboardDatasource": os.environ.get("RAY_PROMETHEUS_NAME", "Prometheus"),
    }
    return reply(data, "Grafana running")


def prometheus(request: Request) -> Response:
    """Return if Prometheus answers."""
    host = os.environ.get("RAY_PROMETHEUS_HOST", "")
    if not _answers(host, "/-/healthy"):
        return reply_of(False, "prometheus healthcheck failed.", host, "RAY_PROMETHEUS_HOST")
    return reply({}, "prometheus running")


def reply_of(result: bool, message: str, host: str, variable: str) -> Response:
    """Return an answer in Ray's envelope about a program that does not answer."""
    reason = f"it does not answer at {host}" if host else f"{variable} is not set"
    return JSONResponse({"result": result, "msg": f"{message} ({reason})", "data": {}})


def _answers(host: str, path: str) -> bool:
    if not host.startswith(("http://", "https://")):
        return False
    try:
        with urllib.request.urlopen(f"{host}{path}", timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
