"""Applications of Serve: replicas, queues, rates, latencies and the decisions of autoscaling; and a request to try one."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Mapping, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.dashboard.mask import masked
from skate.dashboard.own_api.readings.metric_rows import MetricRows
from skate.dashboard.own_api.readings.plain import plain, rows
from skate.dashboard.own_api.readings.rings import Buckets, Ring, Things, quantile

#: Recent latencies are those of so many seconds.
RECENT_SECONDS = 60.0
LATENCIES = "serve_deployment_processing_latency_ms"
CHARTED = ("requests_per_s", "errors_per_s", "p50_ms", "p95_ms", "p99_ms", "queued", "ongoing", "replicas")
#: The request of the form: its methods, the most bytes of its body and of the answer that is shown, and its limit in seconds.
METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD"})
BODY_BYTES_MAX = 64 << 10
ANSWER_BYTES_MAX = 256 << 10
TRY_SECONDS = 30.0
_PATH = re.compile(r"/[!-~]{0,2000}")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?charset=[\w-]+)?")

_metrics = MetricRows("serve_")
_totals = Things(Ring)
_charts = Things(Ring)
_buckets = Things(Buckets)


def applications(request: Request) -> Response:
    """Return the applications; with `key`, an application and a deployment, the readings of that deployment too."""
    details = _details()
    apps = details.get("applications")
    apps = apps if isinstance(apps, Mapping) else {}
    if apps:
        _metrics.read()
    host, port = _address(details)
    shown = [_application(name, app) for name, app in apps.items() if isinstance(app, Mapping)]
    answer: dict[str, object] = {
        "at": time.time(),
        "address": f"http://{host}:{port}" if port else "",
        "proxies": details.get("proxies"),
        "applications": shown,
    }
    key = request.query_params.get("key", "")
    if key:
        answer["readings"] = _charts.of(key).columns(CHARTED)
        answer["heat"] = {**_buckets.of(key).heat(), "bounds": _metrics.bounds.get(LATENCIES, ())}
    return JSONResponse(masked(request, plain(answer)))


def _details() -> Mapping[str, object]:
    from skate.serve import rest  # most servers are never asked for it, and it loads Serve

    return rest.details()


def _address(details: Mapping[str, object]) -> tuple[str, int]:
    """Return where this session's Serve accepts HTTP requests on this machine; port 0 if it does not."""
    options = details.get("http_options")
    options = options if isinstance(options, Mapping) else {}
    host, port = str(options.get("host") or "127.0.0.1"), options.get("port")
    accepts = bool(details.get("proxies")) and isinstance(port, int)
    return ("127.0.0.1" if host in ("0.0.0.0", "::", "") else host), port if accepts and isinstance(
        port, int
    ) else 0


def _application(name: str, app: Mapping[str, object]) -> dict[str, object]:
    deployments = app.get("deployments")
    deployments = deployments if isinstance(deployments, Mapping) else {}
    named = ("status", "message", "route_prefix", "docs_path", "last_deployed_time_s", "deployment_topology")
    return {
        "name": name,
        **{each: app.get(each) for each in named},
        "http": _http(name),
        "deployments": [
            _deployment(name, each, found)
            for each, found in deployments.items()
            if isinstance(found, Mapping)
        ],
    }


def _http(app: str) -> list[dict[str, object]]:
    """Return the counts of HTTP requests by route, method and status."""
    return [
        {**{name: labels.get(name) for name in ("route", "method", "status_code")}, "count": count}
        for labels, count, _ in _metrics.each("serve_num_http_requests", application=app)
    ]


def _deployment(app: str, name: str, found: Mapping[str, object]) -> dict[str, object]:
    key, labels = f"{app}/{name}", {"application": app, "deployment": name}
    config = found.get("deployment_config")
    config = config if isinstance(config, Mapping) else {}
    requests = _metrics.total("serve_deployment_request_counter", **labels)
    errors = _metrics.total("serve_deployment_error_counter", **labels)
    totals = _totals.of(key)
    totals.add({"requests": requests, "errors": errors})
    replicas = [_replica(each, labels) for each in rows(found.get("replicas"))]
    buckets, counts = _buckets.of(key), _metrics.buckets(LATENCIES, **labels)
    if counts:
        buckets.add(counts)
    recent, bounds = buckets.recent(RECENT_SECONDS), _metrics.bounds.get(LATENCIES, ())
    now: dict[str, float | None] = {
        "requests_per_s": totals.rate("requests"),
        "errors_per_s": totals.rate("errors"),
        **_latencies(recent, bounds),
        "queued": _metrics.total("serve_deployment_queued_queries", **labels),
        "ongoing": _metrics.total("serve_replica_processing_queries", **labels),
        "replicas": float(sum(each["state"] == "RUNNING" for each in replicas)),
    }
    _charts.of(key).add(now)
    named = ("status", "status_trigger", "message", "target_num_replicas", "required_resources")
    return {
        "name": name,
        "key": key,
        **{each: found.get(each) for each in named},
        "max_ongoing_requests": config.get("max_ongoing_requests"),
        "max_queued_requests": config.get("max_queued_requests"),
        "autoscaling_config": config.get("autoscaling_config"),
        "autoscaling": found.get("autoscaling_detail"),
        "requests": requests,
        "errors": errors,
        **now,
        # Without requests in the last minute, those since the start.
        **(_latencies(buckets.all(), bounds) if not sum(recent) else {}),
        "replicas_running": now["replicas"],
        "replicas": replicas,
    }


