"""Placement groups: rejected arguments, labels, names, and the fate of waiting ones."""

from __future__ import annotations

import gc
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import skate as ray
from skate.client.session import session
from skate.exceptions import TaskPlacementGroupRemoved, TaskUnschedulableError
from skate.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    """A node in local mode, whose core is the same as ever and is checked afterwards."""
    ray.init(num_cpus=2, num_gpus=1, labels={"zone": "a"}, local_mode=True)
    yield
    gc.collect()
    if ray.is_initialized():
        ray.available_resources()
        session.host().core.check()
    ray.shutdown()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"bundles": {"CPU": 1}}, ValueError, "dict"),
        ({"bundles": []}, ValueError, "empty"),
        ({"bundles": [{"CPU": 1}, {}]}, ValueError, "bundle 1"),
        ({"bundles": [{"CPU": 0, "GPU": 0}]}, ValueError, "nothing"),
        ({"bundles": [{"CPU": -1}]}, ValueError, "-1"),
        ({"bundles": [{"CPU": float("nan")}]}, ValueError, "nan"),
        ({"bundles": [{"CPU": True}]}, ValueError, "True"),
        ({"bundles": [{1: 1}]}, ValueError, "1"),
        ({"strategy": "PACKED"}, ValueError, "STRICT_SPREAD"),
        ({"lifetime": "eternal"}, ValueError, "eternal"),
        ({"name": 5}, TypeError, "5"),
        ({"_soft_target_node_id": "ab" * 28}, ValueError, "STRICT_PACK"),
        ({"_soft_target_node_id": "ff" * 28, "strategy": "STRICT_PACK"}, ValueError, "not the id of a node"),
        ({"bundle_label_selector": [{}, {}]}, ValueError, "2 entries for 1"),
        ({"bundle_label_selector": {"zone": "a"}}, ValueError, "dict"),
        ({"bundle_label_selector": [{"zone": 5}]}, ValueError, "5"),
        ({"topology_strategy": {"rack": "SPREAD"}}, ValueError, "STRICT_PACK"),
        ({"topology_strategy": {"ray.io/node-id": "PACK"}, "strategy": "PACK"}, ValueError, "keep one"),
        ({"topology_strategy": ["PACK"]}, ValueError, "list"),
        ({"topology_strategy": {"a": "STRICT_PACK", "b": "STRICT_PACK"}}, ValueError, "got 2"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        placement_group(**{"bundles": [{"CPU": 1}], **options})
    assert placement_group_table() == {}


def test_the_strategy_may_come_as_a_topology() -> None:
    group = placement_group([{"CPU": 1}], topology_strategy={"ray.io/node-id": "STRICT_PACK"})
    assert placement_group_table(group)["strategy"] == "STRICT_PACK"


def test_resources_are_set_apart_and_given_back() -> None:
    group = placement_group([{"CPU": 1, "GPU": 0}, {"CPU": 0.5, "GPU": 1}])
    assert group.wait(0)
    assert group.bundle_count == 2
    free = ray.available_resources()
    assert (free["CPU"], free.get("GPU", 0)) == (0.5, 0)
    assert free[f"CPU_group_1_{group.id.hex()}"] == 0.5
    remove_placement_group(group)
    assert ray.available_resources()["CPU"] == 2
    assert placement_group_table(group)["state"] == "REMOVED"


def test_a_waiting_group_is_placed_when_resources_come_free() -> None:
    first, second = placement_group([{"CPU": 2}]), placement_group([{"CPU": 2}])
    waiting = second.ready()
    assert ray.wait([waiting], timeout=0) == ([], [waiting])
    assert not second.wait(0)
    remove_placement_group(first)
    assert ray.get(waiting) == second


def test_a_waiting_group_is_placed_when_a_task_ends() -> None:
    @ray.remote(num_cpus=2)
    def hold() -> tuple[Any, str]:
        group = placement_group([{"CPU": 2}])
        return group, placement_group_table(group)["state"]

    group, state = ray.get(hold.remote())
    assert state == "PENDING"
    assert group.wait(0)


def test_a_waiting_ref_that_is_dropped_leaves_nothing() -> None:
    first, second = placement_group([{"CPU": 2}]), placement_group([{"CPU": 2}])
    waiting = second.ready()
    del waiting
    gc.collect()
    remove_placement_group(first)
    assert second.wait(0)


def test_what_can_never_be_placed_says_so(caplog: pytest.LogCaptureFixture) -> None:
    group = placement_group([{"CPU": 1}, {"widget": 1}])
    with pytest.raises(TaskUnschedulableError, match="widget"):
        ray.get(group.ready())
    with caplog.at_level(logging.WARNING, logger="skate"):
        assert not group.wait(30)
    assert "widget" in caplog.text


def test_labels_of_a_bundle() -> None:
    assert placement_group([{"CPU": 1}], bundle_label_selector=[{"zone": "in(a,b)"}]).wait(0)
    group = placement_group([{"CPU": 1}], bundle_label_selector=[{"zone": "!a"}])
    with pytest.raises(TaskUnschedulableError, match="zone"):
        ray.get(group.ready())


def test_a_removed_group() -> None:
    group = placement_group([{"CPU": 99}], name="gone")
    remove_placement_group(group)
    remove_placement_group(group)
    with pytest.raises(TaskPlacementGroupRemoved):
        ray.get(group.ready())
    with pytest.raises(TaskPlacementGroupRemoved):
        group.wait(0)
    with pytest.raises(ValueError, match="gone"):
        get_placement_group("gone")
    with pytest.raises(TypeError, match="placement group"):
        remove_placement_group("gone")  # type: ignore[arg-type]


def test_names_are_taken_once() -> None:
    group = placement_group([{"CPU": 1}], name="mine")
    assert get_placement_group("mine").bundle_specs == [{"CPU": 1.0}]
    with pytest.raises(ValueError, match="'mine'"):
        placement_group([{"CPU": 1}], name="mine")
    with pytest.raises(ValueError, match="mine"):
        get_placement_group("yours")
    assert get_placement_group("mine") == group


def test_handles_compare_travel_and_look_up_their_bundles() -> None:
    group = placement_group([{"CPU": 1}])
    again = pickle.loads(pickle.dumps(group))
    assert again == group and hash(again) == hash(group) and again != "group"
    bare = PlacementGroup(group.id)
    assert bare.bundle_specs == [{"CPU": 1.0}] and not bare.is_empty
    unknown = PlacementGroup(ray.PlacementGroupID(b"x" * 18))
    assert placement_group_table(unknown) == {}
    with pytest.raises(ValueError, match="no placement group"):
        _ = unknown.bundle_specs


def test_the_empty_group() -> None:
    empty = PlacementGroup.empty()
    assert empty.is_empty and not empty.wait(0)
    assert ray.get(empty.ready()).is_empty
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ref = ray.remote(lambda: 1).options(scheduling_strategy=PlacementGroupSchedulingStrategy(empty)).remote()
    assert ray.get(ref) == 1
