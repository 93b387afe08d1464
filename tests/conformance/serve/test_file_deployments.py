"""The record of a deployment in a file (`ray.serve.schema.DeploymentSchema`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from ray.serve.schema import DeploymentSchema

CAN_BE: list[tuple[Callable[[], Any], Any]] = [
    (lambda: DeploymentSchema.model_validate({"name": "d"}).model_dump(exclude_unset=True), {"name": "d"}),
    (lambda: DeploymentSchema.model_validate({"name": ""}).name, ""),
    (lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": None}).num_replicas, None),
    (lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": "auto"}).num_replicas, "auto"),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "num_replicas": "auto", "autoscaling_config": {"max_replicas": 3}}
            ).autoscaling_config
        ),
        {"max_replicas": 3},
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "num_replicas": 3, "autoscaling_config": None}
            ).num_replicas
        ),
        3,
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "autoscaling_config": {"min_replicas": 1, "max_replicas": 3}}
            ).autoscaling_config
        ),
        {"min_replicas": 1, "max_replicas": 3},
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "user_config": {"a": [1]}}).user_config,
        {"a": [1]},
    ),
    (lambda: DeploymentSchema.model_validate({"name": "d", "user_config": None}).user_config, None),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "ray_actor_options": {"num_cpus": 2}}
            ).ray_actor_options.num_cpus
        ),
        2.0,
    ),
    (
        lambda: DeploymentSchema.model_validate(
            {"name": "d", "ray_actor_options": {"num_cpus": 2}}
        ).ray_actor_options.model_dump(exclude_unset=True),
        {"num_cpus": 2.0},
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "ray_actor_options": {"runtime_env": {"working_dir": "https://x.org/y.zip"}}}
            ).ray_actor_options.runtime_env
        ),
        {"working_dir": "https://x.org/y.zip"},
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "placement_group_bundles": [{"CPU": 1}], "placement_group_strategy": "PACK"}
            ).placement_group_strategy
        ),
        "PACK",
    ),
    (
        lambda: (
            DeploymentSchema.model_validate({"name": "d", "max_replicas_per_node": 5}).max_replicas_per_node
        ),
        5,
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {
                    "name": "d",
                    "placement_group_bundles": [{"CPU": 1}, {"CPU": 1}],
                    "placement_group_bundle_label_selector": [{"a": "b"}],
                }
            ).name
        ),
        "d",
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {
                    "name": "d",
                    "placement_group_bundles": [{"CPU": 1}, {"CPU": 1}],
                    "placement_group_bundle_label_selector": [{"a": "b"}] * 2,
                }
            ).name
        ),
        "d",
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "rolling_update_percentage": 0.5}
            ).rolling_update_percentage
        ),
        0.5,
    ),
    (lambda: DeploymentSchema.model_validate({"name": "d", "max_surge_percent": 50}).max_surge_percent, 50),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "num_replicas": 8, "gang_scheduling_config": {"gang_size": 4}}
            ).gang_scheduling_config.gang_size
        ),
        4,
    ),
    (lambda: DeploymentSchema.model_validate({"name": "d"}).is_autoscaling_configured(), False),
    (
        lambda: DeploymentSchema.model_validate(
            {"name": "d", "num_replicas": "auto"}
        ).is_autoscaling_configured(),
        True,
    ),
    (
        lambda: DeploymentSchema.model_validate(
            {"name": "d", "autoscaling_config": {}}
        ).is_autoscaling_configured(),
        True,
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": 2}).is_autoscaling_configured(),
        False,
    ),
    (lambda: DeploymentSchema(name="d") == DeploymentSchema(name="d"), True),
    (lambda: DeploymentSchema(name="d", num_replicas=2) == DeploymentSchema(name="d"), False),
]
#: With the error, and a phrase of it.
CANNOT_BE: list[tuple[Callable[[], Any], type[BaseException], str]] = [
    (lambda: DeploymentSchema.model_validate({}), ValidationError, "Field required"),
    (lambda: DeploymentSchema.model_validate({"name": 5}), ValidationError, "Input should be a valid string"),
    (lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": 0}), ValidationError, ""),
    (lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": -1}), ValidationError, ""),
    (lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": 1.5}), ValidationError, ""),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": "many"}),
        ValidationError,
        '`num_replicas` must be an int or "auto", but got: many',
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "num_replicas": 3, "autoscaling_config": {}}),
        ValidationError,
        "Manually setting num_replicas is not allowed when autoscaling_config is provided.",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "max_ongoing_requests": 0}),
        ValidationError,
        "Input should be greater than 0",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "max_ongoing_requests": "x"}),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: (
            DeploymentSchema.model_validate({"name": "d", "max_ongoing_requests": None}).max_ongoing_requests
        ),
        ValidationError,
        "",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "max_queued_requests": -2}),
        ValidationError,
        "max_queued_requests must be -1 (no limit) or a positive integer.",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "max_queued_requests": 1.5}),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "max_queued_requests": "hi"}),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: (
            DeploymentSchema.model_validate({"name": "d", "max_queued_requests": None}).max_queued_requests
        ),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "health_check_period_s": 0}),
        ValidationError,
        "Input should be greater than 0",
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "health_check_period_s": None}
            ).health_check_period_s
        ),
        ValidationError,
        "Input should be a valid number",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "health_check_timeout_s": 0}),
        ValidationError,
        "Input should be greater than 0",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "health_check_timeout_s": -1}),
        ValidationError,
        "Input should be greater than 0",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "graceful_shutdown_wait_loop_s": -1}),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: (
            DeploymentSchema.model_validate(
                {"name": "d", "graceful_shutdown_wait_loop_s": None}
            ).graceful_shutdown_wait_loop_s
        ),
        ValidationError,
        "Input should be a valid number",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "graceful_shutdown_timeout_s": -1}),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (lambda: DeploymentSchema.model_validate({"name": "d", "user_config": {1, 2}}), ValidationError, ""),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "ray_actor_options": {"num_cpus": -2}}),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (lambda: DeploymentSchema.model_validate({"name": "d", "ray_actor_options": 5}), ValidationError, ""),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "placement_group_bundles": "x"}),
        ValidationError,
        "",
    ),
    (
        lambda: DeploymentSchema.model_validate(
            {"name": "d", "max_replicas_per_node": 5, "placement_group_bundles": [{"GPU": 1}]}
        ),
        ValidationError,
        "Setting max_replicas_per_node is not allowed when placement_group_bundles is provided.",
    ),
    (
        lambda: DeploymentSchema.model_validate(
            {"name": "d", "placement_group_bundle_label_selector": [{"a": "b"}]}
        ),
        ValidationError,
        "Setting bundle_label_selector is not allowed when placement_group_bundles is not provided.",
    ),
    (
        lambda: DeploymentSchema.model_validate(
            {
                "name": "d",
                "placement_group_bundles": [{"CPU": 1}, {"CPU": 1}],
                "placement_group_bundle_label_selector": [{"a": "b"}] * 3,
            }
        ),
        ValidationError,
        "",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "logging_config": {"log_level": "x"}}),
        ValidationError,
        "Got \"x\" for log_level. log_level must be one of ['CRITICAL'",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "rolling_update_percentage": 0}),
        ValidationError,
        "Input should be greater than 0",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "rolling_update_percentage": 2}),
        ValidationError,
        "Input should be less than or equal to 1",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "max_surge_percent": 101}),
        ValidationError,
        "Input should be less than or equal to 100",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "max_surge_percent": -1}),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: DeploymentSchema.model_validate(
            {"name": "d", "num_replicas": 7, "gang_scheduling_config": {"gang_size": 4}}
        ),
        ValidationError,
        "num_replicas (7) must be a multiple of gang_size (4).",
    ),
    (
        lambda: DeploymentSchema.model_validate(
            {
                "name": "d",
                "num_replicas": 8,
                "gang_scheduling_config": {"gang_size": 4},
                "max_replicas_per_node": 3,
            }
        ),
        ValidationError,
        "Setting max_replicas_per_node is not allowed when gang_scheduling_config is provided.",
    ),
    (
        lambda: DeploymentSchema.model_validate({"name": "d", "gang_scheduling_config": {"gang_size": 0}}),
        ValidationError,
        "Input should be greater than or equal to 1",
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
