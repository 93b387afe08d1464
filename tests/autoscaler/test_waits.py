"""A cluster that can grow: what no node can meet waits, and says for what, until a node can."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import skate as ray
from skate.autoscaler.view import publish_worker
from skate.client.session.detached_node import GROWS_LABEL
from skate.cluster_utils import Cluster
from skate.util.placement_group import placement_group
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy
from skate.util.state import list_tasks
from tests.conformance.waiting import wait_for

TEXT = "the nodes are too few or too small for it: it waits until the autoscaler has started others"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "labels": {GROWS_LABEL: "on"}}, connect=True
    )
    try:
        yield made
    finally:
        made.shutdown()


@ray.remote(num_cpus=3)
def large() -> int:
    return 7


@ray.remote(num_cpus=3)
class Large:
    def seven(self) -> int:
        return 7


def test_large_requests_wait_for_a_node_that_can_hold_them(cluster: Cluster) -> None:
    actor: Any = Large.remote()  # type: ignore[attr-defined]
    call = actor.seven.remote()
    value = large.remote()
    group = placement_group([{"CPU": 2}, {"CPU": 2}])
    ready, _ = ray.wait([value, call, group.ready()], timeout=0.5)
    assert not ready
    assert {row.waits_for for row in list_tasks(detail=True) if row.name == "large"} == {TEXT}
    assert {row.waits_for for row in list_tasks(detail=True) if row.name == "Large.__init__"} == {TEXT}

    cluster.add_node(num_cpus=6)
    cluster.add_node(num_cpus=6)
    assert ray.get(value, timeout=60) == 7
    ray.get(group.ready(), timeout=60)
    ray.kill(actor)


def test_a_wait_for_a_node_is_no_deadlock(cluster: Cluster) -> None:
    group = placement_group([{"CPU": 3}])
    # later than a head alone looks for deadlocks
    timer = threading.Timer(2.5, lambda: cluster.add_node(num_cpus=6))
    timer.start()
    assert ray.get([large.remote(), group.ready()])[0] == 7
    timer.join()


def test_what_waits_for_a_group_runs_where_the_group_is_placed(cluster: Cluster) -> None:
    group = placement_group([{"CPU": 2}, {"CPU": 2}])
    wanted = [{"placement_group_bundle_index": index} for index in (0, 1, -1)]
    first, second, third = (PlacementGroupSchedulingStrategy(group, **each) for each in wanted)
    actor: Any = Large.options(num_cpus=2, scheduling_strategy=first).remote()  # type: ignore[attr-defined]
    values = [actor.seven.remote()]
    values += [large.options(num_cpus=2, scheduling_strategy=each).remote() for each in (second, third)]
    assert ray.wait(values, timeout=0.2)[0] == []
    cluster.add_node(num_cpus=4)
    assert ray.get(values, timeout=60) == [7, 7, 7]


def test_what_is_larger_than_a_worker_waits_with_another_text(cluster: Cluster) -> None:
    publish_worker({"CPU": 2.0})
    value = large.remote()
    group = placement_group([{"CPU": 4}])
    wait_for(lambda: any(row.name == "large" for row in list_tasks()), 20, "the task")
    assert [row.waits_for for row in list_tasks(detail=True) if row.name == "large"] == [
        "it requests CPU: 3, which is more than any node has and more than a worker that the autoscaler starts (CPU: 2): it "
        "will wait until you add a larger node; cancel it, or request less"
    ]
    cluster.add_node(num_cpus=7)
    assert ray.get(value, timeout=60) == 7
    ray.get(group.ready(), timeout=60)


def test_a_request_for_a_named_node_still_fails_at_once(cluster: Cluster) -> None:
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    with pytest.raises(ray.exceptions.TaskUnschedulableError, match="num_cpus=3"):
        ray.get(large.options(scheduling_strategy=here).remote(), timeout=30)
