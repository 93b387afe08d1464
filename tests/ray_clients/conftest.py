"""A standing node of Skate with a server that accepts jobs, and the session that Ray's programs look at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE
from tests.process.standing import Node
from tests.ray_clients.ray_programs import Client

TOKEN = "the-token-for-everything"
PROGRAM = """
import time
import ray
from ray import serve

ray.init(log_to_driver=False)

@ray.remote
def greet(name):
    print("hello", name)
    return name

@ray.remote
class Counter:
    def add(self):
        print("one more")
        return 1

@serve.deployment
class Greeter:
    async def __call__(self, request):
        return "hello"

counter = Counter.options(name="counter").remote()
ray.get([counter.add.remote(), *[greet.remote(name) for name in ("Ada", "Bob")]])
group = ray.util.placement_group([{"CPU": 1}], name="group")
ray.get(group.ready())
kept = ray.put(b"x" * 10**6)
serve.start(proxy_location="Disabled")
serve.run(Greeter.bind(), name="greeter")
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Start a standing node."""
    made = Node(tmp_path_factory.mktemp("standing") / "node")
    made.start("--log-dir", str(made.folder.parent / "logs"), cpus=4)
    yield made
    made.kill()


@pytest.fixture(scope="module")
def url(node: Node) -> Iterator[str]:
    """Start the server of the node."""
    command = [sys.executable, "-m", "skate.dashboard", "--json", "--jobs", "--port", "0"]
    env = {**os.environ, **node.environment, MARK: node.mark, "PYTHONPATH": SOURCE, "RAY_AUTH_TOKEN": TOKEN}
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.kill()


@pytest.fixture(scope="module")
def client(url: str, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Return a person with real Ray."""
    return Client(url, TOKEN, tmp_path_factory.mktemp("ray"))


@pytest.fixture(scope="module")
def busy(client: Client) -> Iterator[str]:
    """Run a program that has rows of each kind; return the id of its job."""
    work = client.folder / "busy"
    work.mkdir()
    (work / "program.py").write_text(PROGRAM)
    client.ray(
        "job", "submit", "--no-wait", "--submission-id", "busy", "--working-dir", str(work), "--", "python", "program.py"
    )  # fmt: skip

    def is_ready() -> bool:
        text = client.sdk("found = [client.get_job_logs('busy'), client.get_job_status('busy')]")
        assert text[1] in ("PENDING", "RUNNING"), text
        return "ready" in text[0]

    wait_for(is_ready, 60, "the program to be ready")
    yield "busy"
    client.ray("job", "stop", "busy")
