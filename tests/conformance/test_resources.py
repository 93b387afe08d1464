"""CPUs, memory, custom resources: what limits how much runs, and how it is shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from waiting import Gate, Tally, wait_for


@pytest.fixture
def widgets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two CPUs, three widgets and a rare accelerator type."""
    request.getfixturevalue("fresh")(num_cpus=2, resources={"widget": 3, "accelerator_type:RARE": 1})
    yield


def holding(**options: Any) -> Any:
    @ray.remote(**options)
    def hold(arrived: Tally, release: Gate) -> None:
        arrived.add()
        release.wait(timeout_s=60)

    return hold


def requesting(**options: Any) -> Any:
    @ray.remote
    def ask() -> dict[str, float]:
        return ray.get_runtime_context().get_assigned_resources()

    return ask.options(**options)


def settle(arrived: Tally, count: int) -> None:
    """Wait for ``count`` arrivals and make sure that no other task got in."""
    wait_for(lambda: arrived.count() >= count, what=f"{count} tasks to run at once", timeout_s=60)
    assert arrived.count() == count


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("num_cpus", "submitted", "at_once"),
    [(1, 4, 2), (2, 3, 1), (0.5, 6, 4), (1.5, 2, 1)],
    ids=["one", "two", "half", "one_and_a_half"],
)
def test_core_27_num_cpus_limits_what_runs_at_once(
    num_cpus: float, submitted: int, at_once: int, gate: Any, tally: Any
) -> None:
    arrived, release = tally("arrived"), gate("release")
    hold = holding(num_cpus=num_cpus)
    tasks = [hold.remote(arrived, release) for _ in range(submitted)]
    settle(arrived, at_once)
    assert ray.wait(tasks, num_returns=1, timeout=0.2)[0] == []
    assert arrived.count() == at_once
    release.open()
    ray.get(tasks)
    assert arrived.count() == submitted


@pytest.mark.usefixtures("cluster")
def test_core_27_zero_cpus_do_not_wait_for_a_cpu(gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")
    busy = [holding(num_cpus=1).remote(arrived, release) for _ in range(2)]
    settle(arrived, 2)

    @ray.remote(num_cpus=0)
    def free() -> int:
        return 1

    assert ray.get([free.remote() for _ in range(3)], timeout=60) == [1, 1, 1]
    release.open()
    ray.get(busy)


@pytest.mark.usefixtures("cluster")
def test_core_27_small_task_runs_beside_a_large_one_that_waits(gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")
    first = holding(num_cpus=1).remote(arrived, release)
    settle(arrived, 1)
    large = requesting(num_cpus=2).remote()
    small = requesting(num_cpus=1).remote()
    assert ray.get(small, timeout=60) == {"CPU": 1.0}
    assert ray.wait([large], timeout=0.1)[0] == []
    release.open()
    ray.get(first)
    assert ray.get(large, timeout=60) == {"CPU": 2.0}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"CPU": 1.0}),
        ({"num_cpus": 2}, {"CPU": 2.0}),
        ({"num_cpus": 0.5}, {"CPU": 0.5}),
        ({"num_cpus": 0}, {}),
        ({"memory": 1024 * 1024}, {"CPU": 1.0, "memory": 1024.0 * 1024}),
    ],
    ids=["default", "two", "half", "none", "memory"],
)
def test_core_27_assigned_resources_of_a_task(options: dict[str, Any], expected: dict[str, float]) -> None:
    assert ray.get(requesting(**options).remote()) == expected


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("num_cpus", "threads"), [(None, "1"), (1, "1"), (2, "2"), (0.5, "1"), (0, "1")])
def test_core_30_omp_num_threads_is_num_cpus(num_cpus: float | None, threads: str) -> None:
    @ray.remote
    def read() -> str | None:
        return os.environ.get("OMP_NUM_THREADS")

    options = {} if num_cpus is None else {"num_cpus": num_cpus}
    assert ray.get(read.options(**options).remote()) == threads


@pytest.mark.usefixtures("cluster")
def test_core_30_omp_num_threads_set_by_the_user_stays() -> None:
    @ray.remote(num_cpus=2, runtime_env={"env_vars": {"OMP_NUM_THREADS": "7"}})
    def read() -> str | None:
        return os.environ.get("OMP_NUM_THREADS")

    assert ray.get(read.remote()) == "7"


