"""Placement groups: what their removal ends, and what outlives it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, ActorPlacementGroupRemoved, TaskPlacementGroupRemoved
from ray.util import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from waiting import Gate, wait_for

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def all_removed(cluster: None) -> Iterator[None]:
    """Remove every group that the test leaves and wait until the CPUs are free."""
    yield
    for identity, entry in placement_group_table().items():
        if entry["state"] != "REMOVED":
            remove_placement_group(PlacementGroup(ray.PlacementGroupID.from_hex(identity)))
    gc.collect()
    wait_for(lambda: ray.available_resources().get("CPU") == 2, what="both CPUs to be free")


def in_group(group: Any, index: int = -1, capture: bool | None = None) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(
        placement_group=group,
        placement_group_bundle_index=index,
        placement_group_capture_child_tasks=capture,
    )


def ready(*args: Any, **kwargs: Any) -> PlacementGroup:
    group = placement_group(*args, **kwargs)
    assert group.wait(30)
    return group


def where_task() -> Any:
    @ray.remote
    def where() -> str | None:
        return ray.get_runtime_context().get_placement_group_id()

    return where


def group_id(group: PlacementGroup) -> str:
    return group.id.hex()


def test_core_37_removed_group_in_the_table() -> None:
    group = ready([{"CPU": 1}])
    remove_placement_group(group)
    wait_for(lambda: placement_group_table(group).get("state") == "REMOVED", what="the group to be removed")


def test_core_37_removing_twice_is_no_error() -> None:
    group = ready([{"CPU": 1}])
    remove_placement_group(group)
    remove_placement_group(group)


def test_core_37_removal_frees_the_name() -> None:
    remove_placement_group(ready([{"CPU": 1}], name="mine"))
    with pytest.raises(ValueError, match="mine"):
        get_placement_group("mine")
    again = ready([{"CPU": 1}], name="mine")
    assert get_placement_group("mine") == again


def test_core_37_removing_a_pending_group() -> None:
    group = placement_group([{"CPU": 99}])
    remove_placement_group(group)
    assert placement_group_table(group)["state"] == "REMOVED"


def holding() -> Any:
    @ray.remote(max_retries=0)
    def hold(started: Gate, release: Gate) -> None:
        started.open()
        release.wait(timeout_s=60)

    return hold


def test_core_37_removal_ends_a_running_task(gate: Any) -> None:
    group = ready([{"CPU": 1}])
    started, release = gate("started"), gate("release")
    task = holding().options(scheduling_strategy=in_group(group)).remote(started, release)
    started.wait()
    remove_placement_group(group)
    with pytest.raises((TaskPlacementGroupRemoved, ray.exceptions.WorkerCrashedError)):
        ray.get(task, timeout=30)


@pytest.mark.chosen_difference(
    "every task of a removed group fails; Ray may leave one waiting that has retries or several bundles",
    id="D-group-removed",
)
@pytest.mark.parametrize(("bundles", "retries"), [(1, 3), (2, 0), (2, 3)])
def test_core_37_removal_ends_every_task_of_the_group(bundles: int, retries: int, gate: Any) -> None:
    group = ready([{"CPU": 1}] * bundles)
    started, release = gate("started"), gate("release")
    hold = holding().options(scheduling_strategy=in_group(group), max_retries=retries)
    task = hold.remote(started, release)
    started.wait()
    remove_placement_group(group)
    with pytest.raises((TaskPlacementGroupRemoved, ray.exceptions.WorkerCrashedError)):
        ray.get(task, timeout=30)


def test_core_37_removal_fails_a_queued_task(gate: Any) -> None:
    group = ready([{"CPU": 1}])
    started, release = gate("started"), gate("release")
    task = holding().options(scheduling_strategy=in_group(group)).remote(started, release)
    started.wait()
    queued = where_task().options(scheduling_strategy=in_group(group)).remote()
    remove_placement_group(group)
    with pytest.raises((TaskPlacementGroupRemoved, ray.exceptions.WorkerCrashedError)):
        ray.get(task, timeout=30)
    with pytest.raises(TaskPlacementGroupRemoved):
        ray.get(queued, timeout=30)


def ended(actor: Any) -> bool:
    try:
        ray.get(actor.hi.remote(), timeout=30)
    except (ActorDiedError, ActorPlacementGroupRemoved):
        return True
    except ray.exceptions.ActorUnavailableError:
        return False
    return False


def inhabitant(group: PlacementGroup, **options: Any) -> Any:
    @ray.remote(num_cpus=1)
    class Inside:
        def hi(self) -> str:
            return "hi"

    actor = Inside.options(scheduling_strategy=in_group(group), **options).remote()
    assert ray.get(actor.hi.remote(), timeout=60) == "hi"
    return actor


def test_core_37_removal_ends_an_actor() -> None:
    group = ready([{"CPU": 1}])
    actor = inhabitant(group)
    remove_placement_group(group)
    wait_for(lambda: ended(actor), what="the actor to end with its group", timeout_s=30)


@pytest.mark.chosen_difference(
    "an actor with restarts left ends with its group; in Ray its calls stay unavailable forever",
    id="D-group-removed",
)
def test_core_37_removal_ends_an_actor_that_has_restarts_left() -> None:
    group = ready([{"CPU": 1}])
    actor = inhabitant(group, max_restarts=-1)
    remove_placement_group(group)
    wait_for(lambda: ended(actor), what="the actor to end with its group", timeout_s=30)


@pytest.mark.chosen_difference("using a removed group fails at once; Ray waits forever", id="D-group-removed")
@pytest.mark.parametrize("what", ["task", "ready", "wait"])
def test_core_37_using_a_removed_group_fails(what: str) -> None:
    group = ready([{"CPU": 1}])
    remove_placement_group(group)
    if what == "task":
        with pytest.raises((TaskPlacementGroupRemoved, ValueError)):
            ray.get(where_task().options(scheduling_strategy=in_group(group)).remote(), timeout=30)
    elif what == "ready":
        with pytest.raises((TaskPlacementGroupRemoved, ValueError)):
            ray.get(group.ready(), timeout=30)
    else:
        with pytest.raises((TaskPlacementGroupRemoved, ValueError)):
            group.wait(timeout_seconds=30)


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_core_37_group_outlives_the_actor_that_made_it(lifetime: str | None) -> None:
    @ray.remote(num_cpus=0)
    class Maker:
        def make(self) -> str:
            group = placement_group([{"CPU": 1}], lifetime=lifetime, name="kept")
            assert group.wait(30)
            return group.id.hex()

        def pid(self) -> int:
            return os.getpid()

    maker = Maker.remote()
    identity = ray.get(maker.make.remote(), timeout=60)
    os.kill(ray.get(maker.pid.remote()), 9)
    with pytest.raises(ActorDiedError):
        ray.get(maker.pid.remote(), timeout=30)
    kept = get_placement_group("kept")
    assert group_id(kept) == identity
    assert ray.get(where_task().options(scheduling_strategy=in_group(kept)).remote(), timeout=60) == identity
