"""Config files, the command and the REST API."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve.config_loader import read
from skate.serve.schema import ServeDeploySchema

PROGRAM = """
from skate import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Says:
    def __init__(self, word="plain"):
        self.word = word

    def __call__(self, request=None):
        return self.word

app = Says.bind()

def builder(args):
    return Says.bind(args.get("word", "none"))
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (
            {"applications": [{"import_path": "p:app", "route": "/"}]},
            "no field 'route'.*did you mean 'route_prefix'",
        ),
        ({"applications": [{"name": "x"}]}, "requires import_path"),
        ({}, "requires applications"),
        ({"applications": [{"import_path": "app"}]}, "must contain at least on dot or colon"),
        (
            {"applications": [{"import_path": "p:app", "route_prefix": "api"}]},
            "must start with a forward slash",
        ),
        (
            {"applications": [{"import_path": "p:a"}, {"import_path": "p:b"}]},
            "application names must be unique, but number 1 and number 2 of the applications both have 'default'",
        ),
        ({"applications": [], "http_options": {"port": "many"}}, "port must be a whole number, got 'many'"),
        ({"applications": [], "proxy_location": "Somewhere"}, "one of 'Disabled', 'HeadOnly', 'EveryNode'"),
        ({"applications": [], "target_capacity": 120}, "percentage"),
    ],
)
def test_files_that_cannot_be(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ServeDeploySchema.model_validate(config)


def test_a_misspelt_option_of_a_deployment(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    file = tmp_path / "c.yaml"
    file.write_text("applications: [{import_path: 'p:app', deployments: [{name: A, num_replcas: 2}]}]")
    with pytest.raises(ValueError, match=r"c.yaml, line 1: .*'num_replcas'; did you mean 'num_replicas'"):
        read(str(file))


def skate_serve(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-m", "skate", "serve", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, env=environment)


def test_build_writes_what_run_reads(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "built_program.py").write_text(PROGRAM)
    done = skate_serve("build", "built_program:app", "-o", "c.yaml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    schema = read(str(tmp_path / "c.yaml"))
    assert [each.import_path for each in schema.applications] == ["built_program:app"]
    assert [each.name for each in schema.applications[0].deployments] == ["Says"]


def test_run_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "wrong_program.py").write_text("app = 5")
    done = skate_serve("run", "wrong_program:app", folder=tmp_path)
    assert (
        done.returncode == 1
        and "Expected a built Serve application or an application builder function" in done.stderr
    )


@pytest.fixture
def rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from skate.serve.rest import RestServer

    (tmp_path / "rest_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    skate.init(num_cpus=2, log_to_driver=False)
    port = free_port()
    server = RestServer("secret", port=port)

    def ask(method: str, body: Any = None, token: str = "secret", more: str = "") -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/serve/applications/{more}",
            method=method,
            data=None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    deadline = time.monotonic() + 20
    pause = threading.Event()
    while True:
        try:
            ask("GET")
            break
        except OSError:
            assert time.monotonic() < deadline, "the REST API never answered"
            pause.wait(0.01)
    yield ask
    server.close()
    serve.shutdown()
    skate.shutdown()


def test_rest(rest: Any) -> None:
    pause = threading.Event()

    def until(condition: Any, what: str) -> None:
        deadline = time.monotonic() + 30
        while not condition(rest("GET")[1]["applications"]):
            assert time.monotonic() < deadline, f"waited 30 s for {what}: {rest('GET')[1]}"
            pause.wait(0.02)

    assert rest("GET", token="wrong")[0] == 401
    assert rest("PUT", b"{oh")[0] == 400
    assert "did you mean" in rest("PUT", {"aplications": []})[1]["error"]
    app = {
        "name": "a",
        "route_prefix": "/a",
        "import_path": "rest_program:builder",
        "args": {"word": "by rest"},
        "external_scaler_enabled": True,
    }
    config = {"http_options": {"host": "127.0.0.1", "port": free_port()}, "applications": [app]}
    assert rest("PUT", config) == (200, {})
    until(lambda apps: apps.get("a", {}).get("status") == "RUNNING", "the application to run")
    assert serve.get_app_handle("a").remote().result() == "by rest"
    assert rest("POST", {"target_num_replicas": 2}, more="a/deployments/Says/scale")[0] == 200
    until(lambda apps: len(apps["a"]["deployments"]["Says"]["replicas"]) == 2, "two replicas")
    assert rest("POST", {"target_num_replicas": 2}, more="a/deployments/Nobody/scale")[0] == 404
    app["name"] = "b"
    assert rest("PUT", config) == (200, {})
    until(lambda apps: set(apps) == {"b"} and apps["b"]["status"] == "RUNNING", "only the new application")
    assert rest("DELETE")[0] == 200
    assert rest("GET")[1]["applications"] == {}
