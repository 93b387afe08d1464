"""Nodes that join and leave: which resources are used, and what is restarted, retried, rebuilt or lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ActorDiedError, RayActorError, RayError
from ray.util import placement_group, placement_group_table
from waiting import wait_for

pytestmark = pytest.mark.timeout(180)

QUIET = {"log_to_driver": False}


def stop(cluster: Cluster) -> None:
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def make() -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster with a head of one CPU; the test adds nodes and may remove them."""
    made: list[Cluster] = []

    def start() -> Cluster:
        ray.shutdown()
        made.append(Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "resources": {"head": 1}}))
        return made[-1]

    yield start
    for cluster in made:
        stop(cluster)


def here_task() -> Any:
    @ray.remote
    def here() -> str:
        return ray.get_runtime_context().get_node_id()

    return here


def here_class() -> Any:
    @ray.remote
    class Here:
        def node(self) -> str:
            return ray.get_runtime_context().get_node_id()

    return Here


def node_with(resource: str) -> str:
    """The id of the living node that has a custom resource."""
    return next(node["NodeID"] for node in ray.nodes() if node["Alive"] and resource in node["Resources"])


def living() -> int:
    return sum(node["Alive"] for node in ray.nodes())


def test_core_33_added_node_is_used(make: Callable[[], Cluster]) -> None:
    cluster = make()
    ray.init(address=cluster.address, **QUIET)
    assert ray.cluster_resources()["CPU"] == 1
    cluster.add_node(num_cpus=2, resources={"late": 1})
    cluster.wait_for_nodes()
    wait_for(lambda: ray.cluster_resources()["CPU"] == 3, what="the new node's CPUs")
    found = ray.get(here_task().options(resources={"late": 1}).remote(), timeout=60)
    assert found == node_with("late")


def test_core_33_removed_node_is_gone(make: Callable[[], Cluster]) -> None:
    cluster = make()
    node = cluster.add_node(num_cpus=2, resources={"doomed": 1})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()
    doomed = node_with("doomed")

    @ray.remote(resources={"doomed": 1})
    class Victim:
        def pid(self) -> int:
            return os.getpid()

    victim = Victim.remote()
    ray.get(victim.pid.remote(), timeout=60)
    cluster.remove_node(node)
    wait_for(lambda: living() == 1, what="the node to be marked dead", timeout_s=60)
    assert {entry["NodeID"]: entry["Alive"] for entry in ray.nodes()}[doomed] is False
    wait_for(lambda: "doomed" not in ray.cluster_resources(), what="its resources to be gone", timeout_s=60)
    with pytest.raises(ActorDiedError):
        ray.get(victim.pid.remote(), timeout=60)


def test_core_23_actor_restarts_on_another_node(make: Callable[[], Cluster]) -> None:
    cluster = make()
    node = cluster.add_node(num_cpus=1, resources={"spot": 1})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()
    actor = here_class().options(resources={"spot": 1}, max_restarts=-1, max_task_retries=-1).remote()
    before = ray.get(actor.node.remote(), timeout=60)
    cluster.add_node(num_cpus=1, resources={"spot": 1})
    cluster.wait_for_nodes()
    cluster.remove_node(node, allow_graceful=False)
    wait_for(lambda: living() == 2, what="the node to be marked dead", timeout_s=60)
    after = ray.get(actor.node.remote(), timeout=120)
    assert after != before


def test_core_11_task_on_a_lost_node_is_run_again(make: Callable[[], Cluster], gate: Any, tally: Any) -> None:
    attempts, release = tally("attempts"), gate("release")
    cluster = make()
    node = cluster.add_node(num_cpus=1, resources={"spot": 1})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()

    @ray.remote(resources={"spot": 1})
    def work() -> str:
        if attempts.add() == 1:
            release.wait(timeout_s=60)
        return ray.get_runtime_context().get_node_id()

    before = node_with("spot")
    working = work.remote()
    wait_for(lambda: attempts.count() == 1, what="the first attempt", timeout_s=60)
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=1, resources={"spot": 1})
    assert ray.get(working, timeout=120) != before
    assert attempts.count() == 2


def test_core_40_lost_object_is_rebuilt_from_its_task(make: Callable[[], Cluster], tally: Any) -> None:
    runs = tally("runs")
    cluster = make()
    node = cluster.add_node(num_cpus=1, resources={"spot": 1})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()

    @ray.remote(resources={"spot": 1})
    def produce() -> np.ndarray:
        runs.add()
        return np.arange(1_000_000)

    @ray.remote(resources={"spot": 1})
    def double(array: np.ndarray) -> np.ndarray:
        return array * 2

    doubled = double.remote(produce.remote())
    assert ray.wait([doubled], timeout=60, fetch_local=False)[0] == [doubled]
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=1, resources={"spot": 1})
    assert ray.get(doubled, timeout=150)[-1] == 1_999_998
    assert runs.count() == 2


def test_core_40_lost_object_without_retries_is_an_error(make: Callable[[], Cluster]) -> None:
    cluster = make()
    node = cluster.add_node(num_cpus=1, resources={"spot": 1})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()

    @ray.remote(resources={"spot": 1}, max_retries=0)
    def produce() -> np.ndarray:
        return np.arange(1_000_000)

    made = produce.remote()
    assert ray.wait([made], timeout=60, fetch_local=False)[0] == [made]
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=1, resources={"spot": 1})
    with pytest.raises(RayError) as raised:
        ray.get(made, timeout=120)
    assert isinstance(raised.value, ray.exceptions.ObjectLostError)


def test_core_40_object_of_a_lost_actor_is_an_error(make: Callable[[], Cluster]) -> None:
    cluster = make()
    node = cluster.add_node(num_cpus=1, resources={"spot": 1})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()

    @ray.remote(resources={"spot": 1})
    class Maker:
        def produce(self) -> np.ndarray:
            return np.arange(1_000_000)

    maker = Maker.remote()
    made = maker.produce.remote()
    assert ray.wait([made], timeout=60, fetch_local=False)[0] == [made]
    cluster.remove_node(node, allow_graceful=False)
    with pytest.raises((ray.exceptions.ObjectLostError, RayActorError)):
        ray.get(made, timeout=120)


def test_core_36_bundle_of_a_lost_node_moves(make: Callable[[], Cluster]) -> None:
    cluster = make()
    node = cluster.add_node(num_cpus=1, resources={"spot": 1})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()
    group = placement_group([{"spot": 1}])
    assert group.wait(30)
    before = placement_group_table(group)["bundles_to_node_id"][0]
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=1, resources={"spot": 1})

    def moved() -> bool:
        entry = placement_group_table(group)
        return entry["state"] == "CREATED" and entry["bundles_to_node_id"][0] not in ("", before)

    wait_for(moved, what="the bundle to be placed again", timeout_s=90)
