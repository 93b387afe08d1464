"""Records of settings (`ray.serve.config`): conversions of values, and rejected values."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
from pydantic import ValidationError
from ray.serve.config import (
    AutoscalingConfig,
    AutoscalingPolicy,
    BackpressureConfig,
    ControllerOptions,
    DeploymentActorConfig,
    GangSchedulingConfig,
    HTTPOptions,
    ProxyLocation,
    RequestRouterConfig,
    gRPCOptions,
)
from ray.serve.schema import LoggingConfig, TracingConfig


def f() -> int:
    return 1


class C:
    def __call__(self) -> int:
        return 1


CAN_BE: list[tuple[Callable[[], Any], Any]] = [
    (
        lambda: AutoscalingConfig(min_replicas=2, max_replicas=4).model_dump(exclude_unset=True),
        {"min_replicas": 2, "max_replicas": 4},
    ),
    (lambda: AutoscalingConfig(metrics_interval_s=5).metrics_interval_s, 5.0),
    (lambda: AutoscalingConfig(downscale_to_zero_delay_s=0).downscale_to_zero_delay_s, 0.0),
    (lambda: AutoscalingConfig(initial_replicas=0, min_replicas=0).initial_replicas, 0),
    (lambda: AutoscalingConfig(min_replicas="2", max_replicas="3").max_replicas, 3),
    (lambda: AutoscalingConfig(upscaling_factor=2).get_upscaling_factor(), 2.0),
    (lambda: AutoscalingConfig(smoothing_factor=0.5).get_upscaling_factor(), 0.5),
    (lambda: AutoscalingConfig(smoothing_factor=0.5).get_downscaling_factor(), 0.5),
    (lambda: AutoscalingConfig(upscale_smoothing_factor=3).get_upscaling_factor(), 3.0),
    (
        lambda: AutoscalingConfig(
            downscale_smoothing_factor=3, downscaling_factor=4
        ).get_downscaling_factor(),
        4.0,
    ),
    (lambda: AutoscalingConfig(target_ongoing_requests=3).get_target_ongoing_requests(), 3.0),
    (
        lambda: AutoscalingConfig(policy={"policy_function": "json:dumps"}).policy.policy_function,
        "json:dumps",
    ),
    (
        lambda: AutoscalingConfig(
            policy={"policy_function": "json:dumps"}
        ).policy.is_default_policy_function(),
        False,
    ),
    (
        lambda: AutoscalingConfig(policy={"policy_function": "json.dumps"}).policy.policy_function,
        "json.dumps",
    ),
    (lambda: AutoscalingConfig(policy={"policy_function": json.dumps}).policy.policy_function, "json.dumps"),
    (
        lambda: AutoscalingConfig(policy=AutoscalingPolicy(policy_function="json:dumps")).policy.get_policy()(
            [1]
        ),
        "[1]",
    ),
    (
        lambda: AutoscalingConfig().policy.policy_function,
        "ray.serve.autoscaling_policy:default_autoscaling_policy",
    ),
    (lambda: AutoscalingConfig(min_replicas=0) == AutoscalingConfig(min_replicas=0), True),
    (lambda: AutoscalingConfig(min_replicas=0) == AutoscalingConfig(), False),
    (lambda: AutoscalingConfig(upscaling_factor=1) == AutoscalingConfig(), False),
    (lambda: AutoscalingPolicy() == AutoscalingPolicy(), True),
    (lambda: AutoscalingPolicy(policy_kwargs={"a": 1}).policy_kwargs, {"a": 1}),
    (lambda: AutoscalingPolicy(policy_function="json:dumps").get_serialized_policy_def() != b"", True),
    (
        lambda: AutoscalingPolicy.from_serialized_policy_def(
            {"policy_function": "json:dumps"}, cloudpickle.dumps(json.loads)
        ).get_policy()("[1]"),
        [1],
    ),
    (lambda: RequestRouterConfig(request_router_class=C).get_request_router_class() is C, True),
    (
        lambda: (
            RequestRouterConfig(request_router_class="json:JSONEncoder").get_request_router_class().__name__
        ),
        "JSONEncoder",
    ),
    (
        lambda: RequestRouterConfig(request_router_class="json.JSONEncoder").request_router_class,
        "json.JSONEncoder",
    ),
    (lambda: RequestRouterConfig() == RequestRouterConfig(), True),
    (lambda: RequestRouterConfig(max_backoff_s=1) == RequestRouterConfig(), False),
    (lambda: HTTPOptions(host=None).host, None),
    (lambda: HTTPOptions(location=None).location, None),
    (lambda: HTTPOptions(request_timeout_s=None).request_timeout_s, None),
    (lambda: HTTPOptions(root_path="/x").root_path, "/x"),
    (lambda: HTTPOptions(keep_alive_timeout_s=0).keep_alive_timeout_s, 0),
    (lambda: HTTPOptions(ssl_keyfile="a", ssl_certfile="b").ssl_keyfile, "a"),
    (lambda: gRPCOptions(port=9001).port, 9001),
    (
        lambda: (
            gRPCOptions(grpc_servicer_functions=["json:dumps"]).grpc_servicer_func_callable == [json.dumps]
        ),
        True,
    ),
    (lambda: ProxyLocation.EveryNode.value, "EveryNode"),
    (lambda: BackpressureConfig().model_dump(), {"status_code": 503, "retry_after_s": None}),
    (lambda: BackpressureConfig(status_code=429).status_code, 429),
    (lambda: BackpressureConfig(retry_after_s=1.5).retry_after_s, 1.5),
    (lambda: ControllerOptions().model_dump(), {"runtime_env": None}),
    (lambda: ControllerOptions(runtime_env={"env_vars": {"A": "b"}}).runtime_env, {"env_vars": {"A": "b"}}),
    (lambda: DeploymentActorConfig(name="a", actor_class="json:JSONEncoder").name, "a"),
    (lambda: LoggingConfig(encoding="JSON").encoding, "JSON"),
    (lambda: LoggingConfig(log_level=10).log_level, "DEBUG"),
    (lambda: LoggingConfig(logs_dir="/x").logs_dir, "/x"),
    (
        lambda: LoggingConfig(additional_log_standard_attrs=["name", "name"]).additional_log_standard_attrs,
        ["name"],
    ),
    (lambda: LoggingConfig() == LoggingConfig(), True),
    (lambda: LoggingConfig(log_level="DEBUG") == LoggingConfig(), False),
    (
        lambda: TracingConfig().model_dump(),
        {"enabled": False, "exporter_import_path": "", "sampling_ratio": 0.01},
    ),
]
#: With the error, and a phrase of it.
CANNOT_BE: list[tuple[Callable[[], Any], type[BaseException], str]] = [
    (lambda: AutoscalingConfig(target_ongoing_requests=0), ValidationError, "Input should be greater than 0"),
    (
        lambda: AutoscalingConfig(target_ongoing_requests=-1),
        ValidationError,
        "Input should be greater than 0",
    ),
    (
        lambda: AutoscalingConfig(target_ongoing_requests="x"),
        ValidationError,
        "Input should be a valid number",
    ),
    (lambda: AutoscalingConfig(smoothing_factor=0), ValidationError, "Input should be greater than 0"),
    (
        lambda: AutoscalingConfig(upscale_smoothing_factor=0),
        ValidationError,
        "Input should be greater than 0",
    ),
    (lambda: AutoscalingConfig(upscaling_factor=-1), ValidationError, "Input should be greater than 0"),
    (lambda: AutoscalingConfig(downscaling_factor=0), ValidationError, "Input should be greater than 0"),
    (
        lambda: AutoscalingConfig(upscale_delay_s=-1),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: AutoscalingConfig(downscale_delay_s=-0.1),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: AutoscalingConfig(downscale_to_zero_delay_s=-1),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (lambda: AutoscalingConfig(look_back_period_s=0), ValidationError, "Input should be greater than 0"),
    (lambda: AutoscalingConfig(metrics_interval_s=0), ValidationError, "Input should be greater than 0"),
    (
        lambda: AutoscalingConfig(initial_replicas=-1, min_replicas=0),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (lambda: AutoscalingConfig(min_replicas=None), ValidationError, "Input should be a valid integer"),
    (lambda: AutoscalingConfig(max_replicas=None), ValidationError, "Input should be a valid integer"),
    (lambda: AutoscalingConfig(max_replicas=2.5), ValidationError, "Input should be a valid integer"),
    (
        lambda: AutoscalingConfig(aggregation_function="sum"),
        ValidationError,
        "'sum' is not a valid AggregationFunction",
    ),
    (lambda: AutoscalingConfig(policy={"policy_function": "i.dont.exist:x"}), ModuleNotFoundError, ""),
    (lambda: AutoscalingConfig(policy={"policy_function": "i.dont.exist"}), ModuleNotFoundError, ""),
    (
        lambda: AutoscalingConfig(policy="json:dumps"),
        ValidationError,
        "Input should be a valid dictionary or instance of AutoscalingPolicy",
    ),
    (
        lambda: AutoscalingPolicy(policy_kwargs={"a": {1}}),
        ValidationError,
        "policy_kwargs is not JSON-serializable: Object of type set is not JSON serializable.",
    ),
    (
        lambda: AutoscalingPolicy(policy_function="json:nothing"),
        AttributeError,
        "module 'json' has no attribute 'nothing'",
    ),
    (lambda: AutoscalingPolicy(policy_function=3), ValidationError, "Input should be a valid string"),
    (lambda: RequestRouterConfig(request_router_class="no.such:Thing"), ModuleNotFoundError, ""),
    (
        lambda: RequestRouterConfig(request_router_class="json:Nothing"),
        AttributeError,
        "module 'json' has no attribute 'Nothing'",
    ),
    (lambda: RequestRouterConfig(request_router_class=5), ValidationError, "Input should be a valid string"),
    (
        lambda: RequestRouterConfig(request_router_kwargs={"a": {1}}),
        ValidationError,
        "request_router_kwargs is not JSON-serializable",
    ),
    (
        lambda: RequestRouterConfig(request_router_kwargs=[1]),
        ValidationError,
        "Input should be a valid dictionary",
    ),
    (
        lambda: RequestRouterConfig(request_router_kwargs=None),
        ValidationError,
        "Input should be a valid dictionary",
    ),
    (
        lambda: RequestRouterConfig(request_routing_stats_period_s=0),
        ValidationError,
        "Input should be greater than 0",
    ),
    (
        lambda: RequestRouterConfig(request_routing_stats_timeout_s=-1),
        ValidationError,
        "Input should be greater than 0",
    ),
    (lambda: RequestRouterConfig(initial_backoff_s=0), ValidationError, "Input should be greater than 0"),
    (lambda: RequestRouterConfig(backoff_multiplier=0), ValidationError, "Input should be greater than 0"),
    (lambda: RequestRouterConfig(max_backoff_s=-1), ValidationError, "Input should be greater than 0"),
    (lambda: HTTPOptions(location="Nowhere"), ValidationError, "'Nowhere' is not a valid ProxyLocation"),
    (lambda: HTTPOptions(port=None), ValidationError, "Input should be a valid integer"),
    (lambda: HTTPOptions(port="x"), ValidationError, "Input should be a valid integer"),
    (lambda: HTTPOptions(num_cpus=2), ValidationError, "`num_cpus` in HTTPOptions has been removed"),
    (lambda: HTTPOptions(root_path=None), ValidationError, "Input should be a valid string"),
    (lambda: HTTPOptions(keep_alive_timeout_s=1.5), ValidationError, "Input should be a valid integer"),
    (
        lambda: HTTPOptions(ssl_certfile="a"),
        ValidationError,
        "Both ssl_keyfile and ssl_certfile must be provided together to enable HTTPS.",
    ),
    (lambda: gRPCOptions(port="x"), ValidationError, "Input should be a valid integer"),
    (lambda: gRPCOptions(grpc_servicer_functions="x"), ValidationError, "Input should be a valid list"),
    (
        lambda: gRPCOptions(grpc_servicer_functions=["no.such.f"]).grpc_servicer_func_callable,
        ModuleNotFoundError,
        "no.such.f can't be imported!",
    ),
    (
        lambda: gRPCOptions(grpc_servicer_functions=["json:nothing"]).grpc_servicer_func_callable,
        AttributeError,
        "module 'json' has no attribute 'nothing'",
    ),
    (
        lambda: gRPCOptions(grpc_servicer_functions=["json:decoder"]).grpc_servicer_func_callable,
        ValueError,
        "json",
    ),
    (lambda: ProxyLocation("x"), ValueError, "'x' is not a valid ProxyLocation"),
    (lambda: GangSchedulingConfig(), ValidationError, "Field required"),
    (
        lambda: GangSchedulingConfig(gang_size=0),
        ValidationError,
        "Input should be greater than or equal to 1",
    ),
    (
        lambda: GangSchedulingConfig(gang_size=2, gang_placement_strategy="X"),
        ValidationError,
        "Input should be 'PACK' or 'SPREAD'",
    ),
    (
        lambda: (
            GangSchedulingConfig(gang_size=2, runtime_failure_policy="RESTART_REPLICA").runtime_failure_policy
        ),
        RuntimeError,
        "RESTART_REPLICA policy is not yet implemented",
    ),
    (lambda: BackpressureConfig(status_code=200), ValidationError, "Input should be 503 or 429"),
    (lambda: BackpressureConfig(status_code=600), ValidationError, "Input should be 503 or 429"),
    (
        lambda: BackpressureConfig(retry_after_s=-1),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (lambda: ControllerOptions(runtime_env=3), ValidationError, "Input should be a valid dictionary"),
    (lambda: DeploymentActorConfig(actor_class=C), ValidationError, "Field required"),
    (lambda: DeploymentActorConfig(name="a"), ValidationError, "Field required"),
    (lambda: LoggingConfig(encoding="json"), ValidationError, "Got 'json' for encoding"),
    (
        lambda: LoggingConfig(log_level="loud"),
        ValidationError,
        "Got \"loud\" for log_level. log_level must be one of ['CRITICAL'",
    ),
    (lambda: LoggingConfig(enable_access_log=None), ValidationError, "Input should be a valid boolean"),
    (
        lambda: LoggingConfig(additional_log_standard_attrs=["nope"]),
        ValidationError,
        "Unknown attribute 'nope'",
    ),
    (
        lambda: LoggingConfig(additional_log_standard_attrs="name"),
        ValidationError,
        "Input should be a valid list",
    ),
    (lambda: LoggingConfig(unknown=1), ValidationError, ""),
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
