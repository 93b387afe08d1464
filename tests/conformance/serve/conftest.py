"""Serve for a module's tests: one cluster, one listener on a free port, applications side by side under routes of their own.

The programs of the whole suite run with ``ON_SKATE`` false where real Ray is installed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import ray
from ray import serve

os.environ.setdefault("RAY_SERVE_LOG_TO_STDERR", "0")

#: Replicas that take no CPU, so that many fit on a small machine.
LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(own_cluster: None) -> Iterator[str]:
    """The address of a Serve that the tests of a module share."""
    port = free_port()
    target = {"address": "local"} if os.environ.get("SKATE_CONFORMANCE_TARGET") == "ray" else {}
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, num_gpus=0, **target)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="module")
def http(server: str) -> Iterator[httpx.Client]:
    """A client of it that keeps its connections."""
    with httpx.Client(base_url=server, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
def deploy(server: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Runs an application of this test alone, under its own name and route, and ends it: ``deploy(app).remote()``."""
    made: list[str] = []

    def run(app: Any, name: str | None = None, **options: Any) -> Any:
        name = name or f"{request.node.name}-{len(made)}"[-60:].replace("[", "-").replace("]", "")
        made.append(name)
        options.setdefault("route_prefix", f"/{name}")
        return serve.run(app, name=name, **options)

    run.names = made  # type: ignore[attr-defined]
    yield run
    for name in made:
        serve.delete(name)
