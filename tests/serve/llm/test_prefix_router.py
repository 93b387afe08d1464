"""The prefix router with running replicas: prompts with a common prefix go to the same replica."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import skate as ray
from skate import serve
from skate.serve.llm.request_router import PrefixCacheAffinityRouter


@pytest.fixture
def session() -> Iterator[None]:
    """Start a session for Serve."""
    ray.init(num_cpus=4)
    try:
        yield
    finally:
        serve.shutdown()
        ray.shutdown()


def test_prompts_that_begin_alike_go_to_the_replica_that_has_had_them(session: None) -> None:
    @serve.deployment(
        num_replicas=3,
        ray_actor_options={"num_cpus": 0},
        request_router_config={"request_router_class": PrefixCacheAffinityRouter},
    )
    class Model:
        def __call__(self, request: dict[str, Any]) -> str:
            return serve.get_replica_context().replica_id.unique_id

    handle = serve.run(Model.bind(), route_prefix=None)
    first = {
        topic: handle.remote({"prompt": f"{topic} " * 40 + "begins here"}).result(timeout_s=30)
        for topic in "abcdef"
    }
    for _ in range(3):
        for topic, replica in first.items():
            later = handle.remote({"prompt": f"{topic} " * 40 + "and continues"}).result(timeout_s=30)
            assert later == replica, f"what begins with {topic} went elsewhere"
