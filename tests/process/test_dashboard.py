"""The server beside a session as a real process: it starts on request, answers, and ends with the session."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from skate.util.state.client import StateApiClient
from skate.util.state.common import ListApiOptions, StateResource, SummaryApiOptions, SummaryResource
from skate.util.state.exception import RayStateApiException
from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE, Program, listening_ports
from tests.process.standing import Node

SERVES = """\
import sys
import urllib.request
import skate as ray
from skate.util.metrics import Counter

context = ray.init(START, include_dashboard=True, dashboard_port=0)

@ray.remote
def count():
    Counter("counted").inc(5)

ray.get(count.remote())
print("at", context.dashboard_url, flush=True)
sys.stdin.readline()
ray.shutdown()
print("closed", flush=True)
"""


def get(url: str, token: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def listens(port: str) -> bool:
    """Return True if a TCP socket of this machine listens at a port."""
    with open("/proc/net/tcp") as table:
        return any(f":{int(port):04X} " in line and " 0A " in line for line in table)


@pytest.mark.parametrize("how", ["shutdown", "SIGKILL"])
def test_it_lives_as_long_as_its_program(program: Callable[..., Program], how: str) -> None:
    started = program(SERVES)
    url = "http://" + started.wait_for_output(r"^at .*").split()[1]
    port = url.rpartition(":")[2]
    found = re.search(r"#token=(\S+)", started.err)
    assert found is not None and url in started.err, started.story()
    token = found[1]

    def counted() -> bool:
        status, page = get(f"{url}/metrics", token)
        assert status == 200, page
        return re.search(r"^ray_counted_total\{.*\} 5.0$", page, re.MULTILINE) is not None

    wait_for(counted, what="the worker's counter")  # which it reports after the end of its task
    assert get(f"{url}/metrics", "wrong")[0] == 403
    assert get(f"{url}/metrics", found[1], Host="evil.test")[0] == 421
    assert listens(port)
    assert len([*listening_ports([started.process.pid, *started.others()])]) == 1, "and nothing else does"
    if how == "shutdown":
        started.write_line("end")
        started.wait_for_output("closed")
        assert started.end() == 0, started.story()
    else:
        os.kill(started.process.pid, signal.SIGKILL)
    started.gone(within_s=10)
    assert not listens(port)


def test_the_command_serves_a_standing_node(node: Node) -> None:
    node.start()
    server = subprocess.Popen(
        [sys.executable, "-m", "skate", "dashboard", "--port", "0"],
        env={**os.environ, "PYTHONPATH": SOURCE, MARK: node.mark, **node.environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        url, token = server.stdout.readline().split()[-1].split("/#token=")
        assert '"total":0' in get(f"{url}/api/v0/jobs", token)[1], "the server itself is no program"
        assert get(f"{url}/api/healthz", token) == (200, "success")
        assert node.status()["drivers"] == []
        assert node.status()["workers"] == 0
        zygotes = [words for words in node.processes().values() if "zygote" in words]
        assert not zygotes, "no workers are wanted, so nothing that forks them"
        node.stop()
        wait_for(lambda: server.poll() is not None, what="the end of the server with its node")
    assert server.returncode == 0
    node.gone()


def test_a_standing_node_keeps_its_dashboard(node: Node, run: Callable[..., Program]) -> None:
    said = node.start("--include-dashboard", "true", "--dashboard-port", "0")
    found = re.search(r"(http://\S+)/#token=(\S+)", said)
    assert found is not None, said
    url, token = found.groups()
    facts = node.folder / "dashboard.json"
    assert facts.stat().st_mode & 0o777 == 0o600
    run(
        f"import skate as ray; context = ray.init('auto'); assert {url!r}.endswith(context.dashboard_url)\n"
        f"link = ray.dashboard(); assert link.url == {url!r} and f'{{link}}\"' in link._repr_html_()",
        **node.environment,
    )
    rows = node.command("list", "nodes", "--address", url, "--format", "json", RAY_AUTH_TOKEN=token).stdout
    (row,) = json.loads(rows)
    shown = node.command("get", "nodes", row["node_id"], "--address", url, RAY_AUTH_TOKEN=token).stdout
    assert f'node_id: "{row["node_id"]}"' in shown or f"node_id: {row['node_id']}" in shown
    wrong = node.command("list", "nodes", "--address", url, check=False, RAY_AUTH_TOKEN="wrong")
    assert wrong.returncode == 2 and "RAY_AUTH_TOKEN" in wrong.stderr
    assert "total_tasks" in node.command("summary", "tasks", "--address", url, RAY_AUTH_TOKEN=token).stdout

    client = StateApiClient(url, headers={"Authorization": f"Bearer {token}"})
    assert client.get(StateResource.NODES, row["node_id"], None).node_id == row["node_id"]
    counts = client.summary(SummaryResource.TASKS, options=SummaryApiOptions(), raise_on_missing_output=True)
    assert counts["cluster"]["total_tasks"] == 0
    with pytest.raises(RayStateApiException, match="status 403"):
        StateApiClient(url, headers={"Authorization": "Bearer no"}).list(
            StateResource.NODES, ListApiOptions(), True
        )

    first = json.loads(facts.read_text())
    os.kill(first["pid"], signal.SIGKILL)
    wait_for(
        lambda: facts.exists() and json.loads(facts.read_text())["pid"] != first["pid"],
        what="another process",
    )
    assert get(f"{url}/api/healthz", token) == (200, "success"), "it listens at the same port"
    node.stop()
    assert not facts.exists()
    node.gone()


FAKE = """\
#!{python}
import signal, sys
if "9999" in sys.argv[-1]:
    sys.exit("cannot listen")
