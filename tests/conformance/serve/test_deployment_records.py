"""Deployments: what `.options` and `.bind` make of them, and records of them; arguments of the other decorators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from ray import serve
from ray.serve.deployment import Deployment, deployment_to_schema, schema_to_deployment
from ray.serve.exceptions import RayServeException
from ray.serve.schema import DeploymentSchema

deployment = serve.deployment


def f() -> int:
    return 1


class C:
    def __call__(self) -> int:
        return 1


CAN_BE: list[tuple[Callable[[], Any], Any]] = [
    (lambda: deployment(f).name, "f"),
    (lambda: deployment(C).name, "C"),
    (lambda: deployment(f).options(num_replicas=3).num_replicas, 3),
    (lambda: deployment(f).options(num_replicas=None).num_replicas, 1),
    (lambda: deployment(f).options(num_replicas="auto").num_replicas, 1),
    (lambda: deployment(f).options(func_or_class=C).func_or_class is C, True),
    (lambda: deployment(f).options(user_config={"a": 1}).user_config, {"a": 1}),
    (lambda: deployment(f).options(ray_actor_options={"num_cpus": 3}).ray_actor_options, {"num_cpus": 3}),
    (lambda: deployment(f).options(max_queued_requests=9).max_queued_requests, 9),
    (lambda: deployment(f).options(name="n").name, "n"),
    (lambda: deployment(C).bind(1, a=2) is not None, True),
    (lambda: deployment(f) == deployment(f), True),
    (lambda: deployment(f) == deployment(f).options(num_replicas=2), False),
    (lambda: repr(deployment(f)), "Deployment(name=f)"),
    (lambda: deployment(f).num_replicas, 1),
    (lambda: deployment(f).max_ongoing_requests, 5),
    (lambda: deployment(f).max_queued_requests, -1),
    (lambda: deployment(f).user_config, None),
    (lambda: deployment(f).logging_config, None),
    (lambda: deployment(f).init_args, ()),
    (lambda: deployment(f).ray_actor_options, {"num_cpus": 1}),
    (lambda: deployment_to_schema(deployment(f)).model_dump(exclude_unset=True), {"name": "f"}),
    (lambda: deployment_to_schema(deployment(num_replicas=3)(f)).num_replicas, 3),
    (lambda: deployment_to_schema(deployment(num_replicas=1)(f)).num_replicas, 1),
    (lambda: deployment_to_schema(deployment(f).options(num_replicas=2)).num_replicas, 2),
    (lambda: deployment_to_schema(deployment(num_replicas="auto")(f)).is_autoscaling_configured(), True),
    (
        lambda: (
            deployment_to_schema(deployment(ray_actor_options={"num_cpus": 2})(f)).ray_actor_options.num_cpus
        ),
        2.0,
    ),
    (lambda: deployment_to_schema(deployment(user_config={"a": 1})(f)).user_config, {"a": 1}),
    (lambda: deployment_to_schema(deployment(f)).name, "f"),
    (lambda: schema_to_deployment(DeploymentSchema(name="x", num_replicas=3)).num_replicas, 3),
    (lambda: schema_to_deployment(DeploymentSchema(name="x")).name, "x"),
    (
        lambda: (
            schema_to_deployment(
                DeploymentSchema.model_validate({"name": "x", "ray_actor_options": {"num_cpus": 2}})
            ).ray_actor_options
        ),
        {"num_cpus": 2.0},
    ),
    (
        lambda: (
            schema_to_deployment(
                DeploymentSchema.model_validate({"name": "x", "user_config": {"a": 1}})
            ).user_config
        ),
        {"a": 1},
    ),
    (
        lambda: (
            schema_to_deployment(
                DeploymentSchema.model_validate({"name": "x", "max_ongoing_requests": 9})
            ).max_ongoing_requests
        ),
        9,
    ),
    (
        lambda: (
            schema_to_deployment(
                deployment_to_schema(deployment(num_replicas=3, max_queued_requests=4)(f))
            ).max_queued_requests
        ),
        4,
    ),
    (
        lambda: (
            schema_to_deployment(DeploymentSchema(name="x", num_replicas=3))
            .options(func_or_class=f)
            .func_or_class
            is f
        ),
        True,
    ),
    (lambda: serve.batch(max_batch_size=2.0) is not None, True),
    (lambda: serve.batch(batch_wait_timeout_s=0) is not None, True),
]
#: With the error, and a phrase of it.
CANNOT_BE: list[tuple[Callable[[], Any], type[BaseException], str]] = [
    (
        lambda: deployment(f).options(nonsense=1),
        TypeError,
        "Deployment.options() got an unexpected keyword argument 'nonsense'",
    ),
    (lambda: deployment(f).options(num_replicas=0), ValueError, "num_replicas is expected to larger than 0"),
    (
        lambda: deployment(f).options(max_ongoing_requests=None),
        ValueError,
        "`max_ongoing_requests` must be non-null, got None.",
    ),
    (lambda: deployment(f)(), RuntimeError, "Deployments cannot be constructed directly"),
    (lambda: deployment(C).bind()(1), TypeError, "'Application' object is not callable"),
    (lambda: deployment(C).bind().foo, AttributeError, "'Application' object has no attribute 'foo'"),
    (lambda: deployment(f).bind(1), ValueError, "init_args not supported for function deployments."),
    (
        lambda: Deployment("x", None, None),
        RuntimeError,
        "The Deployment constructor should not be called directly. Use `@serve.deployment` instead.",
    ),
    (lambda: serve.batch(f), TypeError, "Functions decorated with @serve.batch must be 'async def'"),
    (lambda: serve.batch(max_batch_size=0), ValueError, "max_batch_size must be an integer >= 1, got 0"),
    (lambda: serve.batch(max_batch_size=-1), ValueError, "max_batch_size must be an integer >= 1, got -1"),
    (lambda: serve.batch(max_batch_size=1.5), TypeError, "max_batch_size must be integer >= 1, got 1.5"),
    (lambda: serve.batch(max_batch_size="x"), TypeError, "max_batch_size must be integer >= 1"),
    (
        lambda: serve.batch(batch_wait_timeout_s=-1),
        ValueError,
        "batch_wait_timeout_s must be a float >= 0, got -1",
    ),
    (lambda: serve.batch(batch_wait_timeout_s="a"), TypeError, "batch_wait_timeout_s must be a float >= 0"),
    (
        lambda: serve.batch(max_concurrent_batches=0),
        TypeError,
        "max_concurrent_batches must be an integer >= 1, got 0",
    ),
    (
        lambda: serve.batch(max_concurrent_batches=1.5),
        TypeError,
        "max_concurrent_batches must be an integer >= 1, got 1.5",
    ),
    (
        lambda: serve.batch(batch_size_fn=5),
        TypeError,
        "batch_size_fn must be a callable or None, got <class 'int'>",
    ),
    (lambda: serve.batch(5), TypeError, "@serve.batch can only be used to decorate functions or methods."),
    (
        lambda: serve.multiplexed(f),
        TypeError,
        "@serve.multiplexed can only be used to decorate async functions or methods.",
    ),
    (
        lambda: serve.multiplexed(max_num_models_per_replica=0),
        ValueError,
        "max_num_models_per_replica must be positive.",
    ),
    (
        lambda: serve.multiplexed(max_num_models_per_replica="x"),
        TypeError,
        "max_num_models_per_replica must be an integer.",
    ),
    (
        lambda: serve.multiplexed(max_num_models_per_replica=1.5),
        TypeError,
        "max_num_models_per_replica must be an integer.",
    ),
    (
        lambda: serve.multiplexed(5),
        TypeError,
        "The `multiplexed` decorator must be used with a function or method.",
    ),
    (
        lambda: serve.multiplexed(max_num_models_per_replica=-2),
        ValueError,
        "max_num_models_per_replica must be positive.",
    ),
    (
        lambda: serve.get_replica_context(),
        RayServeException,
        "`serve.get_replica_context()` may only be called from within a Ray Serve deployment.",
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


def test_importing_the_module_leaves_the_decorator(script: Any) -> None:
    output = script(
        """
        import ray.serve.deployment
        from ray import serve
        from ray.serve.deployment import Deployment

        print(isinstance(serve.deployment(lambda: 1, name="x"), Deployment))
        """
    )
    assert "True" in (output if isinstance(output, str) else output.stdout)
