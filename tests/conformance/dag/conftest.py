"""One node for each file of tests of graphs, and graphs that are torn down after their test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray

ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"


@pytest.fixture(scope="module", autouse=True)
def node() -> Iterator[None]:
    """A node with two CPUs; it is there before what a module shares."""
    ray.shutdown()
    elsewhere = {} if ON_SKATE else {"address": "local"}
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, **elsewhere)
    yield
    ray.shutdown()


@pytest.fixture
def compile_() -> Iterator[Callable[..., Any]]:
    """Compiles a graph and tears it down after the test."""
    made: list[Any] = []

    def build(node: Any, **options: Any) -> Any:
        made.append(node.experimental_compile(**options))
        return made[-1]

    yield build
    for graph in made:
        graph.teardown()
