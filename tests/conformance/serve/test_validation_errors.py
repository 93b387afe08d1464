"""Records that cannot be raise pydantic's ValidationError, which names the field and can be sent to other processes."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError
from ray import serve
from ray.serve.config import AutoscalingConfig, HTTPOptions, RequestRouterConfig
from ray.serve.schema import (
    DeploymentSchema,
    LoggingConfig,
    RayActorOptionsSchema,
    ServeApplicationSchema,
    ServeDeploySchema,
)

APP: dict[str, Any] = {"import_path": "a:b"}
WRONG: list[tuple[Any, dict[str, Any], tuple[Any, ...]]] = [
    (AutoscalingConfig, {"min_replicas": "x"}, ("min_replicas",)),
    (AutoscalingConfig, {"upscale_delay_s": -1}, ("upscale_delay_s",)),
    (HTTPOptions, {"port": "x"}, ("port",)),
    (RequestRouterConfig, {"request_router_kwargs": 5}, ("request_router_kwargs",)),
    (LoggingConfig, {"zzz": 1}, ("zzz",)),
    (RayActorOptionsSchema, {"num_cpus": -1}, ("num_cpus",)),
    (DeploymentSchema, {"name": 5}, ("name",)),
    (ServeApplicationSchema, {**APP, "args": 5}, ("args",)),
    (ServeDeploySchema, {"applications": 5}, ("applications",)),
    (
        ServeDeploySchema,
        {"applications": [APP, {**APP, "runtime_env": 5}]},
        ("applications", 1, "runtime_env"),
    ),
    (
        ServeDeploySchema,
        {"applications": [{**APP, "deployments": [{"name": "a"}, {"name": {}}]}]},
        ("applications", 0, "deployments", 1, "name"),
    ),
]


@pytest.mark.parametrize(
    ("record", "fields", "where"), WRONG, ids=[f"{a.__name__}-{c[-1]}" for a, _, c in WRONG]
)
def test_a_validation_error_leads_to_the_field(
    record: Any, fields: dict[str, Any], where: tuple[Any, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        record(**fields)
    assert caught.value.errors()[0]["loc"] == where
    assert caught.value.error_count() == 1
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("record", "fields", "where"), WRONG[:3], ids=[f"{a.__name__}-{c[-1]}" for a, _, c in WRONG[:3]]
)
def test_validated_dicts_raise_the_same(record: Any, fields: dict[str, Any], where: tuple[Any, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        record.model_validate(fields)
    assert caught.value.errors()[0]["loc"] == where


def test_fields_that_contradict_each_other_are_a_validation_error() -> None:
    with pytest.raises(ValidationError, match="max_replicas"):
        AutoscalingConfig(min_replicas=3, max_replicas=2)
    with pytest.raises(ValidationError, match="autoscaling_config"):
        DeploymentSchema(name="a", num_replicas=2, autoscaling_config={"max_replicas": 3})
    with pytest.raises(ValidationError, match="duplicate"):
        ServeDeploySchema(applications=[{**APP, "name": "x"}, {**APP, "name": "x"}])


@pytest.mark.parametrize(
    "options", [{"num_replicas": -1}, {"max_ongoing_requests": 0}, {"health_check_period_s": -1}]
)
def test_options_of_a_deployment_are_validated(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):

        @serve.deployment(**options)
        def nothing() -> None: ...


def test_a_validation_error_travels() -> None:
    with pytest.raises(ValidationError) as caught:
        AutoscalingConfig(min_replicas="x")  # type: ignore[arg-type]
    arrived = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(arrived, ValidationError)
    assert str(arrived) == str(caught.value)
