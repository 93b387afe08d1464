"""An application that begins without a replica is served from its first request on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from ray import serve

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_application_that_begins_with_no_replica_is_answered_over_http_at_the_first_request(
    method: str, deploy: Callable[..., Any], http: httpx.Client
) -> None:
    @serve.deployment(
        autoscaling_config={
            "min_replicas": 0,
            "max_replicas": 1,
            "upscale_delay_s": 0.1,
            "metrics_interval_s": 0.1,
            "look_back_period_s": 0.2,
        },
        graceful_shutdown_wait_loop_s=0.1,
        **LIGHT,
    )
    class Asleep:
        async def __call__(self, request: Any) -> str:
            return f"awake {(await request.body()).decode()}"

    deploy(Asleep.bind(), f"zero{method}")
    running = serve.status().applications[f"zero{method}"].deployments["Asleep"].replica_states
    assert not sum(running.values())
    answer = http.request(method, f"/zero{method}", content=b"x" if method == "POST" else b"")
    assert (answer.status_code, answer.text) == (200, "awake x" if method == "POST" else "awake ")
