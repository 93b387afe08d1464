"""Autoscaling policies of programs: what they see of replicas, and where the number of replicas begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from ray.serve.schema import ServeApplicationSchema

from tests.conformance.waiting import wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
QUICK: dict[str, Any] = {
    "min_replicas": 1,
    "max_replicas": 4,
    "upscale_delay_s": 0,
    "downscale_delay_s": 0,
    "metrics_interval_s": 0.1,
    "look_back_period_s": 1,
    "aggregation_function": "max",
}


def by_recorded_numbers(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Return the largest recorded number, if the two forms of the metrics agree on it."""
    numbers = (context.aggregated_metrics or {}).get("wanted", {})
    series = (context.raw_metrics or {}).get("wanted", {})
    known = {
        replica for replica in context.running_replicas if replica.deployment_id == context.deployment_id
    }
    agree = set(numbers) == set(series) <= known
    last = [each.value for times in series.values() for each in times if each.timestamp > 0]
    return (int(max(numbers.values())) if numbers and agree and max(last) == max(numbers.values()) else 1), {}


def replicas(app: str, deployment: str) -> int:
    states = serve.status().applications[app].deployments[deployment].replica_states
    return sum(count for state, count in states.items() if state == "RUNNING")


def test_a_policy_sees_what_the_replicas_record(deploy: Callable[..., Any]) -> None:
    @serve.deployment(
        autoscaling_config={**QUICK, "policy": AutoscalingPolicy(policy_function=by_recorded_numbers)},
        **LIGHT,
    )
    class Recorded:
        def __init__(self) -> None:
            self.wanted = 1

        async def __call__(self, wanted: int) -> None:
            self.wanted = wanted

        def record_autoscaling_stats(self) -> dict[str, float]:
            return {"wanted": self.wanted}

    handle = deploy(Recorded.bind(), "recorded")
    handle.remote(3).result(timeout_s=30)
    wait_for(lambda: replicas("recorded", "Recorded") == 3, what="three replicas")


def test_initial_replicas_count_again_when_a_deployment_changes(deploy: Callable[..., Any]) -> None:
    slow = {"min_replicas": 1, "max_replicas": 4, "upscale_delay_s": 600, "downscale_delay_s": 600}

    @serve.deployment(**LIGHT)
    class Some:
        def __call__(self) -> int:
            return 1

    def run(**options: Any) -> int:
        app = Some.options(autoscaling_config=AutoscalingConfig(**slow, **options)).bind()
        deploy(app, "initial").remote().result(timeout_s=30)
        return replicas("initial", "Some")

    assert [run(initial_replicas=2), run(), run(initial_replicas=3)] == [2, 2, 3]


def test_values_of_a_context_may_be_functions_that_are_called_once() -> None:
    calls: list[str] = []

    def later(name: str, value: Any) -> Callable[[], Any]:
        def called() -> Any:
            calls.append(name)
            return value

        return called

    names = ("total_num_requests", "total_queued_requests", "aggregated_metrics", "raw_metrics")
    nothing = {
        "deployment_id": None,
        "deployment_name": "D",
        "app_name": None,
        "current_num_replicas": 1,
        "target_num_replicas": 1,
        "running_replicas": [],
        "capacity_adjusted_min_replicas": 1,
        "capacity_adjusted_max_replicas": 2,
        "policy_state": {},
        "last_scale_up_time": None,
        "last_scale_down_time": None,
        "current_time": None,
        "config": None,
    }
    context = AutoscalingContext(**nothing, **{name: later(name, at) for at, name in enumerate(names)})
    assert not calls
    for _ in range(2):
        assert [getattr(context, name) for name in names] == [0, 1, 2, 3]
    assert sorted(calls) == sorted(names)


def test_an_application_of_a_file_takes_the_record_of_a_policy() -> None:
    policy = AutoscalingPolicy(policy_function=by_recorded_numbers)
    made = ServeApplicationSchema(import_path="a:b", autoscaling_policy=policy)
    assert made.autoscaling_policy["policy_function"].endswith("by_recorded_numbers")
