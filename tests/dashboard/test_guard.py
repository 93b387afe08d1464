"""Each route and method, asked in each forbidden way. A route without a row here fails."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from starlette.routing import Route, WebSocketRoute

import skate
from skate.dashboard.access import Access, hosts_of
from skate.dashboard.app import guarded, routes
from tests.dashboard.asking import HOST, TOKENS, access, ask, ask_stream, bearer

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW")
WRITING = ("POST", "PUT", "DELETE")
OPEN, READ, CONTROL = "open", "read", "control"
#: Each route: a request of it, and the scope that a GET needs.
ROWS: dict[str, tuple[str, str]] = {
    "/": ("/", OPEN),
    "/metrics": ("/metrics", READ),
    "/nodes": ("/nodes?view=summary", READ),
    "/nodes/{node_id}": ("/nodes/NODE", READ),
    "/logical/actors": ("/logical/actors", READ),
    "/logical/actors/{actor_id}": ("/logical/actors/00", READ),
    "/timezone": ("/timezone", READ),
    "/events": ("/events", READ),
    "/api/version": ("/api/version", READ),
    "/api/ray/version": ("/api/ray/version", READ),
    "/api/authentication_mode": ("/api/authentication_mode", OPEN),
    "/api/healthz": ("/api/healthz", OPEN),
    "/api/gcs_healthz": ("/api/gcs_healthz", OPEN),
    "/api/local_raylet_healthz": ("/api/local_raylet_healthz", OPEN),
    "/api/cluster_status": ("/api/cluster_status", READ),
    "/api/component_activities": ("/api/component_activities", READ),
    "/api/prometheus/sd": ("/api/prometheus/sd", READ),
    "/api/jobs/": ("/api/jobs/", READ),
    "/api/jobs/{job_id}": ("/api/jobs/no-such-job", READ),
    "/api/jobs/{job_id}/logs": ("/api/jobs/no-such-job/logs", READ),
    "/api/packages/{protocol}/{name}": ("/api/packages/gcs/none.zip", READ),
    "/api/serve/applications/": ("/api/serve/applications/", READ),
    "/api/v0/cluster_metadata": ("/api/v0/cluster_metadata", READ),
    "/api/v0/logs": ("/api/v0/logs?node_id=NODE", READ),
    "/api/v0/logs/{media}": ("/api/v0/logs/file?filename=worker-0.out", READ),
    "/api/v0/tasks/timeline": ("/api/v0/tasks/timeline", READ),
    "/api/v0/{kind}/summarize": ("/api/v0/tasks/summarize", READ),
    "/api/v0/{kind}": ("/api/v0/tasks", READ),
    "/api/profiling_enabled": ("/api/profiling_enabled", READ),
    "/api/train/v2/runs/v1": ("/api/train/v2/runs/v1", READ),
    "/api/data/datasets/{job_id}": ("/api/data/datasets/00", READ),
    "/api/grafana_health": ("/api/grafana_health", READ),
    "/api/prometheus_health": ("/api/prometheus_health", READ),
    "/api/v0/platform_events": ("/api/v0/platform_events", READ),
    "/api/v0/runtime_env_redaction": ("/api/v0/runtime_env_redaction", READ),
    "/cluster_id": ("/cluster_id", READ),
    "/usage_stats_enabled": ("/usage_stats_enabled", READ),
    "/task/traceback": ("/task/traceback", CONTROL),
    "/task/cpu_profile": ("/task/cpu_profile", CONTROL),
    "/worker/traceback": ("/worker/traceback", CONTROL),
    "/worker/cpu_profile": ("/worker/cpu_profile", CONTROL),
    "/memory_profile": ("/memory_profile", CONTROL),
    "/page/{path:path}": ("/page/main.js", OPEN),
    "/api/skate/now": ("/api/skate/now", READ),
    "/api/skate/data": ("/api/skate/data", READ),
    "/api/skate/train": ("/api/skate/train", READ),
    "/api/skate/tune": ("/api/skate/tune", READ),
    "/api/skate/serve": ("/api/skate/serve", READ),
    "/api/skate/programs": ("/api/skate/programs", READ),
    "/api/skate/llm": ("/api/skate/llm", READ),
    "/api/skate/session": ("/api/skate/session", READ),
    "/api/skate/tasks": ("/api/skate/tasks", READ),
    "/api/skate/task/{task_id}": (f"/api/skate/task/{'0' * 48}", READ),
    "/api/skate/task/{task_id}/lines": (f"/api/skate/task/{'0' * 48}/lines", READ),
    "/api/skate/task/{task_id}/arguments": (f"/api/skate/task/{'0' * 48}/arguments", READ),
    "/api/skate/rows/{kind}": ("/api/skate/rows/nodes", READ),
    "/api/skate/rows/{kind}/{row_id}": ("/api/skate/rows/nodes/NODE", READ),
    "/api/skate/memory": ("/api/skate/memory", READ),
    "/api/skate/logs/streams": ("/api/skate/logs/streams", READ),
    "/api/skate/logs/lines": ("/api/skate/logs/lines", READ),
    "/api/skate/logs/files": ("/api/skate/logs/files", READ),
}
#: Each change: a request of it. All run code, or prepare that.
CHANGES: dict[tuple[str, str], str] = {
    ("POST", "/api/jobs/"): "/api/jobs/",
    ("DELETE", "/api/jobs/{job_id}"): "/api/jobs/no-such-job",
    ("POST", "/api/jobs/{job_id}/stop"): "/api/jobs/no-such-job/stop",
    ("PUT", "/api/packages/{protocol}/{name}"): "/api/packages/gcs/none.zip",
    ("PUT", "/api/serve/applications/"): "/api/serve/applications/",
    ("DELETE", "/api/serve/applications/"): "/api/serve/applications/",
}
#: Each question that interferes with processes: a request of it.
CONTROL_ROWS: dict[str, str] = {
    "/api/skate/serve/try": "/api/skate/serve/try",
    "/api/skate/stacks": "/api/skate/stacks",
    "/api/skate/profile": "/api/skate/profile",
}
STREAMS = {"/api/jobs/{job_id}/logs/tail": "/api/jobs/no-such-job/logs/tail"}
#: Requests that are refused whatever they ask for: the Host, further headers, the status.
FORBIDDEN: dict[str, tuple[str | None, list[tuple[str, str]], int]] = {
    "no host": (None, [], 421),
    "a foreign host": ("evil.test:8265", [], 421),
    "rebinding": ("127.0.0.1.evil.test:8265", [], 421),
    "another port": ("127.0.0.1:80", [], 421),
    "no port": ("127.0.0.1", [], 421),
    "two hosts": (HOST, [("host", HOST)], 421),
    "a foreign origin": (HOST, [("origin", "http://evil.test")], 403),
    "an origin of the same host by another port": (HOST, [("origin", "http://127.0.0.1:80")], 403),
    "an origin of another scheme": (HOST, [("origin", f"https://{HOST}")], 403),
    "the origin null": (HOST, [("origin", "null")], 403),
    "two origins": (HOST, [("origin", f"http://{HOST}")] * 2, 403),
    "another site": (HOST, [("sec-fetch-site", "cross-site")], 403),
    "the same site by another port": (HOST, [("sec-fetch-site", "same-site")], 403),
    # CVE-2025-62593: a browser was recognized by this header alone, which a page may set.
    "a browser with another name": (HOST, [("user-agent", "curl"), ("origin", "http://evil.test")], 403),
}


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=1, object_store_memory=10**8, log_to_driver=False)
    yield
    skate.shutdown()


def test_each_route_has_a_row() -> None:
    found = routes()
    assert {route.path for route in found if isinstance(route, WebSocketRoute)} == set(STREAMS)
    asked = {
        (method, route.path) for route in found if isinstance(route, Route) for method in route.methods or ()
    }
    reading = {("GET", path) for path in ROWS} | {("HEAD", path) for path in ROWS}
    assert asked == reading | set(CHANGES) | {("POST", path) for path in CONTROL_ROWS}


@pytest.mark.parametrize("path", ROWS)
def test_forbidden_requests(path: str) -> None:
    app = guarded(access())
    url, scope = ROWS[path]
    for method, (name, (host, headers, status)) in itertools.product(METHODS, FORBIDDEN.items()):
        answer = ask(app, url, method, [*headers, bearer("submit")], host)
        assert answer.status == status, (method, name, answer)
        assert "access-control-allow-origin" not in answer.headers
    for method in METHODS:
        token = ask(app, url, method).status
        wrong = ask(app, url, method, [("authorization", "Bearer wrong")]).status
        if method not in ("GET", "HEAD", *WRITING):
            assert token == wrong == 405, method
        elif scope != OPEN or method in WRITING:
            assert (token, wrong) == (401, 403), method
    for headers in ([("authorization", "Basic eA==")], [bearer("read")] * 2):
        assert ask(app, url, "POST", headers).status == 401
    for method in WRITING:
        assert ask(app, url, method, [bearer("read")]).status == 403, method
        # A form of another page cannot send this type.
        assert ask(app, url, method, [bearer("submit"), ("content-type", "text/plain")]).status == 415
        json = [bearer("control"), ("content-type", "application/json; charset=utf-8")]
        runs_code = url.startswith(("/api/jobs", "/api/packages/", "/api/serve/"))
        assert ask(app, url, method, json).status == (403 if runs_code else 405), "it changes something"


@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
def test_changes_need_the_token_for_everything(change: tuple[str, str]) -> None:
    app = guarded(access(), accepts_jobs=True)
    url, method = CHANGES[change], change[0]
    kind = ("content-type", "application/octet-stream" if "/packages/" in url else "application/json")
    for name, (host, headers, status) in FORBIDDEN.items():
        assert ask(app, url, method, [*headers, kind, bearer("submit")], host).status == status, name
    for said in ("read", "control"):
        assert ask(app, url, method, [kind, bearer(said)]).status == 403
    for bad in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded"):
        assert ask(app, url, method, [bearer("submit"), ("content-type", bad)]).status == 415
    if "/packages/" not in url:  # a body without a type may be a form of another page
        assert ask(app, url, method, [bearer("submit"), ("content-length", "2")]).status == 415
        assert ask(app, url, method, [bearer("submit"), ("transfer-encoding", "chunked")]).status == 415
    # The session of these tests ends with its program, so the request arrives, and is refused for that.
    refused = ask(app, url, method, [kind, bearer("submit")])
    assert refused.status in (400, 500) and b"skate start --head" in refused.body, refused
    without = ask(guarded(access()), url, method, [kind, bearer("submit")])
    assert without.status == 501 and b"--jobs" in without.body


@pytest.mark.parametrize("path", CONTROL_ROWS)
def test_questions_that_interfere_need_a_token_for_control(path: str) -> None:
    app, url, kind = guarded(access()), CONTROL_ROWS[path], ("content-type", "application/json")
    for name, (host, headers, status) in FORBIDDEN.items():
        assert ask(app, url, "POST", [*headers, kind, bearer("submit")], host).status == status, name
    assert ask(app, url, "POST", [kind]).status == 401
    assert ask(app, url, "POST", [kind, bearer("read")]).status == 403
    for bad in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded"):
        assert ask(app, url, "POST", [bearer("control"), ("content-type", bad)]).status == 415
    for method in ("GET", "PUT", "DELETE"):
        assert ask(app, url, method, [kind, bearer("submit")]).status == 405


@pytest.mark.parametrize("path", STREAMS)
def test_streams_are_refused_as_reads_are(path: str) -> None:
    app = guarded(access())
    url = STREAMS[path]
    for name, (host, headers, status) in FORBIDDEN.items():
        assert ask_stream(app, url, [*headers, bearer("read")], host) == status, name
    assert ask_stream(app, url, []) == 401
    assert ask_stream(app, url, [("authorization", "Bearer wrong")]) == 403
    assert ask_stream(app, url, [bearer("read")]) == 404
    assert ask_stream(app, url, [bearer("read"), ("origin", f"http://{HOST}")]) == 404


@pytest.mark.parametrize("path", ROWS)
def test_allowed_requests(path: str) -> None:
    app = guarded(access())
    url, scope = ROWS[path]
    node_id = skate.get_runtime_context().get_node_id()
    missing = {
        "/logical/actors/{actor_id}",
        "/api/jobs/{job_id}",
        "/api/v0/logs/{media}",
        "/api/jobs/{job_id}/logs",
        "/api/packages/{protocol}/{name}",
        "/api/skate/task/{task_id}",
    }
    answers = {
        answered: ask(app, url.replace("NODE", node_id), "GET", [bearer(answered)])
        for answered in ("read", "control", "submit")
    }
    if scope == CONTROL:  # without parameters here
        assert [answer.status for answer in answers.values()] == [403, 400, 400]
        return
    for answer in answers.values():
        assert answer.status == (404 if path in missing else 200), answer
    assert ("content-security-policy" in answer.headers) and answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    if scope == OPEN:
        assert ask(app, url).status == 200
    origin = [bearer("read"), ("origin", "http://localhost:8265"), ("sec-fetch-site", "same-origin")]
    assert ask(app, url.replace("NODE", node_id), "GET", origin, "localhost:8265").status == answer.status
    proxied = [("x-ray-authorization", bearer("read")[1])]
    assert ask(app, url.replace("NODE", node_id), "GET", proxied).status == answer.status


def test_the_front_page_opens_by_a_link_from_anywhere_and_shows_nothing() -> None:
    app = guarded(access())
    site = ("sec-fetch-site", "cross-site")
    click = [site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
    page = ask(app, "/", headers=click)
    assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    assert b'src="page/main.js"' in page.body
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    framed = [site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")]
    assert ask(app, "/", headers=framed).status == 403
    assert (
        ask(app, "/", headers=[site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")]).status
        == 403
    )
    for path in ("/metrics", "/api/healthz"):
        assert ask(app, path, headers=[*click, bearer("submit")]).status == 403
    assert ask(app, "/", "POST", [*click, bearer("submit")]).status == 403


def test_changes_are_written_down() -> None:
    lines: list[str] = []
    app = guarded(access(), accepts_jobs=True, audit=lines.append)
    kind = ("content-type", "application/json")
    ask(app, "/api/jobs/", "POST", [bearer("submit"), kind])
    ask(app, "/api/jobs/a%0Ab", "DELETE", [bearer("submit"), kind])
    ask(app, "/api/v0/tasks", "POST", [bearer("control"), kind])
    ask(app, "/api/v0/tasks", headers=[bearer("submit")])
    ask(app, "/api/jobs/", "POST", [("authorization", "Bearer wrong"), kind])
    assert [line.split(" ", 2)[2].rpartition(" ")[0] for line in lines] == [
        "submit POST /api/jobs/", "submit DELETE /api/jobs/a%0Ab", "control POST /api/v0/tasks"
    ]  # fmt: skip
    assert all(re.fullmatch(r"audit: \S+:\d+ .* \d{3}", line) for line in lines), lines


def test_pages_behind_a_named_proxy_may_ask() -> None:
    proxy = "hub.example"
    app = guarded(Access({HOST, proxy}, TOKENS, [proxy]))
    for host, origin, status in (
        (proxy, f"https://{proxy}", 200),  # the proxy ends TLS
        (HOST, f"https://{proxy}", 200),  # and sends the server's own name
        (HOST, f"http://{proxy}", 200),
        (HOST, f"https://{proxy}:8443", 403),
        (HOST, f"https://evil.{proxy}", 403),
        (HOST, f"https://{HOST}", 403),
    ):
        headers = [bearer("read"), ("origin", origin)]
        assert ask(app, "/api/version", "GET", headers, host).status == status, (host, origin)
    assert ask(app, "/api/version", "GET", [("origin", f"https://{proxy}")], proxy).status == 401
    twice = [bearer("read"), *[("origin", f"https://{proxy}")] * 2]
    assert ask(app, "/api/version", "GET", twice, proxy).status == 403


def test_unknown_paths_need_a_token_too() -> None:
    app = guarded(access())
    assert ask(app, "/no/such/path").status == 401
    assert ask(app, "/no/such/path", headers=[bearer("read")]).status == 404
    assert ask(app, "/api/healthz/../../metrics").status == 401
    assert ask(app, "http://evil.test/metrics", headers=[bearer("read")]).status == 400
    assert ask(app, "/api/v0/nothing", headers=[bearer("read")]).status == 404


def test_values_of_host() -> None:
    assert hosts_of("0.0.0.0", 80, ["Gateway.test:443"]) == {
        "0.0.0.0:80", "127.0.0.1:80", "localhost:80", "[::1]:80", "gateway.test:443"
    }  # fmt: skip
    assert "[::]:80" in hosts_of("::", 80)
