"""Placement groups: reserving, using, capturing, naming and removing them, on one node."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.util import (
    get_current_placement_group,
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


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_core_36_group_that_fits_one_node_gets_ready(strategy: str) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy=strategy)
    assert group.wait(timeout_seconds=30) is True
    assert placement_group_table(group)["strategy"] == strategy


def test_core_36_ready_is_a_ref_to_the_group() -> None:
    group = placement_group([{"CPU": 1}])
    assert isinstance(group.ready(), ray.ObjectRef)
    assert ray.get(group.ready(), timeout=60) == group


def test_core_36_ready_works_with_wait() -> None:
    first, second = placement_group([{"CPU": 1}]), placement_group([{"CPU": 1}])
    done, _ = ray.wait([first.ready(), second.ready()], num_returns=2, timeout=60)
    assert len(done) == 2


def test_core_36_pack_is_the_default() -> None:
    assert placement_group_table(ready([{"CPU": 1}]))["strategy"] == "PACK"


def test_core_36_bundles_are_described() -> None:
    group = ready([{"CPU": 1}, {"CPU": 0.5}])
    assert group.bundle_specs == [{"CPU": 1.0}, {"CPU": 0.5}]
    assert group.bundle_count == 2
    assert group.is_empty is False
    assert isinstance(group.id, ray.PlacementGroupID)


def test_core_36_group_reserves_its_resources() -> None:
    group = ready([{"CPU": 1.5}])
    wait_for(lambda: ray.available_resources().get("CPU") == 0.5, what="half a CPU to be left")
    remove_placement_group(group)
    wait_for(lambda: ray.available_resources().get("CPU") == 2, what="both CPUs to be free")


def test_core_33_group_in_use_shows_in_cluster_resources() -> None:
    group = ready([{"CPU": 1}])
    wait_for(
        lambda: (
            any(key == f"CPU_group_{group_id(group)}" for key in ray.cluster_resources())
            or ray.cluster_resources()["CPU"] == 2
        ),
        what="the cluster's resources",
    )
    assert ray.cluster_resources()["CPU"] == 2


def test_core_36_reserved_cpus_are_not_for_others() -> None:
    group = ready([{"CPU": 2}])
    outside = where_task().remote()
    assert ray.wait([outside], timeout=0.3)[0] == []
    inside = where_task().options(scheduling_strategy=in_group(group)).remote()
    assert ray.get(inside, timeout=60) == group_id(group)
    remove_placement_group(group)
    assert ray.get(outside, timeout=60) is None


def test_core_36_group_waits_until_there_is_room() -> None:
    first = ready([{"CPU": 2}])
    second = placement_group([{"CPU": 2}])
    assert second.wait(timeout_seconds=0.3) is False
    remove_placement_group(first)
    assert second.wait(timeout_seconds=30) is True


def test_core_36_infeasible_group_is_never_ready() -> None:
    group = placement_group([{"CPU": 99}])
    assert group.wait(timeout_seconds=0.5) is False


@pytest.mark.chosen_difference(
    "ready() of a group that can never fit raises and names what is missing; Ray waits forever",
    id="D-placement-group-infeasible",
)
@pytest.mark.parametrize("bundle", [{"CPU": 99}, {"widget": 1}], ids=["CPU", "custom"])
def test_core_36_ready_of_an_infeasible_group_raises(bundle: dict[str, float]) -> None:
    with pytest.raises(ray.exceptions.RayError, match=next(iter(bundle))):
        ray.get(placement_group([bundle]).ready(), timeout=30)


def test_core_36_strict_spread_needs_as_many_nodes() -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    assert group.wait(timeout_seconds=0.5) is False


@pytest.mark.parametrize("count", [1, 2])
def test_core_35_bundles_limit_what_runs_inside(count: int, gate: Any, tally: Any) -> None:
    group = ready([{"CPU": 1}] * count)
    arrived, release = tally("arrived"), gate("release")

    @ray.remote
    def hold(counter: Any, signal: Gate) -> None:
        counter.add()
        signal.wait(timeout_s=60)

    tasks = [hold.options(scheduling_strategy=in_group(group)).remote(arrived, release) for _ in range(3)]
    wait_for(lambda: arrived.count() >= count, what=f"{count} tasks inside", timeout_s=60)
    assert ray.wait(tasks, num_returns=1, timeout=0.2)[0] == []
    assert arrived.count() == count
    release.open()
    ray.get(tasks, timeout=60)


def test_core_35_a_bundle_is_chosen_by_its_index(gate: Any, tally: Any) -> None:
    group = ready([{"CPU": 1}, {"CPU": 1}])
    arrived, release = tally("arrived"), gate("release")

    @ray.remote
    def hold(counter: Any, signal: Gate) -> None:
        counter.add()
        signal.wait(timeout_s=60)

    first = hold.options(scheduling_strategy=in_group(group, 0)).remote(arrived, release)
    wait_for(lambda: arrived.count() == 1, what="the first task inside", timeout_s=60)
    same = where_task().options(scheduling_strategy=in_group(group, 0)).remote()
    other = where_task().options(scheduling_strategy=in_group(group, 1)).remote()
    assert ray.get(other, timeout=60) == group_id(group)
    assert ray.wait([same], timeout=0.1)[0] == []
    release.open()
    ray.get([first, same], timeout=60)


def test_core_35_actor_in_a_group() -> None:
    group = ready([{"CPU": 1}])

    @ray.remote(num_cpus=1)
    class Inside:
        def where(self) -> str | None:
            return ray.get_runtime_context().get_placement_group_id()

    actor = Inside.options(scheduling_strategy=in_group(group, 0)).remote()
    assert ray.get(actor.where.remote(), timeout=60) == group_id(group)


def test_core_35_assigned_resources_name_no_group() -> None:
    group = ready([{"CPU": 1}])

    @ray.remote
    def assigned() -> dict[str, float]:
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(assigned.options(scheduling_strategy=in_group(group)).remote()) == {"CPU": 1.0}


@pytest.mark.filterwarnings("ignore:placement_group.* is deprecated")
def test_core_35_the_old_option_still_works() -> None:
    group = ready([{"CPU": 1}])
    ref = where_task().options(placement_group=group, placement_group_bundle_index=0).remote()
    assert ray.get(ref, timeout=60) == group_id(group)


@pytest.mark.filterwarnings("ignore:placement_group.* is deprecated")
def test_core_35_the_old_option_beside_a_strategy_is_refused() -> None:
    group = ready([{"CPU": 1}])
    with pytest.raises(ValueError, match="scheduling_strategy"):
        where_task().options(placement_group=group, scheduling_strategy="SPREAD").remote()


@pytest.mark.parametrize(
    ("bundles", "options", "error"),
    [
        ([], {}, ValueError),
        ([{}], {}, ValueError),
        ([{"CPU": 0}], {}, ValueError),
        ([{"CPU": 1}, {}], {}, ValueError),
        ({"CPU": 1}, {}, ValueError),
        (["CPU"], {}, ValueError),
        ([{"CPU": "one"}], {}, ValueError),
        ([{1: 1}], {}, ValueError),
        ([{"CPU": 1}], {"strategy": "FOO"}, ValueError),
        ([{"CPU": 1}], {"lifetime": "eternal"}, ValueError),
        ([{"CPU": 1}], {"name": 5}, TypeError),
    ],
    ids=[
        "no_bundles",
        "empty_bundle",
        "zero",
        "one_empty",
        "dict",
        "text",
        "text_quantity",
        "int_key",
        "strategy",
        "lifetime",
        "name",
    ],
)
def test_core_35_bad_groups_are_refused(bundles: Any, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        placement_group(bundles, **options)


@pytest.mark.chosen_difference(
    "a negative bundle is refused; in Ray it is accepted and can end the node", id="D-negative-bundle"
)
def test_core_35_negative_bundle_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        placement_group([{"CPU": -1}])


@pytest.mark.parametrize("index", [7, -2])
def test_core_35_bundle_index_out_of_range(index: int) -> None:
    group = ready([{"CPU": 1}, {"CPU": 1}])
    with pytest.raises(ValueError, match=str(index)):
        where_task().options(scheduling_strategy=in_group(group, index)).remote()


@pytest.mark.chosen_difference(
    "an index one past the last bundle is refused as well; in Ray its task waits forever",
    id="D-bundle-index",
)
def test_core_35_bundle_index_one_past_the_last() -> None:
    group = ready([{"CPU": 1}, {"CPU": 1}])
    with pytest.raises(ValueError, match="2"):
        where_task().options(scheduling_strategy=in_group(group, 2)).remote()


@pytest.mark.parametrize(
    "options", [{"num_cpus": 2}, {"num_gpus": 1}, {"resources": {"widget": 1}}], ids=["CPU", "GPU", "custom"]
)
@pytest.mark.parametrize("kind", ["task", "actor"])
def test_core_35_request_larger_than_any_bundle(kind: str, options: dict[str, Any]) -> None:
    group = ready([{"CPU": 1}])

    @ray.remote
    class Actor:
        pass

    what = where_task() if kind == "task" else Actor
    with pytest.raises(ValueError, match="bundle"):
        what.options(scheduling_strategy=in_group(group), **options).remote()


def test_core_35_strategy_wants_a_placement_group() -> None:
    with pytest.raises((AssertionError, TypeError, ValueError)):
        where_task().options(scheduling_strategy=in_group(5)).remote()


# capturing


@pytest.mark.parametrize(("capture", "inside"), [(None, False), (False, False), (True, True)])
def test_core_34_child_tasks_join_the_group_only_when_captured(capture: bool | None, inside: bool) -> None:
    group = ready([{"CPU": 1}])
    where = where_task()

    @ray.remote(num_cpus=1)
    def parent() -> Any:
        return ray.get(where.remote())

    child = ray.get(parent.options(scheduling_strategy=in_group(group, 0, capture)).remote(), timeout=60)
    assert child == (group_id(group) if inside else None)


def test_core_34_captured_child_may_leave_the_group() -> None:
    group = ready([{"CPU": 1}])
    where = where_task()

    @ray.remote(num_cpus=1)
    def parent() -> Any:
        outside = PlacementGroupSchedulingStrategy(placement_group=None)
        return ray.get(where.options(scheduling_strategy=outside).remote())

    assert ray.get(parent.options(scheduling_strategy=in_group(group, 0, True)).remote(), timeout=60) is None


def test_core_34_children_of_an_actor_are_captured() -> None:
    group = ready([{"CPU": 1}, {"CPU": 1}])
    where = where_task()

    @ray.remote(num_cpus=1)
    class Parent:
        def child(self) -> Any:
            return ray.get(where.remote())

    parent = Parent.options(scheduling_strategy=in_group(group, 0, True)).remote()
    assert ray.get(parent.child.remote(), timeout=60) == group_id(group)


def test_core_34_current_group_in_a_task() -> None:
    group = ready([{"CPU": 1}])

    @ray.remote
    def current() -> Any:
        context = ray.get_runtime_context()
        return get_current_placement_group(), context.should_capture_child_tasks_in_placement_group

    found, captures = ray.get(current.options(scheduling_strategy=in_group(group, 0, True)).remote())
    assert found == group
    assert captures is True


def test_core_34_no_current_group_outside() -> None:
    @ray.remote
    def current() -> Any:
        return get_current_placement_group()

    assert get_current_placement_group() is None
    assert ray.get(current.remote()) is None


def test_core_34_group_as_an_argument() -> None:
    group = ready([{"CPU": 1}])
    where = where_task()

    @ray.remote(num_cpus=0)
    def use(given: PlacementGroup) -> Any:
        return ray.get(where.options(scheduling_strategy=in_group(given)).remote())

    assert ray.get(use.remote(group), timeout=60) == group_id(group)


# names, table, removal


def test_core_36_group_found_by_its_name() -> None:
    group = ready([{"CPU": 1}], name="mine")
    found = get_placement_group("mine")
    assert found == group
    assert found.bundle_specs == [{"CPU": 1.0}]


@pytest.mark.parametrize("name", ["nobody", "", None])
def test_core_36_unknown_name(name: Any) -> None:
    with pytest.raises(ValueError):
        get_placement_group(name)


def test_core_36_table_of_one_group() -> None:
    group = ready([{"CPU": 1}, {"CPU": 0.5}], name="mine")
    entry = placement_group_table(group)
    assert entry["placement_group_id"] == group_id(group)
    assert entry["name"] == "mine"
    assert entry["bundles"] == {0: {"CPU": 1.0}, 1: {"CPU": 0.5}}
    node = ray.get_runtime_context().get_node_id()
    assert entry["bundles_to_node_id"] == {0: node, 1: node}
    assert entry["state"] == "CREATED"
    assert "stats" in entry


def test_core_36_table_of_all_groups() -> None:
    groups = [ready([{"CPU": 1}]), placement_group([{"CPU": 99}])]
    table = placement_group_table()
    assert {group_id(group) for group in groups} <= set(table)
    assert table[group_id(groups[0])]["state"] == "CREATED"
    assert table[group_id(groups[1])]["state"] == "PENDING"


@pytest.mark.parametrize("group", ["default", None])
@pytest.mark.parametrize("index", [0, 1, 5])
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_bundle_index_without_a_group_is_refused(index, group):
    @ray.remote
    def task() -> int:
        return 1

    @ray.remote
    class Actor:
        pass

    placement = {"placement_group": group, "placement_group_bundle_index": index}
    for thing in (task, Actor):
        with pytest.raises(
            ValueError, match="If placement group is not set, the value of bundle index must be -1"
        ):
            thing.options(**placement).remote()


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_bundle_index_of_minus_one_needs_no_group():
    @ray.remote
    def task() -> int:
        return 1

    assert ray.get(task.options(placement_group=None, placement_group_bundle_index=-1).remote()) == 1
