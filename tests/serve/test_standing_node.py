"""Serve on a standing node: applications outlive the program that deployed them (SERVE-18 of the inventory)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.programs import SOURCE
from tests.process.standing import Node

FIRST = """
import skate
from skate import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Stays:
    def __call__(self, request=None):
        return "still here"

skate.init(address="auto", log_to_driver=False)
serve.start(http_options={"port": 0})
print(serve.run(Stays.bind(), name="stays").remote().result())
"""
SECOND = """
import skate
from skate import serve

skate.init(address="auto", log_to_driver=False)
print(skate.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve") is not None)
print(serve.status().applications["stays"].status.value)
print(serve.get_app_handle("stays").remote().result())
serve.shutdown()
"""


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("n"))
    made.start()
    yield made
    made.command("stop", "--force", check=False)


def program(node: Node, text: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": SOURCE, **node.environment},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=str(Path(SOURCE).parent),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_serve_18_applications_outlive_their_driver(node: Node) -> None:
    assert program(node, FIRST)[-1] == "still here"
    assert program(node, SECOND)[-3:] == ["True", "RUNNING", "still here"]
