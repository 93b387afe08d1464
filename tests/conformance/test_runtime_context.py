"""The runtime context in the driver, a task and an actor."""

from __future__ import annotations

import asyncio
import os
import warnings
from typing import Any

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")

IDS = ["get_job_id", "get_node_id", "get_worker_id", "get_task_id", "get_actor_id"]
LENGTHS = {"get_job_id": 8, "get_node_id": 56, "get_worker_id": 56, "get_task_id": 48, "get_actor_id": 32}


def ids_task() -> Any:
    @ray.remote
    def ids(names: list[str]) -> dict[str, Any]:
        context = ray.get_runtime_context()
        return {name: getattr(context, name)() for name in names}

    return ids


def ids_class() -> Any:
    @ray.remote
    class Ids:
        def __init__(self) -> None:
            self.at_start = ray.get_runtime_context().get_actor_id()

        def ids(self, names: list[str]) -> dict[str, Any]:
            context = ray.get_runtime_context()
            return {name: getattr(context, name)() for name in names}

        def start(self) -> str | None:
            return self.at_start

        async def async_task_id(self) -> str | None:
            await asyncio.sleep(0)
            return ray.get_runtime_context().get_task_id()

    return Ids


def of_driver() -> dict[str, Any]:
    context = ray.get_runtime_context()
    return {name: getattr(context, name)() for name in IDS}


@pytest.mark.parametrize("name", ["get_job_id", "get_node_id", "get_worker_id"])
def test_core_13_ids_of_the_driver(name: str) -> None:
    value = of_driver()[name]
    assert len(value) == LENGTHS[name]
    int(value, 16)


def test_core_13_driver_has_no_task_and_no_actor() -> None:
    context = ray.get_runtime_context()
    assert context.get_task_id() is None
    assert context.get_actor_id() is None
    assert context.get_actor_name() is None
    assert context.get_task_name() is None
    assert context.get_task_function_name() is None
    assert context.get_placement_group_id() is None


@pytest.mark.parametrize("name", IDS[:4])
def test_core_13_ids_of_a_task(name: str) -> None:
    value = ray.get(ids_task().remote([name]))[name]
    assert len(value) == LENGTHS[name]
    int(value, 16)


def test_core_13_task_is_no_actor() -> None:
    assert ray.get(ids_task().remote(["get_actor_id", "get_actor_name"])) == {
        "get_actor_id": None,
        "get_actor_name": None,
    }


def test_core_13_task_shares_job_and_node_with_the_driver() -> None:
    driver = of_driver()
    task = ray.get(ids_task().remote(IDS))
    assert task["get_job_id"] == driver["get_job_id"]
    assert task["get_node_id"] == driver["get_node_id"]
    assert task["get_worker_id"] != driver["get_worker_id"]


def test_core_13_every_task_has_its_own_id() -> None:
    found = ray.get([ids_task().remote(["get_task_id"]) for _ in range(5)])
    assert len({one["get_task_id"] for one in found}) == 5


def test_core_13_task_id_is_that_of_its_ref() -> None:
    ref = ids_task().remote(["get_task_id"])
    assert ray.get(ref)["get_task_id"] == ref.task_id().hex()


@pytest.mark.parametrize("name", IDS)
def test_core_13_ids_of_an_actor(name: str) -> None:
    value = ray.get(ids_class().remote().ids.remote([name]))[name]
    assert len(value) == LENGTHS[name]
    int(value, 16)


def test_core_13_actor_id_is_the_same_in_the_constructor_and_in_methods() -> None:
    actor = ids_class().remote()
    method = ray.get(actor.ids.remote(["get_actor_id"]))["get_actor_id"]
    assert ray.get(actor.start.remote()) == method
    assert method in repr(actor)


def test_core_13_every_actor_call_has_its_own_task_id() -> None:
    actor = ids_class().remote()
    found = ray.get([actor.async_task_id.remote() for _ in range(5)])
    assert len(set(found)) == 5
    assert None not in found


