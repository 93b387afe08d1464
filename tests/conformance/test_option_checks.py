"""Options of tasks, actors and methods: which values are refused, when, and by which error."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import ray


def function() -> None: ...


class Plain:
    def method(self) -> None: ...


BOTH: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"num_cpus": -1}, ValueError),
    ({"num_gpus": -1}, ValueError),
    ({"num_cpus": "1"}, TypeError),
    ({"num_gpus": "1"}, TypeError),
    ({"memory": -1}, ValueError),
    ({"memory": "1"}, TypeError),
    ({"resources": 1}, TypeError),
    ({"resources": {"CPU": 1}}, ValueError),
    ({"resources": {"GPU": 1}}, ValueError),
    ({"resources": {"a": -1}}, ValueError),
    ({"accelerator_type": 5}, TypeError),
    ({"runtime_env": 5}, TypeError),
    ({"scheduling_strategy": 5}, TypeError),
    ({"no_such_option": 1}, ValueError),
    ({"label_selector": 5}, TypeError),
    ({"name": 5}, TypeError),
]
TASK = [
    ({"max_calls": -1}, ValueError),
    ({"max_calls": "1"}, TypeError),
    ({"max_retries": -2}, ValueError),
    ({"max_retries": "1"}, TypeError),
    ({"num_returns": -1}, ValueError),
    ({"retry_exceptions": 5}, TypeError),
    ({"max_restarts": 1}, ValueError),
    ({"max_concurrency": 1}, ValueError),
    ({"lifetime": "detached"}, ValueError),
]
ACTOR = [
    ({"max_concurrency": "2"}, TypeError),
    ({"max_restarts": -2}, ValueError),
    ({"max_restarts": "1"}, TypeError),
    ({"max_task_retries": -2}, ValueError),
    ({"max_pending_calls": -2}, ValueError),
    ({"max_pending_calls": "5"}, TypeError),
    ({"lifetime": "long"}, ValueError),
    ({"namespace": 5}, TypeError),
    ({"max_calls": 1}, ValueError),
    ({"max_retries": 1}, ValueError),
    ({"num_returns": 1}, ValueError),
    ({"retry_exceptions": True}, ValueError),
]


def ids(cases: list[tuple[dict[str, Any], Any]]) -> list[str]:
    return [str(options) for options, *_ in cases]


@pytest.mark.parametrize(("options", "error"), BOTH + TASK, ids=ids(BOTH + TASK))
def test_of_a_task_are_refused_by_the_decorator(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ray.remote(**options)(function)


@pytest.mark.parametrize(("options", "error"), BOTH + TASK, ids=ids(BOTH + TASK))
def test_of_a_task_are_refused_by_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ray.remote(function).options(**options)


@pytest.mark.parametrize(("options", "error"), BOTH + ACTOR, ids=ids(BOTH + ACTOR))
def test_of_an_actor_are_refused_by_the_decorator(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ray.remote(**options)(Plain)


@pytest.mark.parametrize(("options", "error"), BOTH + ACTOR, ids=ids(BOTH + ACTOR))
def test_of_an_actor_are_refused_by_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ray.remote(Plain).options(**options)


@pytest.mark.parametrize(
    ("options", "error"),
    [(options, error) for options, error in BOTH + TASK],
    ids=ids(BOTH + TASK),
)
def test_the_type_of_error_of_a_task(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ray.remote(**options)(function)


@pytest.mark.parametrize(("options", "error"), BOTH + ACTOR, ids=ids(BOTH + ACTOR))
def test_the_type_of_error_of_an_actor(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ray.remote(**options)(Plain)


ACCEPTED: list[dict[str, Any]] = [
    {"num_cpus": 0},
    {"num_cpus": None},
    {"num_cpus": 0.5},
    {"num_cpus": 2.5},
    {"num_gpus": 0},
    {"num_gpus": 0.25},
    {"memory": 100},
    {"memory": 100.0},
    {"resources": {}},
    {"resources": None},
    {"resources": {"a": 0.5}},
    {"runtime_env": None},
    {"runtime_env": {}},
    {"accelerator_type": None},
    {"accelerator_type": "A100"},
    {"scheduling_strategy": None},
    {"scheduling_strategy": "DEFAULT"},
    {"scheduling_strategy": "SPREAD"},
    {"label_selector": {}},
    {"label_selector": {"zone": "in(a,b)"}},
    {"name": None},
    {"name": "named"},
    {"_labels": {"a": "b"}},
    {"enable_task_events": False},
]
OF_TASKS = [
    {"max_retries": -1},
    {"num_returns": 0},
    {"num_returns": None},
    {"retry_exceptions": [ValueError]},
    {"_generator_backpressure_num_objects": 5},
]
OF_ACTORS = [
    {"max_concurrency": 2},
    {"max_concurrency": None},
    {"max_restarts": -1},
    {"max_task_retries": -1},
    {"max_pending_calls": -1},
    {"max_pending_calls": 5},
    {"lifetime": None},
    {"lifetime": "detached"},
    {"lifetime": "non_detached"},
    {"namespace": None},
    {"namespace": "somewhere"},
    {"get_if_exists": True, "name": "named"},
    {"concurrency_groups": {"io": 2}},
]


@pytest.mark.parametrize("options", ACCEPTED + OF_TASKS, ids=str)
def test_of_a_task_are_taken(options: dict[str, Any]) -> None:
    ray.remote(**options)(function)
    ray.remote(function).options(**options)


@pytest.mark.parametrize("options", ACCEPTED + OF_ACTORS, ids=str)
def test_of_an_actor_are_taken(options: dict[str, Any]) -> None:
    ray.remote(**options)(Plain)
    if "concurrency_groups" not in options:
        ray.remote(Plain).options(**options)


METHOD: list[dict[str, Any]] = [
    {"num_cpus": 1},
    {"no_such_option": 1},
]


@pytest.mark.parametrize("options", METHOD, ids=str)
def test_of_a_method_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, TypeError, ValueError)):

        class Decorated:
            @ray.method(**options)
            def method(self) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"num_returns": 2},
        {"concurrency_group": "io"},
        {"max_task_retries": 3},
        {"retry_exceptions": True},
        {"enable_task_events": False},
        {"_generator_backpressure_num_objects": 2},
    ],
    ids=str,
)
def test_of_a_method_are_taken(options: dict[str, Any]) -> None:
    class Decorated:
        @ray.method(**options)
        def method(self) -> None: ...


DECORATOR = "The @ray.remote decorator must be applied either with no arguments and no parentheses"


@pytest.mark.parametrize("body", [5, "text", None, [], (function,)], ids=str)
def test_what_is_neither_function_nor_class_is_refused(body: Any) -> None:
    with pytest.raises((AssertionError, TypeError), match=DECORATOR):
        ray.remote(body)


@pytest.mark.parametrize("number", ["dynamic", "streaming"])
def test_only_generator_functions_stream(number: str) -> None:
    phrase = "can only be used with generator functions"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=phrase):
            ray.remote(num_returns=number)(function)
        with pytest.raises(ValueError, match=phrase):
            ray.remote(function).options(num_returns=number)


def test_max_calls_belongs_to_the_function() -> None:
    with pytest.raises(ValueError, match="Setting 'max_calls' is not supported in '.options\\(\\)'"):
        ray.remote(function).options(max_calls=1)


def test_backpressure_of_a_generator() -> None:
    with pytest.raises(ValueError, match="_generator_backpressure_num_objects=0 is not allowed"):
        ray.remote(_generator_backpressure_num_objects=0)(function)


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"num_cpus": -1}, "The quantity of resource num_cpus cannot be negative"),
        ({"num_gpus": -1}, "The quantity of resource num_gpus cannot be negative"),
        ({"resources": {"CPU": 1}}, "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU'"),
        ({"no_such_option": 1}, "Invalid option keyword no_such_option"),
    ],
    ids=str,
)
def test_phrases_of_refusals(options: dict[str, Any], phrase: str) -> None:
    for body in (function, Plain):
        with pytest.raises(ValueError, match=phrase):
            ray.remote(**options)(body)
