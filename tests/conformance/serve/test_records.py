"""Records of settings and files of Serve: valid and invalid values, and the messages for invalid ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ray.serve.config import (
    AutoscalingConfig,
    AutoscalingPolicy,
    ControllerOptions,
    GangSchedulingConfig,
    HTTPOptions,
    ProxyLocation,
    RequestRouterConfig,
    gRPCOptions,
)
from ray.serve.schema import (
    DeploymentSchema,
    LoggingConfig,
    RayActorOptionsSchema,
    ServeApplicationSchema,
    ServeDeploySchema,
)

NOT_BOTH = "Manually setting num_replicas is not allowed when autoscaling_config is provided"
GREATER, NOT_LESS = "Input should be greater than 0", "Input should be greater than or equal to 0"


def written(options: Any) -> str:
    return re.sub(r" at 0x\w+|<[^>]*>", "", repr(options))[:60]


# -- records of settings

RECORDS_REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (AutoscalingConfig, {"min_replicas": 2, "max_replicas": 1}, r"or equal to min_replicas \(2\)"),
    (
        AutoscalingConfig,
        {"initial_replicas": 3, "max_replicas": 2},
        r"max_replicas \(2\) must be greater than",
    ),
    (
        AutoscalingConfig,
        {"initial_replicas": 1, "min_replicas": 2, "max_replicas": 2},
        r"min_replicas \(2\) must be less than",
    ),
    (AutoscalingConfig, {"min_replicas": 0, "max_replicas": 0}, GREATER),
    (AutoscalingConfig, {"policy": "x"}, ""),
    (AutoscalingPolicy, {"policy_function": 5}, "Input should be a valid string"),
    (AutoscalingPolicy, {"policy_kwargs": {"a": object()}}, "policy_kwargs is not JSON-serializable"),
    (AutoscalingPolicy, {"policy_kwargs": 5}, "Input should be a valid dictionary"),
    (RequestRouterConfig, {"request_router_class": 5}, "Input should be a valid string"),
    (
        RequestRouterConfig,
        {"request_router_kwargs": {"a": object()}},
        "request_router_kwargs is not JSON-serializable",
    ),
    (RequestRouterConfig, {"request_routing_stats_timeout_s": 0}, GREATER),
    (RequestRouterConfig, {"backoff_multiplier": 0}, GREATER),
    (RequestRouterConfig, {"max_backoff_s": -1}, GREATER),
    (HTTPOptions, {"port": "x"}, "Input should be a valid integer"),
    (HTTPOptions, {"location": "X"}, "'X' is not a valid ProxyLocation"),
    (HTTPOptions, {"num_cpus": 1}, ""),
    (HTTPOptions, {"keep_alive_timeout_s": "x"}, "Input should be a valid integer"),
    (HTTPOptions, {"root_path": 5}, "Input should be a valid string"),
    (gRPCOptions, {"port": "x"}, "Input should be a valid integer"),
    (gRPCOptions, {"grpc_servicer_functions": "x"}, "Input should be a valid list"),
    (ControllerOptions, {"runtime_env": {"pip": []}}, r"only supports \['env_vars'\]"),
    (ControllerOptions, {"runtime_env": {"env_vars": {"a": 1}}}, r"env_vars\['a'\] must be str"),
    (ControllerOptions, {"runtime_env": {"env_vars": {"": "1"}}}, "env_vars key must be a non-empty str"),
    (
        ControllerOptions,
        {"runtime_env": {"env_vars": 5}},
        r"runtime_env.env_vars must be a dict\[str, str\], got int",
    ),
    (ControllerOptions, {"zzz": 1}, "Extra inputs are not permitted"),
    (GangSchedulingConfig, {}, "Field required"),
    (GangSchedulingConfig, {"gang_size": 2, "gang_placement_strategy": "x"}, ""),
    (LoggingConfig, {"encoding": "x"}, ""),
    (LoggingConfig, {"log_level": "x"}, 'Got "x" for log_level. log_level must be one of'),
    (LoggingConfig, {"log_level": 5.5}, ""),
    (LoggingConfig, {"logs_dir": 5}, "Input should be a valid string"),
    (
        LoggingConfig,
        {"additional_log_standard_attrs": ["zzz"]},
        "Unknown attribute 'zzz'. Additional log standard attributes",
    ),
    (LoggingConfig, {"zzz": 1}, "Extra inputs are not permitted"),
    (DeploymentSchema, {}, "Field required"),
    (DeploymentSchema, {"name": 5}, "Input should be a valid string"),
    (DeploymentSchema, {"name": "a", "num_replicas": "x"}, ""),
    (DeploymentSchema, {"name": "a", "num_replicas": 2, "autoscaling_config": {}}, NOT_BOTH),
    (DeploymentSchema, {"name": "a", "max_ongoing_requests": 0}, GREATER),
    (DeploymentSchema, {"name": "a", "max_queued_requests": -2}, "max_queued_requests must be -1"),
    (
        DeploymentSchema,
        {"name": "a", "max_replicas_per_node": 2, "placement_group_bundles": [{"CPU": 1}]},
        "Setting max_replicas_per_node is not allowed when placement_group_bundles is provided",
    ),
    (DeploymentSchema, {"name": "a", "ray_actor_options": {"num_cpus": -1}}, ""),
    (DeploymentSchema, {"name": "a", "health_check_period_s": 0}, GREATER),
    (DeploymentSchema, {"name": "a", "graceful_shutdown_timeout_s": -1}, NOT_LESS),
    (DeploymentSchema, {"name": "a", "user_config": object()}, ""),
    (RayActorOptionsSchema, {"num_cpus": -1}, NOT_LESS),
    (RayActorOptionsSchema, {"num_gpus": -1}, NOT_LESS),
    (RayActorOptionsSchema, {"memory": -1}, NOT_LESS),
    (RayActorOptionsSchema, {"resources": 5}, "Input should be a valid dictionary"),
    (RayActorOptionsSchema, {"runtime_env": 5}, "Input should be a valid dictionary"),
    (ServeApplicationSchema, {}, "Field required"),
    (ServeApplicationSchema, {"import_path": "a"}, "import path must contain at least on dot or colon"),
    (ServeApplicationSchema, {"import_path": "a:b:c"}, "import path may have at most one colon"),
    (ServeApplicationSchema, {"import_path": ":b"}, "import path may not start or end with a colon"),
    (ServeApplicationSchema, {"import_path": "a:"}, "import path may not start or end with a colon"),
    (ServeApplicationSchema, {"import_path": "a."}, "import path may not start or end with a dot"),
    (ServeApplicationSchema, {"import_path": "a:b", "args": 5}, "Input should be a valid dictionary"),
    (
        ServeApplicationSchema,
        {
            "import_path": "a:b",
            "external_scaler_enabled": True,
            "deployments": [{"name": "D", "autoscaling_config": {"max_replicas": 2}}],
        },
        'external_scaler_enabled is set to True, but the following deployment\\(s\\) have autoscaling configured: "D"',
    ),
]


@pytest.mark.parametrize(
    ("record", "fields", "message"),
    RECORDS_REFUSED,
    ids=[f"{each[0].__name__} {written(each[1])}" for each in RECORDS_REFUSED],
)
def test_records_that_cannot_be(record: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message or None):
        record(**fields)


RECORDS: list[tuple[Any, dict[str, Any]]] = [
    (AutoscalingConfig, {"min_replicas": 0, "max_replicas": 5, "initial_replicas": 2}),
    (AutoscalingConfig, {"target_ongoing_requests": 0.5, "upscale_delay_s": 0, "downscale_delay_s": 0}),
    (AutoscalingConfig, {"aggregation_function": "min"}),
    (HTTPOptions, {"host": "0.0.0.0", "port": 1, "root_path": "/x", "request_timeout_s": 1.5}),
    (HTTPOptions, {"ssl_keyfile": "/k", "ssl_certfile": "/c"}),
    (gRPCOptions, {"port": 1, "grpc_servicer_functions": ["a.b"], "request_timeout_s": 2}),
    (ControllerOptions, {"runtime_env": {"env_vars": {"a": "b"}}}),
    (GangSchedulingConfig, {"gang_size": 2}),
    (LoggingConfig, {"encoding": "JSON", "log_level": "ERROR", "enable_access_log": False}),
    (LoggingConfig, {"additional_log_standard_attrs": ["name"]}),
    (DeploymentSchema, {"name": "a", "num_replicas": 3}),
    (DeploymentSchema, {"name": "a", "num_replicas": "auto"}),
    (DeploymentSchema, {"name": "a", "user_config": {"b": 1}, "max_ongoing_requests": 4}),
    (RayActorOptionsSchema, {"num_cpus": 0.1, "num_gpus": 1, "memory": 5, "resources": {"a": 1}}),
    (ServeApplicationSchema, {"import_path": "a.b", "name": "x", "route_prefix": "/x", "args": {"a": 1}}),
    (ServeApplicationSchema, {"import_path": "a:b", "route_prefix": None}),
]


@pytest.mark.parametrize(
    ("record", "fields"), RECORDS, ids=[f"{each[0].__name__} {written(each[1])}" for each in RECORDS]
)
def test_records_tell_what_they_were_given(record: Any, fields: dict[str, Any]) -> None:
    made = record(**fields)
    for name, value in fields.items():
        assert getattr(made, name) == value
    assert made.model_fields_set == set(fields)
    dumped = made.model_dump(exclude_unset=True)
    assert set(dumped) == set(fields)
    assert record(**dumped) == made and record.model_validate(dumped) == made


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("EveryNode", "EveryNode"),
        ("HeadOnly", "HeadOnly"),
        ("Disabled", "Disabled"),
        (ProxyLocation.HeadOnly, "HeadOnly"),
    ],
)
def test_locations_of_proxies(given: Any, found: str) -> None:
    location = HTTPOptions(location=given).location
    assert location == ProxyLocation[found] and ProxyLocation(found) is ProxyLocation[found]


def test_no_host_means_no_proxy() -> None:
    assert HTTPOptions(host=None).location in ("NoServer", "Disabled", ProxyLocation.Disabled)


# -- files

APP = {"name": "a", "import_path": "a:b"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "Field required"),
        ({"applications": 5}, "Input should be a valid list"),
        ({"applications": [APP, APP]}, "Found multiple configs for application"),
        (
            {"applications": [{**APP, "name": name, "route_prefix": None} for name in ("one", "two") * 2]},
            "one[^{]*two",
        ),
        ({"applications": [APP, {**APP, "name": "b"}]}, "Found duplicate applications for route prefix"),
        ({"applications": [{**APP, "name": ""}]}, "Application names must be nonempty"),
        ({"applications": [{**APP, "host": "x"}]}, 'Host "x" is set in the config for application `a`'),
        ({"applications": [{**APP, "port": 5}]}, "Port 5 is set in the config for application `a`"),
        ({"applications": [APP], "target_capacity": -1}, NOT_LESS),
        ({"applications": [APP], "target_capacity": 101}, ""),
        ({"applications": [APP], "proxy_location": "x"}, ""),
        ({"applications": [APP], "http_options": {"port": "x"}}, "Input should be a valid integer"),
        ({"applications": [APP], "logging_config": {"log_level": "x"}}, "log_level must be one of"),
        ({"applications": [{**APP, "import_path": "a"}]}, "import path must contain"),
    ],
)
def test_files_that_cannot_be(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint or None):
        ServeDeploySchema.model_validate(given)


@pytest.mark.parametrize(
    "given",
    [
        {"applications": []},
        {"applications": [APP]},
        {"applications": [APP, {**APP, "name": "b", "route_prefix": "/b"}]},
        {"applications": [{**APP, "route_prefix": None}, {**APP, "name": "b", "route_prefix": None}]},
        {"applications": [APP], "target_capacity": 50},
        {"applications": [APP], "proxy_location": "HeadOnly", "http_options": {"host": "1.2.3.4", "port": 5}},
        {"applications": [{**APP, "deployments": [{"name": "D", "num_replicas": 2}]}]},
        {"applications": [{**APP, "deployments": [{"name": "D", "placement_group_bundles": [{"GPU": 1}]}]}]},
    ],
)
def test_files_that_can_be(given: Any) -> None:
    assert len(ServeDeploySchema.model_validate(given).applications) == len(given["applications"])


def test_an_application_of_a_file() -> None:
    made = ServeApplicationSchema(
        import_path="a:b", deployments=[{"name": "x", "num_replicas": "auto"}, {"name": "y"}]
    )
    assert (made.name, made.route_prefix, made.deployment_names) == ("default", "/", ["x", "y"])
    assert [each.is_autoscaling_configured() for each in made.deployments] == [True, False]


def test_an_automatic_number_has_bounds_for_autoscaling() -> None:
    made = DeploymentSchema(name="D", num_replicas="auto", autoscaling_config={"min_replicas": 2})
    assert (made.num_replicas, made.autoscaling_config) == ("auto", {"min_replicas": 2})


def test_a_level_of_logging_that_has_no_name() -> None:
    with pytest.raises(ValueError, match='Got "15" for log_level'):
        LoggingConfig(log_level=15)


def test_a_file_as_json() -> None:
    made = ServeDeploySchema.model_validate_json('{"applications": [{"import_path": "a:b", "name": "one"}]}')
    assert made.applications[0].name == "one"
    assert (
        ServeDeploySchema.model_validate_json(made.model_dump_json(exclude_unset=True)).model_dump()
        == made.model_dump()
    )
    with pytest.raises(ValueError, match="Invalid JSON"):
        ServeDeploySchema.model_validate_json("{")
    assert {"applications", "http_options", "grpc_options"} <= set(ServeDeploySchema.model_fields)


def test_one_request_of_a_hundred_is_traced_unless_a_config_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAY_SERVE_TRACING_SAMPLING_RATIO", raising=False)
    from ray.serve.schema import TracingConfig  # its defaults come from the environment

    assert TracingConfig().sampling_ratio == 0.01
    assert TracingConfig(sampling_ratio=1).sampling_ratio == 1.0
