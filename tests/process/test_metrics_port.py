"""A port for metrics alone: what it serves and refuses, and what Prometheus itself reads there while a node has work."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import Program, listening_ports
from tests.process.standing import Node

LOAD = """
    import sys
    ray.init("auto", log_to_driver=False)
    from skate.util.metrics import Counter, Gauge, Histogram

    @ray.remote
    def work(number):
        requests = Counter("app_requests", "With a \\"quote\\", a \\\\ and a\\nline.", tag_keys=("route",))
        requests.inc(1, {"route": "a\\"b\\\\c\\nd"})
        Gauge("app_depth", "Depth.").set(number)
        Histogram("app_seconds", "Time.", boundaries=[0.1, 1.0]).observe(0.5)
        return number

    @ray.remote
    class Keeper:
        def count(self):
            return 1

    keeper = Keeper.remote()
    ray.get([keeper.count.remote(), *[work.remote(each) for each in range(20)]])
    kept = ray.put(b"x" * 10**6)
    print("ready", flush=True)
    sys.stdin.read()
"""


def answer(url: str, token: str = "", host: str = "") -> tuple[int, str]:
    headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **({"Host": host} if host else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def metrics_url(banner: str) -> str:
    found = re.search(r"metrics: +(http://\S+:\d+)/metrics", banner)
    assert found is not None, banner
    return found[1]


def check_with_promtool(text: str) -> None:
    if shutil.which("promtool") is None:
        return
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30
    )
    # 3: only advice on names, and those are Ray's and the user's.
    assert done.returncode in (0, 3) and "error" not in done.stderr, done.stderr


def test_a_port_for_metrics_alone(node: Node, program: Callable[..., Program]) -> None:
    url = metrics_url(node.start("--metrics-export-port", "0"))
    host = url.partition("://")[2]
    token = (node.folder / "metrics-token").read_text()
    load = program(LOAD, **node.environment)
    load.wait_for_output("^ready")
    status, text = answer(f"{url}/metrics", token)
    assert status == 200 and "ray_tasks" in text and "ray_app_requests_total" in text
    check_with_promtool(text)
    assert [each.partition("://")[2] for each in [url]] == json.loads(
        (node.folder / "prom_metrics_service_discovery.json").read_text()
    )[0]["targets"]
    assert answer(f"{url}/metrics")[0] == 401 and answer(f"{url}/metrics", "wrong")[0] == 403
    assert answer(f"{url}/metrics", token, "evil.test:80")[0] == 421
    assert answer(f"{url}/api/healthz")[0] == 200
    for path in ("/api/v0/tasks", "/api/jobs/", "/nodes?view=summary", "/api/v0/logs"):
        assert answer(f"{url}{path}", token)[0] == 404, path
    assert json.loads(answer(f"{url}/api/prometheus/sd", token)[1])[0]["targets"] == [host]
    (line,) = listening_ports(list(node.processes()))
    assert f":{int(host.rpartition(':')[2]):04X} " in line, "no other port is open"


def test_metrics_beside_a_dashboard_have_their_own_port(node: Node) -> None:
    banner = node.start("--include-dashboard", "true", "--dashboard-port", "0", "--metrics-export-port", "0")
    url = metrics_url(banner)
    found = re.search(r"dashboard: +(http://\S+)/#token=(\S+)", banner)
    assert found is not None and found[1] != url
    for each in (url, found[1]):
        assert answer(f"{each}/metrics", found[2])[0] == 200
    assert answer(f"{found[1]}/api/v0/tasks", found[2])[0] == 200
    assert answer(f"{url}/api/v0/tasks", found[2])[0] == 404
    refused = Node(node.folder.parent / "refused").command(
        "start", "--head", "--metrics-export-port", "0", "--dashboard-host", "0.0.0.0", check=False
    )
    assert refused.returncode == 1 and "other machines would reach" in refused.stderr


def test_a_program_serves_its_own_metrics(run: Callable[..., Program]) -> None:
    ended = run("""
    import re, urllib.request, urllib.error
    context = ray.init(num_cpus=1, _metrics_export_port=0, log_to_driver=False)
    port = context.address_info["metrics_export_port"]
    assert port > 0 and not context.dashboard_url, context
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
    except urllib.error.HTTPError as error:
        print("status", error.code)

    @ray.remote
    def inner():
        return "inner"

    @ray.remote(num_cpus=0)
    def outer():
        return ray.get(inner.remote())

    print(ray.get(outer.remote()))
    """)
    assert "status 401" in ended.out and "inner" in ended.out
    assert re.search(r"The metrics are at http://127.0.0.1:\d+/metrics", ended.err)


@pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="no Prometheus; on Debian: apt-get install prometheus"
)
def test_prometheus_reads_a_node_under_load(
    node: Node, program: Callable[..., Program], tmp_path: Path
) -> None:
    node.start("--metrics-export-port", "0")
    config = node.command("metrics", "config").stdout
    if shutil.which("promtool") is not None:
        file = tmp_path / "prometheus.yml"
        file.write_text(config)
        done = subprocess.run(
            ["promtool", "check", "config", str(file)], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stdout + done.stderr
    load = program(LOAD, **node.environment)
    load.wait_for_output("^ready")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    node.command("metrics", "launch-prometheus", "--port", str(port))

    def value(expression: str) -> list[Any]:
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=20) as found:
                return [float(row["value"][1]) for row in json.load(found)["data"]["result"]]
        except OSError:  # it starts
            return []

    try:
        wait_for(lambda: value("up") == [1.0], 60, "Prometheus to read the node")
        wait_for(
            lambda: value("sum(ray_app_requests_total)") == [20.0],
            60,
            "the user's counter",
        )
        assert value("sum(ray_tasks{State='FINISHED'})")[0] >= 20
        assert value("histogram_quantile(0.5, sum by (le) (ray_app_seconds_bucket))")[0] <= 1.0
    finally:
        node.command("metrics", "shutdown-prometheus")