def _latencies(counts: Sequence[float], bounds: Sequence[float]) -> dict[str, float | None]:
    return {f"p{share}_ms": quantile(counts, bounds, share / 100) for share in (50, 95, 99)}


def _replica(found: Mapping[str, object], labels: Mapping[str, str]) -> dict[str, object]:
    own = {**labels, "replica": str(found.get("replica_id"))}
    figures = {
        "ongoing": "serve_replica_processing_queries",
        "waiting": "serve_replica_pending_queries",
        "requests": "serve_deployment_request_counter",
        "errors": "serve_deployment_error_counter",
        "healthy": "serve_deployment_replica_healthy",
    }
    named = ("replica_id", "state", "pid", "node_id", "node_ip", "actor_id", "start_time_s")
    return {
        **{name: found.get(name) for name in named},
        **{name: _metrics.total(metric, **own) for name, metric in figures.items()},
    }


async def attempt(request: Request) -> Response:
    """Send a request to an application, as a client of its HTTP address does, and return the answer.

    The body has `application`, `method`, `path` below the application's route, `body` and `content_type`. The request goes to
    this session's Serve and nowhere else; redirections are not followed.
    """
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > 2 * BODY_BYTES_MAX:
            return PlainTextResponse(f"the body is larger than {2 * BODY_BYTES_MAX} bytes", 413)
    try:
        given = json.loads(body)
        if not isinstance(given, dict):
            raise ValueError("the body must be an object")
        return JSONResponse(plain(await run_in_threadpool(_tried, given)))
    except (ValueError, RecursionError) as error:
        return PlainTextResponse(str(error), 400)


def _tried(given: Mapping[str, object]) -> dict[str, object]:
    details = _details()
    apps = details.get("applications")
    name = given.get("application")
    app = apps.get(name) if isinstance(apps, Mapping) and isinstance(name, str) else None
    prefix = app.get("route_prefix") if isinstance(app, Mapping) else None
    if not isinstance(prefix, str):
        raise ValueError(f"there is no application {name!r} with a route")
    host, port = _address(details)
    if not port:
        raise ValueError("Serve accepts no HTTP requests here")
    method, path, text, media_type = checked(given)
    target = prefix.rstrip("/") + path
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host, port, timeout=TRY_SECONDS)
    try:
        headers = {"Content-Type": media_type} if text else {}
        connection.request(method, target, body=text.encode() if text else None, headers=headers)
        answer = connection.getresponse()
        contents = answer.read(ANSWER_BYTES_MAX + 1)
        shown = contents[:ANSWER_BYTES_MAX].decode("utf-8", "replace")
        return {
            "status": answer.status,
            "reason": answer.reason,
            "content_type": answer.headers.get("content-type", ""),
            "seconds": time.perf_counter() - began,
            "target": target,
            "answer": shown,
            "is_cut": len(contents) > ANSWER_BYTES_MAX,
        }
    except (OSError, http.client.HTTPException) as error:
        problem = f"{type(error).__name__}: {error}"
        return {
            "status": 0,
            "reason": problem,
            "seconds": time.perf_counter() - began,
            "target": target,
            "answer": "",
        }
    finally:
        connection.close()


def checked(given: Mapping[str, object]) -> tuple[str, str, str, str]:
    """Return the method, the path, the body and its type. Raises ValueError for those that are not allowed."""
    method, path = given.get("method", "GET"), given.get("path", "/")
    text, media_type = given.get("body", ""), given.get("content_type") or "application/json"
    if method not in METHODS:
        raise ValueError(f"the method must be one of {', '.join(sorted(METHODS))}, not {method!r}")
    if not isinstance(path, str) or not _PATH.fullmatch(path or "/"):
        raise ValueError(
            f"the path must begin with / and have printable ASCII characters without spaces, not {path!r}"
        )
    if not isinstance(text, str) or len(text.encode()) > BODY_BYTES_MAX:
        raise ValueError(f"the body must be a text of at most {BODY_BYTES_MAX} bytes")
    if not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(f"the content type must be like application/json, not {media_type!r}")
    return str(method), path, text, media_type
