"""Names of Ray's inside that packages in use take: each does what those packages want of it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import ray

USED = [
    ("ray._private.internal_api", "memory_summary"),
    ("ray._private.services", "get_node_ip_address"),
    ("ray._private.state", "available_resources_per_node"),
    ("ray._private.state", "total_resources_per_node"),
    ("ray._private.state", "actors"),
    ("ray._private.state", "nodes"),
    ("ray._private.state", "state"),
    ("ray._private.worker", "global_worker"),
    ("ray._private.worker", "_global_node"),
    ("ray._private.worker", "BaseContext"),
    ("ray._private.worker", "blocking_get_inside_async_warned"),
    ("ray._private.worker", "WORKER_MODE"),
    ("ray._private.worker", "init"),
    ("ray._private.ray_constants", "REDIS_DEFAULT_PASSWORD"),
    ("ray._private.ray_constants", "DEFAULT_DASHBOARD_PORT"),
    ("ray._raylet", "ObjectRef"),
    ("ray._raylet", "ActorID"),
    ("ray._raylet", "ObjectRefGenerator"),
    ("ray._common.test_utils", "wait_for_condition"),
    ("ray._common.test_utils", "SignalActor"),
    ("ray.data._internal.util", "_check_import"),
    ("ray.data._internal.util", "call_with_retry"),
    ("ray.data.block", "AggType"),
    ("ray.data.block", "DataBatch"),
    ("ray.data.block", "U"),
    ("ray.data.util.torch_inference", "TorchInference"),
    ("ray.air._internal.torch_utils", "get_devices"),
    ("ray.remote_function", "RemoteFunction"),
    ("ray.cloudpickle", "dumps"),
]


@pytest.mark.parametrize(("module", "name"), USED, ids=[".".join(each) for each in USED])
def test_there_is(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(
    ("old", "name"), [("worker", "global_worker"), ("state", "nodes"), ("ray_constants", "DEFAULT_PORT")]
)
def test_the_older_spelling(old: str, name: str) -> None:
    assert getattr(getattr(ray, old), name) is not None


def test_ray_has_a_logger() -> None:
    assert ray.logger.name == "ray"


def test_classes_are_those_of_the_public_names() -> None:
    from ray._raylet import NodeID, ObjectRef

    assert ObjectRef is ray.ObjectRef
    assert NodeID is ray.NodeID


def test_a_name_can_be_set() -> None:
    worker = importlib.import_module("ray._private.worker")
    before = worker.blocking_get_inside_async_warned
    worker.blocking_get_inside_async_warned = True
    assert importlib.import_module("ray._private.worker").blocking_get_inside_async_warned is True
    worker.blocking_get_inside_async_warned = before


def test_the_mode_of_a_driver_and_of_a_worker(cluster: None) -> None:
    from ray._private.worker import global_worker

    assert global_worker.mode == ray.SCRIPT_MODE
    assert global_worker.connected

    @ray.remote
    def read() -> Any:
        return ray._private.worker.global_worker.mode

    assert ray.get(read.remote()) == ray.WORKER_MODE


def test_ids_of_the_worker(cluster: None) -> None:
    from ray._private.worker import global_worker

    context = ray.get_runtime_context()
    assert global_worker.current_job_id.hex() == context.get_job_id()
    assert global_worker.core_worker.get_actor_id().is_nil()

    @ray.remote(num_cpus=0)
    class Reader:
        def own(self) -> tuple[str, str]:
            worker = ray._private.worker.global_worker
            return worker.core_worker.get_actor_id().hex(), worker.actor_id.hex()

    actor = Reader.remote()
    assert ray.get(actor.own.remote()) == (actor._actor_id.hex(),) * 2


def test_the_node_of_the_session(cluster: None) -> None:
    from ray._private import worker

    assert worker._global_node.address == ray.get_runtime_context().gcs_address
    assert worker._global_node.node_id == ray.get_runtime_context().get_node_id()
    assert worker.global_worker.node.address_info["address"] == worker._global_node.address


def test_resources_of_each_node(cluster: None) -> None:
    from ray._private import state

    node = ray.get_runtime_context().get_node_id()
    assert state.total_resources_per_node()[node]["CPU"] == 2
    assert 0 <= state.available_resources_per_node()[node]["CPU"] <= 2


def test_actors_by_id(cluster: None) -> None:
    from ray._private import state

    @ray.remote(num_cpus=0)
    class Listed:
        def ready(self) -> bool:
            return True

    actor = Listed.options(name="listed-by-id").remote()
    assert ray.get(actor.ready.remote())
    found = state.actors()[actor._actor_id.hex()]
    assert (found["Name"], found["State"]) == ("listed-by-id", "ALIVE")
    assert found["ActorClassName"] == "test_actors_by_id.<locals>.Listed"
    assert state.actors(actor._actor_id.hex())["ActorID"] == actor._actor_id.hex()


def test_placement_groups_by_id(cluster: None) -> None:
    from ray._private.state import state

    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    assert state.placement_group_table()[group.id.hex()]["state"] == "CREATED"
    assert state.placement_group_table(group.id)["bundles"] == {0: {"CPU": 1.0}}
    ray.util.remove_placement_group(group)


def test_waiting_for_a_condition() -> None:
    from ray._common.test_utils import wait_for_condition

    seen: list[int] = []
    wait_for_condition(lambda: len(seen) == 2 or seen.append(1), retry_interval_ms=1)
    with pytest.raises(RuntimeError, match="The condition wasn't met before the timeout expired"):
        wait_for_condition(lambda: False, timeout=0.05, retry_interval_ms=10)
    with pytest.raises(ZeroDivisionError):
        wait_for_condition(lambda: 1 / 0, timeout=1, raise_exceptions=True)


def test_a_signal_between_tasks(cluster: None) -> None:
    from ray._common.test_utils import SignalActor

    signal = SignalActor.remote()
    waiting = signal.wait.remote()
    assert ray.wait([waiting], timeout=0)[0] == []
    ray.get(signal.send.remote())
    ray.get(waiting)


def test_a_call_is_made_again() -> None:
    from ray.data._internal.util import call_with_retry

    seen: list[int] = []

    def fails_once() -> int:
        seen.append(1)
        if len(seen) == 1:
            raise OSError("try again")
        return 5

    assert call_with_retry(fails_once, "test", match=["try again"], max_attempts=3, max_backoff_s=0) == 5
    with pytest.raises(KeyError):
        call_with_retry(lambda: {}["x"], "test", match=["try again"], max_attempts=3, max_backoff_s=0)


def test_the_version_of_ray_is_known_to_python() -> None:
    assert importlib.metadata.version("ray") == ray.__version__


def test_a_program_as_text(cluster: None) -> None:
    from ray._common.test_utils import run_string_as_driver

    address = ray.get_runtime_context().gcs_address
    text = f"import ray; ray.init(address={address!r}, log_to_driver=False); print(ray.cluster_resources()['CPU'])"
    assert run_string_as_driver(text).split()[-1] == "2.0"


def test_what_is_not_there_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        importlib.import_module("ray._private.nothing_of_that_name")


@pytest.mark.parametrize("name", ["ray.nothing", "ray.data.nothing", "ray.util.nothing"])
def test_a_program_can_ask_for_a_module_that_is_not_there(name: str) -> None:
    assert importlib.util.find_spec("ray.data") is not None
    assert importlib.util.find_spec(name) is None
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(name)
    assert caught.value.name == name


def test_names_of_the_inside_in_a_task(cluster: None, script: Callable[..., Any]) -> None:
    @ray.remote
    def read() -> Any:
        from ray._private.services import get_node_ip_address

        return get_node_ip_address()

    assert ray.get(read.remote()) == ray.util.get_node_ip_address()
