"""Options and settings: defaults, and rejected values."""

from __future__ import annotations

from typing import Any

import pytest
from ray import serve
from ray.serve.config import AutoscalingConfig, HTTPOptions, gRPCOptions


@serve.deployment
class Some:
    def __call__(self) -> str:
        return "some"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "Some"),
        ("num_replicas", 1),
        ("max_ongoing_requests", 5),
        ("max_queued_requests", -1),
        ("user_config", None),
        ("version", None),
        ("init_args", ()),
        ("init_kwargs", {}),
    ],
)
def test_defaults(name: str, value: Any) -> None:
    assert getattr(Some, name) == value


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("name", "other"),
        ("num_replicas", 3),
        ("max_ongoing_requests", 17),
        ("max_queued_requests", 4),
        ("user_config", {"a": 1}),
    ],
)
def test_options_change_it(option: str, value: Any) -> None:
    changed = Some.options(**{option: value})
    assert getattr(changed, option) == value


def test_options_leave_the_first_alone() -> None:
    Some.options(num_replicas=9)
    assert Some.num_replicas == 1


@pytest.mark.parametrize(
    "options",
    [
        {"num_replicas": 0},
        {"num_replicas": -1},
        {"num_replicas": 2, "autoscaling_config": {"max_replicas": 3}},
        {"max_ongoing_requests": 0},
        {"max_ongoing_requests": -5},
        {"max_queued_requests": -2},
        {"autoscaling_config": {"min_replicas": 5, "max_replicas": 2}},
        {"autoscaling_config": {"min_replicas": -1}},
        {"autoscaling_config": {"max_replicas": 0}},
        {"autoscaling_config": {"min_replicas": 1, "max_replicas": 4, "initial_replicas": 9}},
        {"autoscaling_config": {"target_ongoing_requests": 0}},
        {"autoscaling_config": {"upscale_delay_s": -1}},
        {"health_check_period_s": 0},
        {"health_check_timeout_s": -1},
        {"graceful_shutdown_timeout_s": -1},
        {"placement_group_strategy": "PACK"},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        serve.deployment(**options)(lambda: None)


@pytest.mark.parametrize("options", [{"nam_replicas": 1}, {"workers": 2}])
def test_unknown_options(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        serve.deployment(**options)


def test_name_must_be_text() -> None:
    with pytest.raises(TypeError):
        serve.deployment(name=5)(lambda: None)


def test_bare_decorator() -> None:
    assert isinstance(Some, serve.Deployment)


def test_bind_makes_an_application() -> None:
    assert isinstance(Some.bind(), serve.Application)


def test_bind_keeps_arguments() -> None:
    bound = Some.bind(1, a=2)
    assert isinstance(bound, serve.Application)


def test_calling_a_deployment() -> None:
    with pytest.raises(RuntimeError):
        Some()


def test_auto() -> None:
    assert Some.options(num_replicas="auto").num_replicas == 1


def test_another_word_than_auto() -> None:
    with pytest.raises(ValueError):
        Some.options(num_replicas="many")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("min_replicas", 1),
        ("max_replicas", 1),
        ("initial_replicas", None),
        ("target_ongoing_requests", 2),
        ("metrics_interval_s", 10),
        ("look_back_period_s", 30),
        ("smoothing_factor", 1),
        ("upscale_delay_s", 30),
        ("downscale_delay_s", 600),
        ("downscale_to_zero_delay_s", None),
        ("upscaling_factor", None),
        ("downscaling_factor", None),
    ],
)
def test_autoscaling_defaults(field: str, value: Any) -> None:
    assert getattr(AutoscalingConfig(), field) == value


def test_autoscaling_by_keyword_alone() -> None:
    with pytest.raises(TypeError):
        AutoscalingConfig(1, 2)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", "127.0.0.1"),
        ("port", 8000),
        ("root_path", ""),
        ("request_timeout_s", None),
        ("keep_alive_timeout_s", 90),
        ("middlewares", []),
        ("ssl_keyfile", None),
    ],
)
def test_http_defaults(field: str, value: Any) -> None:
    assert getattr(HTTPOptions(), field) == value


@pytest.mark.chosen_difference("a version that the user gives still counts", id="D-serve-version")
def test_version() -> None:
    assert Some.options(version="v2").version == "v2"


@pytest.mark.chosen_difference("refused where it is written", id="D-serve-tls")
def test_key_without_certificate() -> None:
    with pytest.raises(ValueError):
        HTTPOptions(ssl_keyfile="/key")


def test_grpc_defaults() -> None:
    options = gRPCOptions()
    assert (options.port, options.grpc_servicer_functions) == (9000, [])


@pytest.mark.parametrize("prefix", ["api", "/api/", "/a/{b}"])
def test_prefixes_that_cannot_be(server: str, prefix: str) -> None:
    with pytest.raises(ValueError):
        serve.run(Some.bind(), name="wrong", route_prefix=prefix)


def test_run_takes_applications(server: str) -> None:
    with pytest.raises(TypeError):
        serve.run(Some)


def test_run_takes_nothing_else(server: str) -> None:
    with pytest.raises(TypeError):
        serve.run("an application")


def test_deployment_as_argument(server: str) -> None:
    with pytest.raises(Exception, match="Some"):
        serve.run(Some.bind(Some), name="nested")
