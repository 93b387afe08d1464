"""Several nodes on one machine: placement over nodes, labels, transfer, losing a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ActorUnschedulableError, TaskUnschedulableError
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import (
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from waiting import wait_for

pytestmark = pytest.mark.timeout(180)

QUIET = {"log_to_driver": False}


def stop(cluster: Cluster) -> None:
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """A head with one CPU and two nodes with two CPUs each, named by a resource and a label."""
    ray.shutdown()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "resources": {"head": 1}, "labels": {"zone": "h"}},
    )
    for name in ("left", "right"):
        cluster.add_node(num_cpus=2, resources={name: 2}, labels={"zone": name})
    ray.init(address=cluster.address, **QUIET)
    cluster.wait_for_nodes()
    yield cluster
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


@pytest.mark.usefixtures("three")
def test_core_33_resources_of_all_nodes_add_up() -> None:
    total = ray.cluster_resources()
    assert total["CPU"] == 5
    assert (total["head"], total["left"], total["right"]) == (1, 2, 2)


@pytest.mark.usefixtures("three")
def test_core_33_every_node_is_listed() -> None:
    nodes = ray.nodes()
    assert len({node["NodeID"] for node in nodes}) == 3
    assert all(node["Alive"] for node in nodes)
    assert sorted(node["Resources"]["CPU"] for node in nodes) == [1, 2, 2]
    assert sorted(node["Labels"]["zone"] for node in nodes) == ["h", "left", "right"]


def test_core_33_nodes_know_their_id(three: Cluster) -> None:
    assert {node.node_id for node in three.list_all_nodes()} == {node["NodeID"] for node in ray.nodes()}


@pytest.mark.usefixtures("three")
def test_core_33_driver_is_on_the_head() -> None:
    assert ray.get_runtime_context().get_node_id() == node_with("head")


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("name", ["head", "left", "right"])
@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_27_custom_resource_chooses_the_node(kind: str, name: str) -> None:
    options = {"resources": {name: 1}}
    if kind == "task":
        found = ray.get(here_task().options(**options).remote(), timeout=60)
    else:
        found = ray.get(here_class().options(**options).remote().node.remote(), timeout=60)
    assert found == node_with(name)


@pytest.mark.usefixtures("three")
def test_core_27_request_that_fits_only_the_larger_nodes() -> None:
    assert ray.get(here_task().options(num_cpus=2).remote(), timeout=60) != node_with("head")


@pytest.mark.usefixtures("three")
@pytest.mark.chosen_difference("a request that no one node can meet fails at once", id="D-infeasible")
def test_core_32_request_that_only_all_nodes_together_could_meet() -> None:
    with pytest.raises(ray.exceptions.TaskUnschedulableError, match="CPU"):
        ray.get(here_task().options(num_cpus=5).remote(), timeout=30)


@pytest.mark.usefixtures("three")
def test_core_27_tasks_spill_over_to_other_nodes(gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")

    @ray.remote(num_cpus=1)
    def hold() -> str:
        arrived.add()
        release.wait(timeout_s=60)
        return ray.get_runtime_context().get_node_id()

    tasks = [hold.remote() for _ in range(5)]
    wait_for(lambda: arrived.count() == 5, what="all five CPUs to be busy", timeout_s=60)
    release.open()
    where = ray.get(tasks)
    assert sorted(where.count(node) for node in set(where)) == [1, 2, 2]


@pytest.mark.usefixtures("three")
def test_core_38_spread_uses_several_nodes(gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def hold() -> str:
        arrived.add()
        release.wait(timeout_s=60)
        return ray.get_runtime_context().get_node_id()

    tasks = [hold.remote() for _ in range(3)]
    wait_for(lambda: arrived.count() == 3, what="three tasks to run", timeout_s=60)
    release.open()
    assert len(set(ray.get(tasks))) >= 2


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("name", ["head", "left", "right"])
def test_core_38_affinity_to_each_node(name: str, soft: bool) -> None:
    strategy = NodeAffinitySchedulingStrategy(node_with(name), soft=soft)
    assert ray.get(here_task().options(scheduling_strategy=strategy).remote(), timeout=60) == node_with(name)


@pytest.mark.usefixtures("three")
def test_core_38_affinity_of_an_actor() -> None:
    strategy = NodeAffinitySchedulingStrategy(node_with("right"), soft=False)
    actor = here_class().options(scheduling_strategy=strategy).remote()
    assert ray.get(actor.node.remote(), timeout=60) == node_with("right")


@pytest.mark.usefixtures("three")
def test_core_38_hard_affinity_waits_for_its_busy_node(gate: Any, tally: Any) -> None:
    arrived, release = tally("arrived"), gate("release")

    @ray.remote(num_cpus=2, resources={"left": 1})
    def hold() -> None:
        arrived.add()
        release.wait(timeout_s=60)

    held = hold.remote()
    wait_for(lambda: arrived.count() == 1, what="the left node to be busy", timeout_s=60)
    strategy = NodeAffinitySchedulingStrategy(node_with("left"), soft=False)
    waiting = here_task().options(scheduling_strategy=strategy).remote()
    assert ray.wait([waiting], timeout=0.3)[0] == []
    release.open()
    ray.get(held)
    assert ray.get(waiting, timeout=60) == node_with("left")


@pytest.mark.usefixtures("three")
def test_core_38_affinity_to_a_busy_node_without_waiting() -> None:
    @ray.remote(num_cpus=2)
    class Holder:
        def node(self) -> str:
            return ray.get_runtime_context().get_node_id()

    left, here, actors = node_with("left"), here_task(), here_class()
    spills = NodeAffinitySchedulingStrategy(left, soft=True, _spill_on_unavailable=True)
    fails = NodeAffinitySchedulingStrategy(left, soft=False, _fail_on_unavailable=True)
    waits = NodeAffinitySchedulingStrategy(left, soft=False)
    for strategy in (spills, fails):
        assert ray.get(here.options(scheduling_strategy=strategy).remote(), timeout=60) == left
    holder = Holder.options(scheduling_strategy=waits).remote()
    assert ray.get(holder.node.remote(), timeout=60) == left
    assert ray.get(here.options(scheduling_strategy=spills).remote(), timeout=60) != left
    other = actors.options(num_cpus=1, scheduling_strategy=spills).remote()
    assert ray.get(other.node.remote(), timeout=60) != left
    with pytest.raises(TaskUnschedulableError):
        ray.get(here.options(scheduling_strategy=fails).remote(), timeout=60)
    refused = actors.options(num_cpus=1, scheduling_strategy=fails).remote()
    with pytest.raises(ActorUnschedulableError):
        ray.get(refused.node.remote(), timeout=60)
    for actor in (holder, other):
        ray.kill(actor)
    assert ray.get(here.options(scheduling_strategy=waits).remote(), timeout=60) == left


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("name", ["left", "right"])
@pytest.mark.parametrize("how", ["strategy", "selector"])
def test_core_38_labels_choose_the_node(how: str, name: str) -> None:
    options: dict[str, Any] = {"label_selector": {"zone": name}}
    if how == "strategy":
        options = {"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": In(name)})}
    assert ray.get(here_task().options(**options).remote(), timeout=60) == node_with(name)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("value", "names"), [("!h", {"left", "right"}), ("in(left,h)", {"left", "head"})])
def test_core_38_label_selectors_leave_nodes_out(value: str, names: set[str]) -> None:
    found = ray.get(here_task().options(label_selector={"zone": value}).remote(), timeout=60)
    assert found in {node_with(name) for name in names}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("strategy", "bundles", "nodes"),
    [
        ("STRICT_PACK", [{"CPU": 1}] * 2, {1}),
        ("PACK", [{"CPU": 1}] * 2, {1}),
        ("SPREAD", [{"CPU": 1}] * 3, {3}),
        ("STRICT_SPREAD", [{"CPU": 1}] * 3, {3}),
        ("PACK", [{"CPU": 2}] * 2, {2}),
        ("SPREAD", [{"CPU": 1}] * 5, {3}),
    ],
    ids=["strict_pack", "pack", "spread", "strict_spread", "pack_overflows", "spread_shares"],
)
def test_core_36_group_strategies_choose_nodes(strategy: str, bundles: Any, nodes: set[int]) -> None:
    wait_for(lambda: ray.available_resources().get("CPU") == 5, what="an idle cluster")
    group = placement_group(bundles, strategy=strategy)
    assert group.wait(30)
    assert len(set(placement_group_table(group)["bundles_to_node_id"].values())) in nodes
    remove_placement_group(group)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("strategy", "bundles"),
    [("STRICT_PACK", [{"CPU": 2}, {"CPU": 1}]), ("STRICT_SPREAD", [{"CPU": 1}] * 4)],
    ids=["strict_pack", "strict_spread"],
)
def test_core_36_strict_groups_that_cannot_be(strategy: str, bundles: Any) -> None:
    group = placement_group(bundles, strategy=strategy)
    assert group.wait(0.5) is False
    remove_placement_group(group)


@pytest.mark.usefixtures("three")
def test_core_35_tasks_run_where_their_bundle_is() -> None:
    wait_for(lambda: ray.available_resources().get("CPU") == 5, what="an idle cluster")
    group = placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    assert group.wait(30)
    planned = placement_group_table(group)["bundles_to_node_id"]
    found = {
        index: ray.get(
            here_task().options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote(),
            timeout=60,
        )
        for index in range(3)
    }
    assert found == planned
    remove_placement_group(group)


@pytest.mark.usefixtures("three")
def test_core_36_bundle_goes_where_its_resource_is() -> None:
    group = placement_group([{"left": 1}, {"right": 1}], strategy="PACK")
    assert group.wait(30)
    planned = placement_group_table(group)["bundles_to_node_id"]
    assert planned == {0: node_with("left"), 1: node_with("right")}
    remove_placement_group(group)


# objects between nodes


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("size", [10, 1_000_000], ids=["small", "large"])
def test_core_3_values_travel_between_nodes(size: int) -> None:
    @ray.remote
    def produce(n: int) -> np.ndarray:
        return np.arange(n)

    @ray.remote
    def total(array: np.ndarray) -> int:
        return int(array.sum())

    made = produce.options(resources={"left": 1}).remote(size)
    assert ray.get(total.options(resources={"right": 1}).remote(made), timeout=60) == size * (size - 1) // 2
    assert ray.get(made, timeout=60)[-1] == size - 1


@pytest.mark.usefixtures("three")
def test_core_3_driver_value_reaches_every_node() -> None:
    array = ray.put(np.ones(500_000))

    @ray.remote
    def total(values: np.ndarray) -> float:
        return float(values.sum())

    sums = [total.options(resources={name: 1}).remote(array) for name in ("head", "left", "right")]
    assert ray.get(sums, timeout=60) == [500_000.0] * 3


@pytest.mark.usefixtures("three")
def test_core_28_actors_on_two_nodes_call_each_other() -> None:
    @ray.remote
    class Peer:
        def __init__(self, other: Any = None) -> None:
            self.other = other

        def ask(self) -> list[str]:
            mine = ray.get_runtime_context().get_node_id()
            return [mine] if self.other is None else [mine, *ray.get(self.other.ask.remote())]

    right = Peer.options(resources={"right": 1}).remote()
    left = Peer.options(resources={"left": 1}).remote(right)
    assert ray.get(left.ask.remote(), timeout=60) == [node_with("left"), node_with("right")]


@pytest.mark.usefixtures("three")
def test_core_26_names_are_known_on_every_node() -> None:
    actor = here_class().options(name="known", resources={"left": 1}).remote()
    ray.get(actor.node.remote(), timeout=60)

    @ray.remote(resources={"right": 1})
    def ask() -> str:
        return ray.get(ray.get_actor("known").node.remote())

    assert ray.get(ask.remote(), timeout=60) == node_with("left")
    del actor


@pytest.mark.usefixtures("three")
def test_core_18_task_on_another_node_can_be_cancelled(gate: Any) -> None:
    started = gate("started")

    @ray.remote(resources={"left": 1})
    def spin() -> None:
        started.open()
        while True:
            pass

    spinning = spin.remote()
    started.wait()
    ray.cancel(spinning)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(spinning, timeout=60)


# several drivers


def test_core_25_detached_actor_outlives_its_job(three: Cluster) -> None:
    keeper = here_class().options(name="kept", namespace="shared", lifetime="detached").remote()
    before = ray.get(keeper.node.remote(), timeout=60)
    fleeting = here_class().options(name="fleeting", namespace="shared").remote()
    ray.get(fleeting.node.remote(), timeout=60)
    ray.shutdown()
    ray.init(address=three.address, namespace="shared", **QUIET)
    kept = ray.get_actor("kept")
    assert ray.get(kept.node.remote(), timeout=60) == before

    def gone() -> bool:
        try:
            ray.get_actor("fleeting")
        except ValueError:
            return True
        return False

    wait_for(gone, what="the actor that was not detached to end with its job")
    ray.kill(kept)


def test_core_42_resources_are_refused_when_joining(three: Cluster) -> None:
    ray.shutdown()
    with pytest.raises(ValueError):
        ray.init(address=three.address, num_cpus=3, **QUIET)
    if not ray.is_initialized():
        ray.init(address=three.address, **QUIET)


def test_an_actor_made_on_one_node_for_another_is_called_at_once(three: Cluster) -> None:
    Here = here_class()

    @ray.remote(num_cpus=0, max_retries=0)
    def make(where: str) -> str:
        return ray.get(Here.options(num_cpus=0, resources={where: 0.1}).remote().node.remote())

    for here, target in (("left", "right"), ("right", "left"), ("left", "head"), ("head", "right")):
        assert ray.get(make.options(resources={here: 0.1}).remote(target))


def test_an_actor_whose_owner_died_says_so(three: Cluster) -> None:
    Here = here_class()

    @ray.remote(num_cpus=0, resources={"right": 0.1})
    class Owner:
        def make(self) -> Any:
            self.made = Here.options(num_cpus=0, resources={"right": 0.1}).remote()
            ray.get(self.made.node.remote())
            return self.made

    owner = Owner.remote()
    made = ray.get(owner.make.remote())
    ray.kill(owner)

    def error() -> Exception | None:
        try:
            ray.get(made.node.remote())
        except ray.exceptions.ActorDiedError as error:
            return error
        return None

    found = wait_for(error, what="the actor to follow its owner", timeout_s=30)
    assert "The actor is dead because its owner has died" in str(found)
