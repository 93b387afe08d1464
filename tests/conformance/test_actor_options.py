"""Actors: options and calls that are refused."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


def counter_class() -> Any:
    @ray.remote
    class Counter:
        def __init__(self, start: int = 0, *, step: int = 1) -> None:
            self.value = start
            self.step = step

        def add(self, times: int = 1) -> int:
            self.value += self.step * times
            return self.value

        def read(self) -> int:
            return self.value

        def pid(self) -> int:
            return os.getpid()

    return Counter


@pytest.mark.parametrize("name", ["nothing", "value"], ids=["missing_method", "attribute"])
def test_mistake_reading_what_is_not_a_method_of_the_actor(name: str) -> None:
    counter = counter_class().remote()
    with pytest.raises(AttributeError, match=name):
        getattr(counter, name)


@pytest.mark.chosen_difference(
    "the error names the actor's class; Ray's names only its own handle type", id="D-actor-attribute"
)
def test_mistake_missing_method_names_the_class() -> None:
    counter = counter_class().remote()
    with pytest.raises(AttributeError, match="Counter"):
        counter.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"frobnicate": 1}, ValueError, "frobnicate"),
        ({"num_returns": 2}, ValueError, "num_returns"),
        ({"max_retries": 2}, ValueError, "max_retries"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"num_cpus": "two"}, TypeError, "num_cpus"),
        ({"resources": {"CPU": 1}}, ValueError, "num_cpus"),
        ({"memory": -1}, ValueError, "memory"),
        ({"max_restarts": -2}, ValueError, "max_restarts"),
        ({"max_restarts": "often"}, TypeError, "max_restarts"),
        ({"max_task_retries": -2}, ValueError, "max_task_retries"),
        ({"lifetime": "eternal"}, ValueError, "detached"),
        ({"name": 5}, TypeError, "name"),
        ({"namespace": 3}, TypeError, "namespace"),
        ({"get_if_exists": True}, ValueError, "name"),
        ({"concurrency_groups": {"io": 1}}, ValueError, "concurrency_groups"),
        ({"scheduling_strategy": 5}, TypeError, "scheduling_strategy"),
        ({"runtime_env": 5}, TypeError, "runtime_env"),
        ({"accelerator_type": 5}, TypeError, "accelerator_type"),
        ({"label_selector": 5}, TypeError, "label_selector"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_mistake_bad_actor_option_is_refused_at_options(
    options: dict[str, Any], error: type[Exception], word: str
) -> None:
    with pytest.raises(error, match=word):
        counter_class().options(**options).remote()


def test_mistake_bad_actor_option_in_the_decorator_is_refused_there() -> None:
    with pytest.raises(ValueError, match="frobnicate"):

        @ray.remote(frobnicate=1)
        class Never:
            pass


def test_mistake_inheriting_from_an_actor_class() -> None:
    counter = counter_class()
    with pytest.raises(TypeError, match="[Ii]nherit"):

        class More(counter):
            pass