def test_core_13_worker_id_is_constant_in_an_actor() -> None:
    actor = ids_class().remote()
    found = ray.get([actor.ids.remote(["get_worker_id"]) for _ in range(3)])
    assert len({one["get_worker_id"] for one in found}) == 1


def names_task() -> Any:
    @ray.remote
    def names() -> tuple[str, str]:
        context = ray.get_runtime_context()
        return context.get_task_name(), context.get_task_function_name()

    return names


def test_core_13_task_name_is_the_function_by_default() -> None:
    name, function = ray.get(names_task().remote())
    assert name.endswith("names")
    assert function.endswith("names")


def test_core_13_task_name_can_be_given() -> None:
    name, function = ray.get(names_task().options(name="mine").remote())
    assert name == "mine"
    assert function.endswith("names")


def test_core_13_namespace_is_shared() -> None:
    @ray.remote
    def where() -> str:
        return ray.get_runtime_context().namespace

    assert ray.get(where.remote()) == ray.get_runtime_context().namespace


def test_core_33_labels_of_the_node() -> None:
    @ray.remote
    def labels() -> dict[str, str]:
        return ray.get_runtime_context().get_node_labels()

    found = ray.get(labels.remote())
    assert found["ray.io/node-id"] == ray.get_runtime_context().get_node_id()
    assert found == ray.get_runtime_context().get_node_labels()


@pytest.mark.parametrize(
    "read",
    ["get_assigned_resources", "is_canceled", "was_current_actor_reconstructed", "current_actor"],
)
def test_core_13_questions_the_driver_cannot_ask(read: str) -> None:
    context = ray.get_runtime_context()
    with pytest.raises((AssertionError, RuntimeError)):
        value = getattr(context, read)
        value()


def test_core_13_a_task_has_no_current_actor() -> None:
    @ray.remote
    def ask() -> Any:
        return ray.get_runtime_context().current_actor

    with pytest.raises(RuntimeError, match="actor"):
        ray.get(ask.remote())


def test_core_18_a_running_task_is_not_cancelled() -> None:
    @ray.remote
    def ask() -> bool:
        return ray.get_runtime_context().is_canceled()

    assert ray.get(ask.remote()) is False


def test_core_33_temp_dir_and_session_name() -> None:
    context = ray.get_runtime_context()
    assert os.path.isdir(context.get_temp_dir())
    assert context.get_session_name()


def test_core_13_old_properties_hold_ids() -> None:
    @ray.remote
    def ids() -> Any:
        context = ray.get_runtime_context()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return context.job_id.hex(), context.node_id.hex(), context.task_id.hex(), context.get_task_id()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        driver = ray.get_runtime_context()
        ours = (driver.job_id.hex(), driver.node_id.hex())
    job, node, task, task_text = ray.get(ids.remote())
    assert (job, node) == ours
    assert task == task_text


def test_rte_4_runtime_env_of_a_plain_task_is_empty() -> None:
    @ray.remote
    def ask() -> Any:
        return dict(ray.get_runtime_context().runtime_env)

    assert ray.get(ask.remote()) == {}
    assert dict(ray.get_runtime_context().runtime_env) == {}
    assert ray.get_runtime_context().get_runtime_env_string() == "{}"


def test_rte_4_runtime_env_of_a_task() -> None:
    @ray.remote(runtime_env={"env_vars": {"CONTEXT": "yes"}})
    def ask() -> Any:
        context = ray.get_runtime_context()
        return context.runtime_env["env_vars"], context.get_runtime_env_string()

    found, text = ray.get(ask.remote())
    assert found == {"CONTEXT": "yes"}
    assert "CONTEXT" in text


def test_core_13_context_can_be_asked_before_init(fresh: Any) -> None:
    assert ray.is_initialized() is False
    assert ray.get_runtime_context() is not None
