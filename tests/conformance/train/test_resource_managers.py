"""Requests of resources and the managers that meet them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.air import AcquiredResources, ResourceRequest
from ray.air.execution import FixedResourceManager, PlacementGroupResourceManager
from ray.tune import PlacementGroupFactory
from waiting import wait_for

ONE = ResourceRequest([{"CPU": 1}])
TWO = ResourceRequest([{"CPU": 2}])
FOUR = ResourceRequest([{"CPU": 4}])
PAIR = ResourceRequest([{"CPU": 1}, {"CPU": 1}])
REST = ResourceRequest([{"CPU": 0}, {"CPU": 1}])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([{"CPU": 1}],), ([{"CPU": 1.0}],)),
        (([{"CPU": 1}, {"CPU": 2}],), ([{"CPU": 1}, {"CPU": 2}],)),
        (([{"CPU": 0, "x": 1}],), ([{"x": 1}],)),
        (([{"CPU": 1}],), ([{"CPU": 1}], "PACK")),
        (([{"CPU": 1}], "PACK", "name"), ([{"CPU": 1}], "PACK", "name")),
    ],
)
@pytest.mark.parametrize("kind", [ResourceRequest, PlacementGroupFactory])
def test_requests_that_say_the_same_are_the_same(kind: Any, one: Any, other: Any) -> None:
    assert kind(*one) == kind(*other)
    assert hash(kind(*one)) == hash(kind(*other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([{"CPU": 1}],), ([{"CPU": 2}],)),
        (([{"CPU": 1}],), ([{"CPU": 1}], "SPREAD")),
        (([{"CPU": 1}],), ([{}, {"CPU": 1}],)),
        (([{"CPU": 1}],), ([{"CPU": 1}, {"CPU": 1}],)),
    ],
)
@pytest.mark.parametrize("kind", [ResourceRequest, PlacementGroupFactory])
def test_requests_that_differ_are_not(kind: Any, one: Any, other: Any) -> None:
    assert kind(*one) != kind(*other)


@pytest.mark.parametrize(
    ("bundles", "phrase"),
    [([], "zero bundles|at least one"), ([{}], "empty head"), ([{"CPU": 0}], "empty head")],
)
@pytest.mark.parametrize("kind", [ResourceRequest, PlacementGroupFactory])
def test_a_request_of_nothing_is_refused(kind: Any, bundles: Any, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        kind(bundles)


@pytest.mark.parametrize("kind", [ResourceRequest, PlacementGroupFactory])
def test_an_argument_that_a_group_does_not_take_is_refused(kind: Any) -> None:
    with pytest.raises(RuntimeError, match="Invalid definition for resource request"):
        kind([{"CPU": 1}], nonsense=1)


@pytest.mark.parametrize("kind", [ResourceRequest, PlacementGroupFactory])
def test_what_a_request_says_of_itself(kind: Any) -> None:
    found = kind([{}, {"CPU": 1, "x": 2}, {"CPU": 2}], strategy="SPREAD")
    assert found.head_bundle_is_empty
    assert found.head_cpus == 0
    assert found.bundles == [{"CPU": 1, "x": 2}, {"CPU": 2}]
    assert found.required_resources == {"CPU": 3, "x": 2}
    assert found.strategy == "SPREAD"
    assert kind([{"CPU": 3}]).head_cpus == 3
    found.bundles[0]["CPU"] = 100
    assert found.bundles[0]["CPU"] == 1
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_factory_is_a_request() -> None:
    assert issubclass(PlacementGroupFactory, ResourceRequest)


def test_a_budget_gives_and_takes_back(cluster: Any) -> None:
    manager = FixedResourceManager({"CPU": 4})
    assert not manager.has_resources_ready(TWO)
    assert manager.acquire_resources(TWO) is None
    manager.request_resources(TWO)
    manager.request_resources(FOUR)
    assert manager.has_resources_ready(FOUR)
    taken = manager.acquire_resources(TWO)
    assert isinstance(taken, AcquiredResources)
    assert taken.resource_request == TWO
    assert not manager.has_resources_ready(FOUR)
    manager.free_resources(taken)
    assert manager.has_resources_ready(FOUR)
    manager.cancel_resource_request(FOUR)
    assert not manager.has_resources_ready(FOUR)
    manager.clear()
    assert not manager.has_resources_ready(TWO)


def test_thirds_of_a_budget_leave_nothing(cluster: Any) -> None:
    manager = FixedResourceManager({"CPU": 0.99})
    third = ResourceRequest([{"CPU": 0.33}])
    for _ in range(3):
        manager.request_resources(third)
        assert manager.acquire_resources(third)
    manager.request_resources(third)
    assert not manager.has_resources_ready(third)


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
def test_a_budget_knows_no_nodes(cluster: Any, strategy: str) -> None:
    manager = FixedResourceManager({"CPU": 4})
    wanted = ResourceRequest([{"CPU": 2}], strategy=strategy)
    if strategy.startswith("STRICT"):
        with pytest.raises(RuntimeError, match=f"placement strategy {strategy}"):
            manager.request_resources(wanted)
    else:
        manager.request_resources(wanted)


@ray.remote
def assigned() -> Any:
    return ray.get_runtime_context().get_assigned_resources()


def cpus(found: dict[str, float]) -> float:
    return found.get("CPU", 0)


@pytest.mark.parametrize(("request_", "wanted"), [(PAIR, [1, 1]), (REST, [0, 1])], ids=["pair", "empty-head"])
def test_tasks_take_the_bundles_of_a_budget(cluster: Any, request_: Any, wanted: list[float]) -> None:
    manager = FixedResourceManager({"CPU": 2})
    manager.request_resources(request_)
    taken = manager.acquire_resources(request_)
    tasks = taken.annotate_remote_entities([assigned, assigned])
    assert [cpus(each) for each in ray.get([task.remote() for task in tasks])] == wanted
    with pytest.raises(RuntimeError, match="cannot exceed the number of available bundles"):
        taken.annotate_remote_entities([assigned] * 3)


@pytest.fixture
def groups(cluster: Any) -> Iterator[Any]:
    manager = PlacementGroupResourceManager(update_interval_s=0)
    yield manager
    manager.clear()


def ready(manager: Any, wanted: Any) -> None:
    wait_for(lambda: manager.has_resources_ready(wanted), what="the group to be ready")


def test_a_group_is_acquired_once(groups: Any) -> None:
    assert groups.acquire_resources(ONE) is None
    groups.request_resources(ONE)
    assert len(groups.get_resource_futures()) == 1
    ready(groups, ONE)
    assert not groups.get_resource_futures()
    taken = groups.acquire_resources(ONE)
    assert taken.resource_request == ONE
    assert not groups.has_resources_ready(ONE)
    groups.free_resources(taken)
    assert not groups.has_resources_ready(ONE)


@pytest.mark.parametrize("wait", [False, True])
def test_a_request_is_taken_back(groups: Any, wait: bool) -> None:
    groups.request_resources(ONE)
    if wait:
        ready(groups, ONE)
    groups.cancel_resource_request(ONE)
    assert not groups.get_resource_futures()
    assert not groups.has_resources_ready(ONE)


def test_tasks_run_on_the_bundles_of_a_group(groups: Any) -> None:
    groups.request_resources(PAIR)
    ready(groups, PAIR)
    taken = groups.acquire_resources(PAIR)
    tasks = taken.annotate_remote_entities([assigned, assigned])
    assert [cpus(each) for each in ray.get([task.remote() for task in tasks])] == [1, 1]
    groups.free_resources(taken)


def test_clearing_removes_what_is_ready(groups: Any) -> None:
    groups.request_resources(ONE)
    ready(groups, ONE)
    groups.clear()
    assert not groups.has_resources_ready(ONE)