@pytest.mark.usefixtures("cluster")
def test_core_33_cluster_resources_keys() -> None:
    total = ray.cluster_resources()
    assert total["CPU"] == 2
    assert total["memory"] > 0
    assert total["object_store_memory"] > 0
    assert total["node:__internal_head__"] == 1
    address = ray.nodes()[0]["NodeManagerAddress"]
    assert total[f"node:{address}"] == 1
    assert all(isinstance(quantity, float) for quantity in total.values())
    assert "GPU" not in total


@pytest.mark.usefixtures("cluster")
def test_core_33_available_resources_follow_what_runs(gate: Any, tally: Any) -> None:
    wait_for(lambda: ray.available_resources().get("CPU") == 2, what="an idle cluster")
    arrived, release = tally("arrived"), gate("release")
    task = holding(num_cpus=1.5).remote(arrived, release)
    settle(arrived, 1)
    wait_for(lambda: ray.available_resources().get("CPU") == 0.5, what="half a CPU to be left")
    release.open()
    ray.get(task)
    wait_for(lambda: ray.available_resources().get("CPU") == 2, what="both CPUs to be free again")


@pytest.mark.usefixtures("cluster")
def test_core_33_resource_used_up_leaves_available_resources(gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")
    task = holding(num_cpus=2).remote(arrived, release)
    settle(arrived, 1)
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 0, what="no CPU to be left")
    assert ray.cluster_resources()["CPU"] == 2
    release.open()
    ray.get(task)


@pytest.mark.usefixtures("cluster")
def test_core_33_nodes_describe_the_node() -> None:
    (node,) = ray.nodes()
    keys = {"NodeID", "Alive", "NodeManagerAddress", "NodeManagerHostname", "NodeName", "Resources", "Labels"}
    assert keys <= set(node)
    assert "DeathReason" in node
    assert node["Alive"] is True
    assert node["Resources"]["CPU"] == 2
    assert len(node["NodeID"]) == 56
    assert node["NodeID"] == ray.get_runtime_context().get_node_id()
    assert node["Labels"]["ray.io/node-id"] == node["NodeID"]


# custom resources


def test_core_33_custom_resources_are_listed(widgets: None) -> None:
    assert ray.cluster_resources()["widget"] == 3
    assert ray.nodes()[0]["Resources"]["widget"] == 3


