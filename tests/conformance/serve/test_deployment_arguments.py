"""Arguments of `@serve.deployment`, of `.options` and of the other decorators; deployments as records and back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from ray import serve
from ray.serve.config import RequestRouterConfig

deployment = serve.deployment


def f() -> int:
    return 1


CAN_BE: list[tuple[Callable[[], Any], Any]] = [
    (lambda: deployment(num_replicas=2)(f).num_replicas, 2),
    (lambda: deployment(num_replicas="auto", autoscaling_config={"max_replicas": 3})(f).name, "f"),
    (lambda: deployment(num_replicas=None)(f).num_replicas, 1),
    (lambda: deployment(max_ongoing_requests=7)(f).max_ongoing_requests, 7),
    (lambda: deployment(max_queued_requests=3)(f).max_queued_requests, 3),
    (lambda: deployment(user_config=b"x")(f).user_config, b"x"),
    (lambda: deployment(user_config={"a": 1})(f).user_config, {"a": 1}),
    (lambda: deployment(user_config=None)(f).user_config, None),
    (lambda: deployment(ray_actor_options=None)(f).ray_actor_options, {"num_cpus": 1}),
    (lambda: deployment(ray_actor_options={})(f).ray_actor_options, {"num_cpus": 1}),
    (lambda: deployment(ray_actor_options={"num_cpus": 2})(f).ray_actor_options, {"num_cpus": 2}),
    (
        lambda: deployment(ray_actor_options={"num_gpus": 1})(f).ray_actor_options,
        {"num_gpus": 1, "num_cpus": 1},
    ),
    (
        lambda: deployment(ray_actor_options={"runtime_env": {"env_vars": {"A": "1"}}})(f).ray_actor_options,
        {"runtime_env": {"env_vars": {"A": "1"}}, "num_cpus": 1},
    ),
    (
        lambda: deployment(ray_actor_options={"label_selector": {"a": "b"}})(f).ray_actor_options,
        {"label_selector": {"a": "b"}, "num_cpus": 1},
    ),
    (lambda: deployment(max_replicas_per_node=3)(f).name, "f"),
    (lambda: deployment(placement_group_bundles=[{"CPU": 1.0}])(f).name, "f"),
    (
        lambda: (
            deployment(placement_group_bundles=[{"CPU": 1.0}], placement_group_strategy="STRICT_PACK")(f).name
        ),
        "f",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": 0.1}], ray_actor_options={"num_cpus": 0})(f).name,
        "f",
    ),
    (
        lambda: (
            deployment(
                placement_group_bundles=[{"CPU": 1}, {"CPU": 1}],
                placement_group_bundle_label_selector=[{"a": "b"}],
            )(f).name
        ),
        "f",
    ),
    (lambda: deployment(max_constructor_retry_count=3)(f).name, "f"),
    (lambda: deployment(request_router_config=RequestRouterConfig(max_backoff_s=3))(f).name, "f"),
    (lambda: deployment(gang_scheduling_config={"gang_size": 2}, num_replicas=4)(f).num_replicas, 4),
    (lambda: deployment(max_surge_percent=50)(f).name, "f"),
    (lambda: deployment(name="x y")(f).name, "x y"),
    (lambda: deployment(num_replicas=2)(f).options(name="x").num_replicas, 2),
    (lambda: deployment(autoscaling_config={"max_replicas": 3})(f).options(num_replicas=2).num_replicas, 2),
]
#: With the error, and a phrase of it.
CANNOT_BE: list[tuple[Callable[[], Any], type[BaseException], str]] = [
    (lambda: deployment(num_replicas="many")(f), ValidationError, "Input should be a valid integer"),
    (lambda: deployment(num_replicas=0)(f), ValueError, "num_replicas is expected to larger than 0"),
    (lambda: deployment(num_replicas=-1)(f), ValidationError, "Input should be greater than or equal to 0"),
    (lambda: deployment(num_replicas=1.5)(f), ValidationError, "Input should be a valid integer"),
    (
        lambda: deployment(num_replicas=2, autoscaling_config={"max_replicas": 3})(f),
        ValueError,
        "Manually setting num_replicas is not allowed when autoscaling_config is provided.",
    ),
    (
        lambda: deployment(autoscaling_config={"min_replicas": 5, "max_replicas": 3})(f),
        ValidationError,
        "max_replicas (3) must be greater than or equal to min_replicas (5)!",
    ),
    (
        lambda: deployment(autoscaling_config=5)(f),
        ValidationError,
        "Input should be a valid dictionary or instance of AutoscalingConfig",
    ),
    (
        lambda: deployment(autoscaling_config={"policy": {"policy_function": "no.such:f"}})(f),
        ModuleNotFoundError,
        "",
    ),
    (
        lambda: deployment(max_ongoing_requests=None)(f),
        ValueError,
        "`max_ongoing_requests` must be non-null, got None.",
    ),
    (lambda: deployment(max_ongoing_requests=0)(f), ValidationError, "Input should be greater than 0"),
    (lambda: deployment(max_ongoing_requests="x")(f), ValidationError, "Input should be a valid integer"),
    (
        lambda: deployment(max_queued_requests=-2)(f),
        ValidationError,
        "max_queued_requests must be -1 (no limit) or a positive integer.",
    ),
    (lambda: deployment(max_queued_requests=1.5)(f), ValidationError, "Input should be a valid integer"),
    (
        lambda: deployment(user_config={1, 2})(f),
        ValidationError,
        "user_config is not JSON-serializable: Object of type set is not JSON serializable.",
    ),
    (lambda: deployment(health_check_period_s=0)(f), ValidationError, "Input should be greater than 0"),
    (lambda: deployment(health_check_timeout_s=0)(f), ValidationError, "Input should be greater than 0"),
    (
        lambda: deployment(graceful_shutdown_wait_loop_s=-1)(f),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: deployment(graceful_shutdown_timeout_s=-1)(f),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: deployment(ray_actor_options=1.0)(f),
        TypeError,
        "Got invalid type \"<class 'float'>\" for ray_actor_options. Expected a dictionary",
    ),
    (
        lambda: deployment(ray_actor_options=False)(f),
        TypeError,
        "Got invalid type \"<class 'bool'>\" for ray_actor_options. Expected a dictionary",
    ),
    (lambda: deployment(ray_actor_options={"num_cpus": "hello"})(f), TypeError, ""),
    (
        lambda: deployment(ray_actor_options={"num_cpus": -1})(f),
        ValueError,
        "The quantity of resource num_cpus cannot be negative",
    ),
    (lambda: deployment(ray_actor_options={"num_gpus": "hello"})(f), TypeError, ""),
    (lambda: deployment(ray_actor_options={"memory": "hello"})(f), TypeError, ""),
    (
        lambda: deployment(ray_actor_options={"memory": -1})(f),
        ValueError,
        "The quantity of resource memory cannot be negative",
    ),
    (lambda: deployment(ray_actor_options={"resources": []})(f), TypeError, ""),
    (lambda: deployment(ray_actor_options={"resources": {"a": -1}})(f), ValueError, ""),
    (
        lambda: deployment(ray_actor_options={"max_concurrency": 1})(f),
        ValueError,
        "Specifying 'max_concurrency' in ray_actor_options is not allowed. Allowed options",
    ),
    (
        lambda: deployment(ray_actor_options={"max_restarts": 1})(f),
        ValueError,
        "Specifying 'max_restarts' in ray_actor_options is not allowed. Allowed options",
    ),
    (
        lambda: deployment(ray_actor_options={"name": "x"})(f),
        ValueError,
        "Specifying 'name' in ray_actor_options is not allowed. Allowed options",
    ),
    (
        lambda: deployment(ray_actor_options={"lifetime": None})(f),
        ValueError,
        "Specifying 'lifetime' in ray_actor_options is not allowed. Allowed options",
    ),
    (
        lambda: deployment(ray_actor_options={"namespace": None})(f),
        ValueError,
        "Specifying 'namespace' in ray_actor_options is not allowed. Allowed options",
    ),
    (
        lambda: deployment(ray_actor_options={"placement_group": None})(f),
        ValueError,
        "Specifying 'placement_group' in ray_actor_options is not allowed. Allowed options",
    ),
    (
        lambda: deployment(ray_actor_options={"scheduling_strategy": None})(f),
        ValueError,
        "Specifying 'scheduling_strategy' in ray_actor_options is not allowed",
    ),
    (
        lambda: deployment(ray_actor_options={"get_if_exists": True})(f),
        ValueError,
        "Specifying 'get_if_exists' in ray_actor_options is not allowed. Allowed options",
    ),
    (
        lambda: deployment(ray_actor_options={"max_task_retries": 1})(f),
        ValueError,
        "Specifying 'max_task_retries' in ray_actor_options is not allowed. Allowed options",
    ),
    (lambda: deployment(ray_actor_options={"runtime_env": 5})(f), TypeError, ""),
    (
        lambda: deployment(max_replicas_per_node="1")(f),
        TypeError,
        "Get invalid type '<class 'str'>' for max_replicas_per_node",
    ),
    (
        lambda: deployment(max_replicas_per_node=0)(f),
        ValueError,
        "Invalid max_replicas_per_node 0. Valid values are None or an integer in the range of [1",
    ),
    (
        lambda: deployment(max_replicas_per_node=101)(f),
        ValueError,
        "Invalid max_replicas_per_node 101. Valid values are None or an integer in the range of [1",
    ),
    (
        lambda: deployment(placement_group_strategy="PACK")(f),
        ValueError,
        "If `placement_group_strategy` is provided, `placement_group_bundles` must also be provided",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": 1.0}], placement_group_strategy="FAKE_NEWS")(f),
        ValueError,
        "Invalid placement group strategy FAKE_NEWS. Supported strategies are",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": "1.0"}])(f),
        ValueError,
        "Bundles must be a non-empty list of resource dictionaries",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": 0, "GPU": 0}])(f),
        ValueError,
        "Bundles cannot be an empty dictionary or resources with only 0 values. Bundles: [{'CPU': 0",
    ),
    (
        lambda: deployment(placement_group_bundles=[])(f),
        ValueError,
        'Bundles must be a non-empty list of resource dictionaries. For example: `[{"CPU": 1.0}',
    ),
    (
        lambda: deployment(placement_group_bundles={"CPU": 1})(f),
        ValueError,
        "Placement group bundles must be a list, got <class 'dict'>.",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": 0.5}])(f),
        ValueError,
        "When using `placement_group_bundles`",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": 1}], ray_actor_options={"num_gpus": 1})(f),
        ValueError,
        "When using `placement_group_bundles`",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": 1}], ray_actor_options={"resources": {"a": 1}})(
            f
        ),
        ValueError,
        "When using `placement_group_bundles`",
    ),
    (
        lambda: deployment(placement_group_bundles=[{"CPU": 1}], max_replicas_per_node=2)(f),
        ValueError,
        "Setting max_replicas_per_node is not allowed when placement_group_bundles is provided.",
    ),
    (
        lambda: deployment(placement_group_bundle_label_selector=[{"a": "b"}])(f),
        ValueError,
        "If `placement_group_bundle_label_selector` is provided",
    ),
    (
        lambda: deployment(
            placement_group_bundles=[{"CPU": 1}, {"CPU": 1}],
            placement_group_bundle_label_selector=[{"a": "b"}] * 3,
        )(f),
        ValueError,
        "Invalid bundle label selector [{'a': 'b'}, {'a': 'b'}, {'a': 'b'}]",
    ),
    (lambda: deployment(max_constructor_retry_count=0)(f), ValidationError, "Input should be greater than 0"),
    (
        lambda: deployment(max_constructor_retry_count="x")(f),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: deployment(logging_config={"log_level": "LOUD"})(f),
        ValidationError,
        "Got \"LOUD\" for log_level. log_level must be one of ['CRITICAL'",
    ),
    (
        lambda: deployment(request_router_config={"request_router_class": "no.such:R"})(f),
        ModuleNotFoundError,
        "",
    ),
    (
        lambda: deployment(gang_scheduling_config={"gang_size": 2}, num_replicas=3)(f),
        ValidationError,
        "num_replicas (3) must be a multiple of gang_size (2).",
    ),
    (
        lambda: deployment(gang_scheduling_config={"gang_size": 2})(f),
        ValidationError,
        "num_replicas (1) must be a multiple of gang_size (2).",
    ),
    (
        lambda: deployment(max_surge_percent=101)(f),
        ValidationError,
        "Input should be less than or equal to 100",
    ),
    (
        lambda: deployment(backpressure_config={"status_code": 200})(f),
        ValidationError,
        "Input should be 503 or 429",
    ),
    (
        lambda: deployment(nonsense=1)(f),
        TypeError,
        "deployment() got an unexpected keyword argument 'nonsense'",
    ),
    (lambda: deployment(name=5)(f), TypeError, "name must be a string."),
    (
        lambda: deployment(name="a#b")(f),
        ValueError,
        "Deployment names must not contain the '#' character. Current name: a#b.",
    ),
    (
        lambda: deployment(route_prefix="/x")(f),
        TypeError,
        "deployment() got an unexpected keyword argument 'route_prefix'",
    ),
    (
        lambda: deployment(is_driver_deployment=True)(f),
        TypeError,
        "deployment() got an unexpected keyword argument 'is_driver_deployment'",
    ),
    (
        lambda: deployment(max_concurrent_queries=3)(f),
        TypeError,
        "deployment() got an unexpected keyword argument 'max_concurrent_queries'",
    ),
]


def line(case: tuple[Any, ...]) -> str:
    return f"line {case[0].__code__.co_firstlineno}"


@pytest.fixture(autouse=True)
def deprecated_too() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("made", "value"), CAN_BE, ids=map(line, CAN_BE))
def test_what_can_be(made: Callable[[], Any], value: Any) -> None:
    assert made() == value


@pytest.mark.parametrize(("made", "kind", "message"), CANNOT_BE, ids=map(line, CANNOT_BE))
def test_what_cannot_be(made: Callable[[], Any], kind: type[BaseException], message: str) -> None:
    with pytest.raises(kind) as caught:
        made()
    assert message in str(caught.value)
