"""Options of deployments: valid and invalid values, and the messages for invalid ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ray import serve
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.schema import LoggingConfig


class Some:
    def __call__(self) -> None: ...


def function() -> None: ...


Deployed = serve.deployment(Some)

NOT_BOTH = "Manually setting num_replicas is not allowed when autoscaling_config is provided"
FIRST_BUNDLE = "the resource requirements for the actor must be a subset of the first bundle"
NO_RESOURCES = "Bundles cannot be an empty dictionary or resources with only 0 values"
PER_NODE = r"None or an integer in the range of \[1, 100\]"
GREATER, NOT_LESS = "Input should be greater than 0", "Input should be greater than or equal to 0"

REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_replicas": 0}, ValueError, "num_replicas is expected to larger than 0"),
    ({"num_replicas": -1}, ValueError, NOT_LESS),
    ({"num_replicas": 1.5}, ValueError, "Input should be a valid integer"),
    ({"num_replicas": "many"}, ValueError, ""),
    ({"num_replicas": 2, "autoscaling_config": {"max_replicas": 3}}, ValueError, NOT_BOTH),
    ({"max_ongoing_requests": None}, ValueError, "`max_ongoing_requests` must be non-null, got None."),
    ({"max_ongoing_requests": 0}, ValueError, GREATER),
    ({"max_ongoing_requests": -1}, ValueError, GREATER),
    ({"max_ongoing_requests": 1.5}, ValueError, "Input should be a valid integer"),
    (
        {"max_queued_requests": -2},
        ValueError,
        r"max_queued_requests must be -1 \(no limit\) or a positive integer",
    ),
    ({"max_queued_requests": 1.5}, ValueError, "Input should be a valid integer"),
    ({"user_config": lambda: 1}, ValueError, "user_config is not JSON-serializable"),
    ({"user_config": {"a": object()}}, ValueError, "user_config is not JSON-serializable"),
    ({"graceful_shutdown_timeout_s": -1}, ValueError, NOT_LESS),
    ({"graceful_shutdown_timeout_s": "x"}, ValueError, "Input should be a valid number"),
    ({"health_check_period_s": 0}, ValueError, GREATER),
    ({"health_check_timeout_s": -1}, ValueError, GREATER),
    ({"ray_actor_options": [1]}, TypeError, "for ray_actor_options. Expected a dictionary"),
    (
        {"ray_actor_options": {"max_restarts": 1}},
        ValueError,
        "Specifying 'max_restarts' in ray_actor_options is not allowed",
    ),
    (
        {"ray_actor_options": {"name": "x"}},
        ValueError,
        "Specifying 'name' in ray_actor_options is not allowed",
    ),
    ({"ray_actor_options": {"lifetime": "detached"}}, ValueError, "in ray_actor_options is not allowed"),
    ({"ray_actor_options": {"num_cpus": -1}}, ValueError, ""),
    ({"ray_actor_options": {"num_cpus": "x"}}, TypeError, ""),
    ({"ray_actor_options": {"resources": {"CPU": 1}}}, ValueError, ""),
    ({"ray_actor_options": {"runtime_env": "x"}}, TypeError, "The type of keyword 'runtime_env' must be"),
    (
        {"placement_group_bundles": []},
        ValueError,
        "Bundles must be a non-empty list of resource dictionaries",
    ),
    (
        {"placement_group_bundles": "x"},
        ValueError,
        "Placement group bundles must be a list, got <class 'str'>",
    ),
    ({"placement_group_bundles": [{}]}, ValueError, NO_RESOURCES),
    ({"placement_group_bundles": [{"CPU": 0, "GPU": 0}]}, ValueError, NO_RESOURCES),
    ({"placement_group_bundles": [{"CPU": 0.5}]}, ValueError, FIRST_BUNDLE),
    (
        {"placement_group_bundles": [{"CPU": 1}], "ray_actor_options": {"num_cpus": 2}},
        ValueError,
        FIRST_BUNDLE,
    ),
    (
        {"placement_group_bundles": [{"CPU": 1}], "ray_actor_options": {"num_gpus": 1}},
        ValueError,
        FIRST_BUNDLE,
    ),
    (
        {"placement_group_bundles": [{"CPU": 1}], "ray_actor_options": {"resources": {"a": 1}}},
        ValueError,
        FIRST_BUNDLE,
    ),
    ({"placement_group_strategy": "PACK"}, ValueError, "If `placement_group_strategy` is provided"),
    (
        {"placement_group_bundle_label_selector": [{"a": "b"}]},
        ValueError,
        "`placement_group_bundles` must also be provided",
    ),
    (
        {"placement_group_bundles": [{"CPU": 1}], "placement_group_strategy": "X"},
        ValueError,
        "Invalid placement group strategy X. Supported strategies are",
    ),
    (
        {"placement_group_bundles": [{"CPU": 1}], "max_replicas_per_node": 2},
        ValueError,
        "Setting max_replicas_per_node is not allowed when placement_group_bundles is provided",
    ),
    (
        {"max_replicas_per_node": 0},
        ValueError,
        "Invalid max_replicas_per_node 0. Valid values are " + PER_NODE,
    ),
    ({"max_replicas_per_node": 101}, ValueError, "Invalid max_replicas_per_node 101"),
    ({"max_replicas_per_node": 1.5}, TypeError, "max_replicas_per_node. Expected " + PER_NODE),
    ({"max_replicas_per_node": "2"}, TypeError, "Get invalid type"),
    ({"name": "a#b"}, ValueError, "Deployment names must not contain the '#' character. Current name: a#b."),
    ({"name": 5}, TypeError, "name must be a string"),
    (
        {"autoscaling_config": {"min_replicas": 2, "max_replicas": 1}},
        ValueError,
        r"max_replicas \(1\) must be greater than",
    ),
    ({"autoscaling_config": {"initial_replicas": 5}}, ValueError, r"or equal to initial_replicas \(5\)"),
    ({"autoscaling_config": {"initial_replicas": 0}}, ValueError, r"or equal to initial_replicas \(0\)"),
    ({"autoscaling_config": {"min_replicas": -1}}, ValueError, NOT_LESS),
    ({"autoscaling_config": {"max_replicas": 0}}, ValueError, GREATER),
    ({"autoscaling_config": {"target_ongoing_requests": 0}}, ValueError, GREATER),
    ({"autoscaling_config": {"upscale_delay_s": -1}}, ValueError, NOT_LESS),
    ({"autoscaling_config": {"downscale_delay_s": -1}}, ValueError, NOT_LESS),
    ({"autoscaling_config": {"downscale_to_zero_delay_s": -1}}, ValueError, NOT_LESS),
    ({"autoscaling_config": {"upscaling_factor": 0}}, ValueError, GREATER),
    ({"autoscaling_config": {"smoothing_factor": 0}}, ValueError, GREATER),
    ({"autoscaling_config": {"aggregation_function": "x"}}, ValueError, ""),
    ({"autoscaling_config": {"min_replicas": 1.5}}, ValueError, "Input should be a valid integer"),
    ({"autoscaling_config": {"policy": 5}}, ValueError, ""),
    ({"autoscaling_config": 5}, ValueError, ""),
    ({"backpressure_config": {"status_code": 500}}, ValueError, "Input should be 503 or 429"),
    ({"backpressure_config": {"retry_after_s": -1}}, ValueError, NOT_LESS),
    ({"backpressure_config": 5}, ValueError, ""),
    ({"request_router_config": {"request_routing_stats_period_s": 0}}, ValueError, GREATER),
    ({"request_router_config": {"initial_backoff_s": -1}}, ValueError, GREATER),
    (
        {"request_router_config": {"request_router_kwargs": {"a": object()}}},
        ValueError,
        "is not JSON-serializable",
    ),
    ({"logging_config": {"log_level": "x"}}, ValueError, 'Got "x" for log_level. log_level must be one of'),
    ({"logging_config": {"encoding": "x"}}, ValueError, ""),
    ({"logging_config": {"zzz": 1}}, ValueError, "Extra inputs are not permitted"),
    ({"max_surge_percent": -1}, ValueError, NOT_LESS),
    ({"max_surge_percent": 101}, ValueError, "Input should be less than or equal to 100"),
    ({"max_constructor_retry_count": 0}, ValueError, GREATER),
    ({"gang_scheduling_config": {"gang_size": 0}}, ValueError, ""),
    ({"gang_scheduling_config": {}}, ValueError, "Field required"),
    ({"gang_scheduling_config": {"gang_size": 2}}, ValueError, r"num_replicas \(1\) must"),
    (
        {"gang_scheduling_config": {"gang_size": 1}, "max_replicas_per_node": 1},
        ValueError,
        "Setting max_replicas_per_node is not allowed when gang_scheduling_config is provided",
    ),
    (
        {
            "gang_scheduling_config": {"gang_size": 1},
            "placement_group_strategy": "PACK",
            "placement_group_bundles": [{"CPU": 1}],
        },
        ValueError,
        "Setting placement_group_strategy is not allowed when gang_scheduling_config is provided",
    ),
    ({"deployment_actors": 5}, ValueError, ""),
    ({"zzz": 1}, TypeError, "unexpected keyword argument 'zzz'"),
]
ACCEPTED: list[dict[str, Any]] = [
    {"num_replicas": None},
    {"num_replicas": "auto"},
    {"num_replicas": "auto", "autoscaling_config": {"max_replicas": 5}},
    {"num_replicas": 3.0},
    {"max_ongoing_requests": "3"},
    {"max_queued_requests": "2"},
    {"max_queued_requests": -1},
    {"user_config": {"a": [1, None, "x"]}},
    {"user_config": b"bytes"},
    {"graceful_shutdown_timeout_s": 0},
    {"health_check_period_s": 0.1},
    {"ray_actor_options": None},
    {"ray_actor_options": {}},
    {"ray_actor_options": {"num_gpus": 0.5}},
    {"ray_actor_options": {"runtime_env": {"env_vars": {"a": "b"}}}},
    {"ray_actor_options": {"resources": {"a": 1}, "memory": 5}},
    {"placement_group_bundles": [{"CPU": 1}]},
    {"placement_group_bundles": [{"CPU": 1}, {"GPU": 1}], "placement_group_strategy": "SPREAD"},
    {"max_replicas_per_node": 1},
    {"max_replicas_per_node": 100},
    {"name": "a b"},
    {"name": "ä"},
    {"logging_config": None},
    {"logging_config": {"encoding": "JSON", "log_level": "DEBUG"}},
    {"logging_config": LoggingConfig(enable_access_log=False)},
    {"autoscaling_config": None},
    {"autoscaling_config": {}},
    {"autoscaling_config": {"min_replicas": 0}},
    {"autoscaling_config": {"aggregation_function": "max"}},
    {"autoscaling_config": AutoscalingConfig(max_replicas=4)},
    {"backpressure_config": {"status_code": 429, "retry_after_s": 0}},
    {"request_router_config": RequestRouterConfig(max_backoff_s=1)},
    {"max_constructor_retry_count": 1},
    {"gang_scheduling_config": None},
    {"deployment_actors": None},
    {"max_surge_percent": 50},
]


def written(options: Any) -> str:
    return re.sub(r" at 0x\w+|<[^>]*>", "", repr(options))[:60]


@pytest.mark.parametrize(("options", "kind", "message"), REFUSED, ids=[written(each[0]) for each in REFUSED])
def test_options_that_cannot_be(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message or None):
        Deployed.options(**options)
    with pytest.raises(kind, match=message or None):
        serve.deployment(**options)(Some)


@pytest.mark.parametrize("options", ACCEPTED, ids=written)
def test_options_that_can_be(options: dict[str, Any]) -> None:
    assert isinstance(Deployed.options(**options), serve.Deployment)
    assert isinstance(serve.deployment(**options)(Some), serve.Deployment)


# -- the decorator


def test_settings_in_other_words_are_numbers() -> None:
    made = Deployed.options(num_replicas=3.0, max_ongoing_requests="4")
    assert (made.num_replicas, made.max_ongoing_requests) == (3, 4)


@pytest.mark.parametrize("thing", ["a name", 5, None])
def test_the_place_of_the_class_is_passed_over(thing: Any) -> None:
    assert serve.deployment(thing, num_replicas=2)(Some).num_replicas == 2


@pytest.mark.parametrize("thing", [5, None])
def test_a_deployment_of_what_is_no_code(thing: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        serve.deployment()(thing)
    if thing is not None:
        with pytest.raises(TypeError, match="@serve.deployment must be called on a class or function"):
            Deployed.options(func_or_class=thing)


def test_options_take_other_code() -> None:
    assert Deployed.options(func_or_class=function).func_or_class is function


def test_a_function_is_bound_without_arguments() -> None:
    deployed = serve.deployment(function)
    assert isinstance(deployed.bind(), serve.Application)
    with pytest.raises(ValueError, match="init_args not supported for function deployments"):
        deployed.bind(1)
    with pytest.raises(ValueError, match="init_kwargs not supported for function deployments"):
        deployed.bind(a=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"_init_args": 5}, "init_args must be a tuple"), ({"_init_kwargs": 5}, "init_kwargs must be a dict")],
)
def test_arguments_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message or None):
        Deployed.options(**options)


def test_arguments_of_a_bound_deployment() -> None:
    made = Deployed.options(_init_args=(1,), _init_kwargs={"a": 2})
    assert (made.init_args, made.init_kwargs) == ((1,), {"a": 2})


def test_a_deployment_is_made_by_the_decorator() -> None:
    with pytest.raises(RuntimeError, match="The Deployment constructor should not be called"):
        serve.Deployment("a", None, None)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Deployments cannot be constructed directly"):
        Deployed()


def test_an_application_is_not_called() -> None:
    with pytest.raises(TypeError, match="'Application' object is not callable"):
        Deployed.bind()()


def test_names() -> None:
    assert (Deployed.name, serve.deployment(function).name) == ("Some", "function")
    assert serve.deployment(name="other")(Some).name == "other"
    assert Deployed.func_or_class is Some


def test_deployments_are_equal_by_what_they_say() -> None:
    assert Deployed == serve.deployment(Some) and Deployed.options(num_replicas=2) != Deployed
    assert Deployed.options(num_replicas=2).options(num_replicas=1, name="Some").num_replicas == 1


def test_options_keep_what_was_said_before() -> None:
    made = Deployed.options(max_ongoing_requests=7, user_config={"a": 1}).options(num_replicas=2)
    assert (made.num_replicas, made.max_ongoing_requests, made.user_config) == (2, 7, {"a": 1})


def test_ray_actor_options_have_a_cpu() -> None:
    assert Deployed.ray_actor_options == {"num_cpus": 1}
    made = Deployed.options(ray_actor_options={"num_gpus": 0.5})
    assert made.ray_actor_options == {"num_cpus": 1, "num_gpus": 0.5}


def test_logging_config_can_be_set() -> None:
    made = Deployed.options(name="logged")
    made.set_logging_config({"log_level": "DEBUG"})
    assert made.logging_config is not None


# -- what serve.run says


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("api", "must start with a forward slash"),
        ("/api/", "may not end with a trailing '/'"),
        ("/a/{b}", "may not contain wildcards"),
    ],
)
def test_prefixes_that_cannot_be(prefix: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"Invalid route_prefix '{prefix}', {message}"):
        serve.run(Deployed.bind(), route_prefix=prefix)


@pytest.mark.parametrize("target", [Deployed, Some, "app", None])
def test_what_is_no_application(target: Any) -> None:
    with pytest.raises(TypeError, match="`serve.run` expects an `Application` returned by `Deployment.bind"):
        serve.run(target)


@pytest.mark.parametrize("name", ["", None])
def test_names_of_applications_that_cannot_be(name: Any) -> None:
    with pytest.raises((serve.exceptions.RayServeException, TypeError)):
        serve.run(Deployed.bind(), name=name)


def test_run_many_of_nothing() -> None:
    with pytest.raises(ValueError, match="No applications provided"):
        serve.run_many([])


@pytest.mark.chosen_difference("0 means that none may wait", id="D-serve-no-queue")
def test_no_queue_at_all() -> None:
    assert Deployed.options(max_queued_requests=0).max_queued_requests == 0