def test_core_27_custom_resource_limits_what_runs_at_once(widgets: None, gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")
    hold = holding(num_cpus=0, resources={"widget": 1})
    tasks = [hold.remote(arrived, release) for _ in range(5)]
    settle(arrived, 3)
    wait_for(lambda: ray.available_resources().get("widget", 0) == 0, what="every widget to be taken")
    release.open()
    ray.get(tasks)
    assert arrived.count() == 5


def test_core_27_fractions_of_a_custom_resource(widgets: None, gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")
    tasks = [holding(num_cpus=0, resources={"widget": 0.75}).remote(arrived, release) for _ in range(5)]
    settle(arrived, 4)
    release.open()
    ray.get(tasks)


def test_core_27_fractions_are_given_back_exactly(widgets: None, gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")
    tasks = [holding(num_cpus=0, resources={"widget": 0.1}).remote(arrived, release) for _ in range(3)]
    settle(arrived, 3)
    wait_for(lambda: ray.available_resources()["widget"] == pytest.approx(2.7, abs=1e-3), what="2.7 widgets")
    release.open()
    ray.get(tasks)
    wait_for(lambda: ray.available_resources()["widget"] == 3, what="three widgets to be free")


def test_core_27_actor_holds_a_custom_resource_for_life(widgets: None) -> None:
    @ray.remote(resources={"widget": 2})
    class Holds:
        def assigned(self) -> dict[str, float]:
            return ray.get_runtime_context().get_assigned_resources()

    actor = Holds.remote()
    # One that names a resource but no CPUs holds one CPU as well, unlike the default actor.
    assert ray.get(actor.assigned.remote()) == {"widget": 2.0, "CPU": 1.0}
    wait_for(lambda: ray.available_resources()["widget"] == 1, what="two widgets to be taken")
    del actor
    wait_for(lambda: ray.available_resources()["widget"] == 3, what="the widgets to be free again")


def test_core_30_accelerator_type_takes_a_sliver(widgets: None) -> None:
    assert ray.get(requesting(accelerator_type="RARE").remote()) == {
        "CPU": 1.0,
        "accelerator_type:RARE": 0.001,
    }


def test_core_12_a_blocked_task_gives_back_its_cpus_only(widgets: None, gate: Any, tally: Any) -> None:
    """A task that waits in get lends its CPU, but not a custom resource, to others."""
    arrived, release = tally("arrived"), gate("release")

    @ray.remote(num_cpus=2, resources={"widget": 3})
    def outer(inner_arrived: Tally, inner_release: Gate) -> str:
        ray.get(holding(num_cpus=2).remote(inner_arrived, inner_release))
        return "done"

    task = outer.remote(arrived, release)
    settle(arrived, 1)
    assert ray.available_resources().get("widget", 0) == 0
    release.open()
    assert ray.get(task) == "done"


# mistakes


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"num_cpus": "two"}, TypeError, "num_cpus"),
        ({"num_cpus": 0.00001}, ValueError, "0.0001"),
        ({"num_gpus": -1}, ValueError, "num_gpus"),
        ({"memory": -5}, ValueError, "memory"),
        ({"resources": {"CPU": 1}}, ValueError, "num_cpus"),
        ({"resources": {"GPU": 1}}, ValueError, "num_gpus"),
        ({"resources": {"widget": -1}}, ValueError, "widget"),
        ({"resources": {"widget": 0.00001}}, ValueError, "0.0001"),
        ({"resources": ["widget"]}, TypeError, "resources"),
    ],
    ids=["negative", "text", "too_small", "gpus", "memory", "CPU", "GPU", "custom", "custom_small", "list"],
)
def test_core_31_bad_quantities_are_refused(
    options: dict[str, Any], error: type[Exception], word: str
) -> None:
    @ray.remote
    def task() -> None: ...

    with pytest.raises(error, match=word):
        task.options(**options).remote()


@pytest.mark.usefixtures("cluster")
def test_core_31_fractional_gpus_above_one_are_refused() -> None:
    @ray.remote
    def task() -> None: ...

    with pytest.raises(ValueError, match="whole"):
        task.options(num_gpus=1.5).remote()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "options", [{"num_cpus": 99}, {"num_gpus": 1}, {"resources": {"widget": 1}}], ids=["CPU", "GPU", "custom"]
)
@pytest.mark.parametrize("kind", ["task", "actor"])
@pytest.mark.chosen_difference(
    "what this cluster can never run fails at once and names what is missing; Ray waits forever",
    id="D-infeasible",
)
def test_core_32_infeasible_request_fails_at_once(kind: str, options: dict[str, Any]) -> None:
    @ray.remote
    def task() -> None: ...

    @ray.remote
    class Actor:
        def hi(self) -> None: ...

    word = {"num_cpus": "CPU", "num_gpus": "GPU", "resources": "widget"}[next(iter(options))]
    errors = (ray.exceptions.TaskUnschedulableError, ray.exceptions.ActorUnschedulableError)
    with pytest.raises(errors, match=word):
        if kind == "task":
            ray.get(task.options(**options).remote(), timeout=30)
        else:
            ray.get(Actor.options(**options).remote().hi.remote(), timeout=30)


@pytest.mark.parametrize(
    "resources", [{"CPU": 2}, {"GPU": 1}, {"widget": -1}], ids=["CPU", "GPU", "negative"]
)
def test_core_33_bad_resources_of_a_node_are_refused(fresh: Any, resources: dict[str, float]) -> None:
    with pytest.raises((AssertionError, ValueError)):
        fresh(num_cpus=1, resources=resources)


def test_stored_values_take_object_store_memory(cluster):
    import numpy as np

    before = ray.available_resources()["object_store_memory"]
    ref = ray.put(np.zeros(50 << 20, dtype=np.uint8))

    def taken() -> int:
        return round((before - ray.available_resources().get("object_store_memory", 0)) / 2**20)

    wait_for(lambda: taken() == 50, what="the value to count")
    del ref
    wait_for(lambda: taken() == 0, what="the value to be freed")