signal.pause()
"""


def test_prometheus_is_started_and_ended(node: Node, tmp_path: Path) -> None:
    program = tmp_path / "prometheus"
    program.write_text(FAKE.format(python=sys.executable))
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    node.start()
    assert node.command("metrics", "launch-prometheus", check=False, **path).returncode == 1, "no metrics"
    node.stop()
    node.start("--include-dashboard", "true", "--dashboard-port", "0")
    config = yaml.safe_load(node.command("metrics", "config").stdout)
    (scrape,) = config["scrape_configs"]
    (target,) = json.loads(Path(scrape["file_sd_configs"][0]["files"][0]).read_text())
    token = Path(scrape["authorization"]["credentials_file"]).read_text()
    status, page = get(f"http://{target['targets'][0]}/metrics", token)
    assert status == 200 and "ray_resources" in page and target["labels"] == {"job": "ray"}
    refused = node.command("metrics", "launch-prometheus", "--port", "9999", check=False, **path)
    assert refused.returncode == 1 and "cannot listen" in refused.stderr
    assert "http://127.0.0.1:9090" in node.command("metrics", "launch-prometheus", **path).stdout
    assert node.command("metrics", "launch-prometheus", check=False, **path).returncode == 1, "one is enough"
    assert "has ended" in node.command("metrics", "shutdown-prometheus").stdout
    assert "nothing" in node.command("metrics", "shutdown-prometheus").stdout
    node.stop()
    node.gone()


def test_a_dashboard_that_cannot_listen_does_not_end_the_node(node: Node) -> None:
    node.start()
    node.stop()
    done = node.command("start", "--head", "--num-cpus=1", "--include-dashboard=1", "--dashboard-port=99999")
    assert "port" in done.stderr and "token" not in done.stdout
    assert node.command("health-check").returncode == 0
    node.command("job", "submit", "--submission-id", "said", "--", "sh", "-c", "echo one; echo two")
    assert node.command("logs", "job", "--id", "said", "--tail", "1").stdout == "two\n"
    assert "one\ntwo\n" in node.command("logs", "job", "--id", "said", "--follow").stdout
    assert node.command("logs", "job", "--id", "none", check=False).returncode == 1
    node.stop()
    assert node.command("health-check", check=False).returncode == 1
    refused = node.command(
        "start", "--head", "--include-dashboard=1", "--dashboard-host=0.0.0.0", check=False
    )
    assert refused.returncode == 1 and "proxy" in refused.stderr
    node.gone()


ASKED = """\
import os, sys
import skate as ray

ray.init(START)
print("pid", os.getpid(), ray.get_runtime_context().get_node_id(), flush=True)
sys.stdin.readline()
"""


def test_any_session_of_ones_own_can_be_asked(program: Callable[..., Program], node: Node) -> None:
    started = program(ASKED)
    _, pid, node_id = started.wait_for_output(r"^pid .*").split()
    assert f"(pid {pid})" in node.command("status", "--pid", pid).stdout
    assert "Total Usage:\n" in node.command("status", "--pid", pid, "--ray-format").stdout
    assert node_id in node.command("list", "nodes", "--pid", pid).stdout
    trace = node.folder.parent / "trace.json"
    assert str(trace) in node.command("timeline", "--pid", pid, "-o", str(trace)).stdout
    assert isinstance(json.loads(trace.read_text()), list)
    closed = program(ASKED, SKATE_ATTACH="0")
    _, other, _ = closed.wait_for_output(r"^pid .*").split()
    for unasked in (other, "1"):
        answer = node.command("status", "--pid", unasked, check=False)
        assert answer.returncode == 1 and unasked in answer.stderr
    for each in (started, closed):
        each.write_line("end")
        assert each.end() == 0, each.story()


def test_another_address_needs_a_word(node: Node) -> None:
    ended = node.command("dashboard", "--host", "0.0.0.0", check=False)
    assert ended.returncode == 2 and "proxy" in ended.stderr
    assert node.command("dashboard", check=False).returncode == 1
