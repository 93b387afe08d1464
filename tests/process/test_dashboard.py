"""The server beside a session as a real process: it starts on request, answers, and ends with the session."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE, Program
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
    url = "http://" + started.said(r"^at .*").split()[1]
    port = url.rpartition(":")[2]
    found = re.search(r"#token=(\S+)", started.err)
    assert found is not None and url in started.err, started.story()
    status, page = get(f"{url}/metrics", found[1])
    assert status == 200 and re.search(r"^ray_counted_total\{.*\} 5.0$", page, re.MULTILINE), page
    assert get(f"{url}/metrics", "wrong")[0] == 403
    assert get(f"{url}/metrics", found[1], Host="evil.test")[0] == 421
    assert listens(port)
    if how == "shutdown":
        started.tell("end")
        started.said("closed")
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


def test_another_address_needs_a_word(node: Node) -> None:
    ended = node.command("dashboard", "--host", "0.0.0.0", check=False)
    assert ended.returncode == 2 and "proxy" in ended.stderr
    assert node.command("dashboard", check=False).returncode == 1
