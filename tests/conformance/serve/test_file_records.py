"""Records of config files and of Serve's status (`ray.serve.schema`): conversions of values, and rejected values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from ray.serve.schema import (
    ApplicationStatus,
    HTTPOptionsSchema,
    ProxyStatus,
    RayActorOptionsSchema,
    ReplicaRank,
    ScaleDeploymentRequest,
    ServeApplicationSchema,
    ServeDeploySchema,
    ServeInstanceDetails,
    ServeStatus,
    Target,
    TargetGroup,
)

CAN_BE: list[tuple[Callable[[], Any], Any]] = [
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a:b"}).model_dump(exclude_unset=True),
        {"import_path": "a:b"},
    ),
    (lambda: ServeApplicationSchema.model_validate({"import_path": "a:b"}).name, "default"),
    (lambda: ServeApplicationSchema.model_validate({"import_path": "a:b"}).route_prefix, "/"),
    (lambda: ServeApplicationSchema.model_validate({"import_path": "a.b.c"}).import_path, "a.b.c"),
    (
        lambda: (
            ServeApplicationSchema.model_validate({"import_path": "a:b", "route_prefix": None}).route_prefix
        ),
        None,
    ),
    (
        lambda: (
            ServeApplicationSchema.model_validate(
                {"import_path": "a:b", "runtime_env": {"working_dir": "s3://x/y.zip"}}
            ).runtime_env
        ),
        {"working_dir": "s3://x/y.zip"},
    ),
    (
        lambda: (
            ServeApplicationSchema.model_validate(
                {"import_path": "a:b", "deployments": [{"name": "x"}, {"name": "y"}]}
            ).deployment_names
        ),
        ["x", "y"],
    ),
    (lambda: ServeApplicationSchema.model_validate({"import_path": "a:b", "args": {"x": 1}}).args, {"x": 1}),
    (
        lambda: (
            ServeApplicationSchema.model_validate({"import_path": "a:b", "host": "1.1.1.1", "port": 2}).port
        ),
        2,
    ),
    (
        lambda: (
            ServeApplicationSchema.model_validate(
                {"import_path": "a:b", "external_scaler_enabled": True}
            ).external_scaler_enabled
        ),
        True,
    ),
    (
        lambda: (
            ServeApplicationSchema.model_validate(
                {"import_path": "a:b", "autoscaling_policy": {"policy_function": "json:dumps"}}
            ).autoscaling_policy
        ),
        {"policy_function": "json:dumps"},
    ),
    (
        lambda: ServeApplicationSchema.get_empty_schema_dict(),
        {"import_path": "", "runtime_env": {}, "deployments": []},
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": []}).model_dump(exclude_unset=True),
        {"applications": []},
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate({"applications": [{"import_path": "a:b"}]}).applications[0].name
        ),
        "default",
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {
                    "applications": [
                        {"name": "x", "import_path": "a:b", "route_prefix": "/a"},
                        {"name": "y", "import_path": "a:b", "route_prefix": "/b"},
                    ]
                }
            )
            .applications[1]
            .name
        ),
        "y",
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {
                    "applications": [
                        {"name": "x", "import_path": "a:b", "route_prefix": None},
                        {"name": "y", "import_path": "a:b", "route_prefix": None},
                    ]
                }
            )
            .applications[1]
            .name
        ),
        "y",
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {"applications": [{"name": "x", "import_path": "a:b"}], "target_capacity": 50}
            ).target_capacity
        ),
        50.0,
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [], "target_capacity": 0}).target_capacity,
        0.0,
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate({"applications": [], "target_capacity": None}).target_capacity
        ),
        None,
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {"applications": [], "http_options": {"port": 80}}
            ).http_options.port
        ),
        80,
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {"applications": [], "http_options": {"host": "1.2.3.4"}}
            ).http_options.host
        ),
        "1.2.3.4",
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {
                    "applications": [],
                    "http_options": {"root_path": "/x", "keep_alive_timeout_s": 3, "request_timeout_s": 4},
                }
            ).http_options.keep_alive_timeout_s
        ),
        3,
    ),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {"applications": [], "grpc_options": {"port": 80, "grpc_servicer_functions": ["a:b"]}}
            ).grpc_options.grpc_servicer_functions
        ),
        ["a:b"],
    ),
    (lambda: ServeDeploySchema.model_validate({"applications": []}).http_options.host, "0.0.0.0"),
    (lambda: ServeDeploySchema.model_validate({"applications": []}).grpc_options.port, 9000),
    (
        lambda: (
            ServeDeploySchema.model_validate(
                {"applications": [], "logging_config": {"encoding": "JSON"}}
            ).logging_config.encoding
        ),
        "JSON",
    ),
    (lambda: ServeDeploySchema.get_empty_schema_dict(), {"applications": []}),
    (lambda: ServeDeploySchema.model_validate(ServeDeploySchema.get_empty_schema_dict()).applications, []),
    (
        lambda: (
            ServeDeploySchema(applications=[ServeApplicationSchema(name="x", import_path="a:b")])
            .applications[0]
            .route_prefix
        ),
        "/",
    ),
    (
        lambda: (
            RayActorOptionsSchema.model_validate(
                {"runtime_env": {"working_dir": "gs://a/b.zip", "pip": ["x"]}}
            ).runtime_env
        ),
        {"working_dir": "gs://a/b.zip", "pip": ["x"]},
    ),
    (lambda: RayActorOptionsSchema.model_validate({"label_selector": {"a": "b"}}).label_selector, {"a": "b"}),
    (lambda: RayActorOptionsSchema.model_validate({"accelerator_type": "A100"}).accelerator_type, "A100"),
    (lambda: HTTPOptionsSchema().model_dump()["port"], 8000),
    (lambda: ServeStatus().applications, {}),
    (lambda: ServeStatus().proxies, {}),
    (lambda: ApplicationStatus.RUNNING.value, "RUNNING"),
    (
        lambda: [s.value for s in ApplicationStatus],
        ["NOT_STARTED", "DEPLOYING", "DEPLOY_FAILED", "RUNNING", "UNHEALTHY", "DELETING"],
    ),
    (lambda: [s.value for s in ProxyStatus], ["STARTING", "HEALTHY", "UNHEALTHY", "DRAINING", "DRAINED"]),
    (lambda: ReplicaRank(rank=1, node_rank=0, local_rank=2).local_rank, 2),
    (lambda: ScaleDeploymentRequest(target_num_replicas=3).target_num_replicas, 3),
    (
        lambda: ServeInstanceDetails.get_empty_schema_dict(),
        {"controller_info": {}, "proxies": {}, "applications": {}, "target_capacity": None},
    ),
    (
        lambda: (
            ServeInstanceDetails.model_validate(ServeInstanceDetails.get_empty_schema_dict()).applications
        ),
        {},
    ),
    (
        lambda: Target(ip="1.1.1.1", port=1, instance_id="x", name="y").model_dump(),
        {"ip": "1.1.1.1", "port": 1, "instance_id": "x", "name": "y"},
    ),
]
#: With the error, and a phrase of it.
CANNOT_BE: list[tuple[Callable[[], Any], type[BaseException], str]] = [
    (lambda: ServeApplicationSchema.model_validate({}), ValidationError, "Field required"),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": ""}),
        ValidationError,
        'Got invalid import path ""',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "."}),
        ValidationError,
        'Got invalid import path ".". An import path may not start or end with a dot.',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": ":"}),
        ValidationError,
        'Got invalid import path ":". An import path may not start or end with a colon.',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "ab"}),
        ValidationError,
        'Got invalid import path "ab"',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a."}),
        ValidationError,
        'Got invalid import path "a.". An import path may not start or end with a dot.',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": ".a"}),
        ValidationError,
        'Got invalid import path ".a". An import path may not start or end with a dot.',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a:b:c"}),
        ValidationError,
        'Got invalid import path "a:b:c". An import path may have at most one colon.',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a.b:"}),
        ValidationError,
        'Got invalid import path "a.b:". An import path may not start or end with a colon.',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": None}),
        ValidationError,
        "Input should be a valid string",
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a:b", "runtime_env": None}),
        ValidationError,
        "Input should be a valid dictionary",
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a:b", "args": [1]}),
        ValidationError,
        "Input should be a valid dictionary",
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a:b", "port": "x"}),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: ServeApplicationSchema.model_validate(
            {
                "import_path": "a:b",
                "external_scaler_enabled": True,
                "deployments": [{"name": "x", "autoscaling_config": {}}],
            }
        ),
        ValidationError,
        "external_scaler_enabled is set to True",
    ),
    (
        lambda: ServeApplicationSchema.model_validate(ServeApplicationSchema.get_empty_schema_dict()),
        ValidationError,
        'Got invalid import path ""',
    ),
    (
        lambda: ServeApplicationSchema.model_validate({"import_path": "a:b", "deployments": {"a": 1}}),
        ValidationError,
        "Input should be a valid list",
    ),
    (lambda: ServeDeploySchema.model_validate({}), ValidationError, "Field required"),
    (
        lambda: ServeDeploySchema.model_validate({"applications": None}),
        ValidationError,
        "Input should be a valid list",
    ),
    (
        lambda: ServeDeploySchema.model_validate(
            {"applications": [{"import_path": "a:b"}, {"import_path": "a:b"}]}
        ),
        ValidationError,
        'Found multiple configs for application "default". Please remove all duplicates.',
    ),
    (
        lambda: ServeDeploySchema.model_validate(
            {"applications": [{"name": "x", "import_path": "a:b"}, {"name": "y", "import_path": "a:b"}]}
        ),
        ValidationError,
        'Found duplicate applications for route prefix "/"',
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [{"name": "", "import_path": "a:b"}]}),
        ValidationError,
        "Application names must be nonempty.",
    ),
    (
        lambda: ServeDeploySchema.model_validate(
            {"applications": [{"name": "x", "import_path": "a:b", "host": "0.0.0.0"}]}
        ),
        ValidationError,
        'Host "0.0.0.0" is set in the config for application `x`',
    ),
    (
        lambda: ServeDeploySchema.model_validate(
            {"applications": [{"name": "x", "import_path": "a:b", "port": 80}]}
        ),
        ValidationError,
        "Port 80 is set in the config for application `x`",
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [], "target_capacity": 101}),
        ValidationError,
        "Input should be less than or equal to 100",
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [], "target_capacity": -1}),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [], "proxy_location": "X"}),
        ValidationError,
        "Input should be 'Disabled', 'HeadOnly' or 'EveryNode'",
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [], "http_options": {"port": "x"}}),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [], "grpc_options": {"port": "x"}}),
        ValidationError,
        "Input should be a valid integer",
    ),
    (
        lambda: ServeDeploySchema.model_validate({"applications": [], "logging_config": {"encoding": "X"}}),
        ValidationError,
        "Got 'X' for encoding",
    ),
    (
        lambda: RayActorOptionsSchema.model_validate({"num_gpus": -1}),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: RayActorOptionsSchema.model_validate({"memory": -1}),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (
        lambda: RayActorOptionsSchema.model_validate({"num_cpus": "x"}),
        ValidationError,
        "Input should be a valid number",
    ),
    (
        lambda: RayActorOptionsSchema.model_validate({"resources": [1]}),
        ValidationError,
        "Input should be a valid dictionary",
    ),
    (
        lambda: ScaleDeploymentRequest(target_num_replicas=-1),
        ValidationError,
        "Input should be greater than or equal to 0",
    ),
    (lambda: ScaleDeploymentRequest(), ValidationError, "Field required"),
    (lambda: TargetGroup(protocol="HTTP").model_dump(), ValidationError, "Field required"),
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
