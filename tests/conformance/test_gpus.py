"""GPUs: assignment to tasks and actors, and their environment variables."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ray
from waiting import Gate, Tally, wait_for

pytestmark = pytest.mark.usefixtures("gpus")


def seeing(**options: Any) -> Any:
    @ray.remote
    def see() -> tuple[str | None, list[int], list[str]]:
        return (
            os.environ.get("CUDA_VISIBLE_DEVICES"),
            ray.get_gpu_ids(),
            ray.get_runtime_context().get_accelerator_ids()["GPU"],
        )

    return see.options(**options)


def meeting(num_gpus: float) -> Any:
    """A task that says which GPU it has once ``expected`` of its kind run at the same time."""

    @ray.remote(num_gpus=num_gpus)
    def meet(arrived: Tally, expected: int) -> str | None:
        arrived.add()
        wait_for(lambda: arrived.count() >= expected, what="the others to arrive", timeout_s=60)
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    return meet


def idle() -> None:
    wait_for(lambda: ray.available_resources().get("GPU", 0) == 2, what="both GPUs to be free")


def test_core_33_cluster_resources_count_gpus() -> None:
    assert ray.cluster_resources()["GPU"] == 2
    assert ray.nodes()[0]["Resources"]["GPU"] == 2


@pytest.mark.parametrize(
    ("num_gpus", "count"), [(1, 1), (2, 2), (0.5, 1), (0.001, 1)], ids=["one", "two", "half", "sliver"]
)
def test_core_30_a_task_sees_the_gpus_it_was_given(num_gpus: float, count: int) -> None:
    visible, ids, accelerators = ray.get(seeing(num_gpus=num_gpus).remote())
    assert visible is not None
    assert visible.split(",") == [str(i) for i in ids] == accelerators
    assert len(ids) == count
    assert set(ids) <= {0, 1}


def test_core_30_without_gpus_the_variable_is_left_alone() -> None:
    assert ray.get(seeing().remote()) == (None, [], [])


def test_core_30_a_worker_that_had_a_gpu_forgets_it() -> None:
    see = seeing()
    for _ in range(3):
        ray.get(seeing(num_gpus=1).remote())
        assert ray.get(see.remote()) == (None, [], [])


def test_core_30_two_tasks_get_different_gpus(tally: Any) -> None:
    idle()
    meet, arrived = meeting(1), tally("arrived")
    assert sorted(ray.get([meet.remote(arrived, 2) for _ in range(2)])) == ["0", "1"]


def test_core_30_fractions_share_one_gpu_before_the_next(tally: Any) -> None:
    idle()
    meet, arrived = meeting(0.5), tally("arrived")
    given = ray.get([meet.remote(arrived, 3) for _ in range(3)])
    assert sorted(given.count(one) for one in set(given)) == [1, 2]


def test_core_30_four_halves_fill_two_gpus(tally: Any) -> None:
    idle()
    meet, arrived = meeting(0.5), tally("arrived")
    assert sorted(ray.get([meet.remote(arrived, 4) for _ in range(4)])) == ["0", "0", "1", "1"]


def test_core_30_a_whole_gpu_is_not_made_of_two_halves(gate: Any, tally: Any) -> None:
    idle()
    arrived, release = tally("arrived"), gate("release")

    @ray.remote(num_gpus=0.6)
    def hold(count: Tally, signal: Gate) -> None:
        count.add()
        signal.wait(timeout_s=60)

    held = [hold.remote(arrived, release) for _ in range(2)]
    wait_for(lambda: arrived.count() == 2, what="both holders to run", timeout_s=60)
    third = seeing(num_gpus=0.6).remote()
    # 0.8 of a GPU is free, 0.4 on each: nothing can take 0.6 of one.
    assert ray.wait([third], timeout=0.3)[0] == []
    release.open()
    ray.get(held)
    assert ray.get(third)[0] in ("0", "1")


def test_core_30_a_third_task_waits_for_a_gpu(gate: Any, tally: Any) -> None:
    idle()
    arrived, release = tally("arrived"), gate("release")

    @ray.remote(num_gpus=1)
    def hold(count: Tally, signal: Gate) -> None:
        count.add()
        signal.wait(timeout_s=60)

    tasks = [hold.remote(arrived, release) for _ in range(3)]
    wait_for(lambda: arrived.count() == 2, what="two tasks to hold the GPUs", timeout_s=60)
    assert ray.wait(tasks, num_returns=1, timeout=0.2)[0] == []
    assert arrived.count() == 2
    release.open()
    ray.get(tasks)


def test_core_30_actors_get_different_gpus_and_keep_them() -> None:
    idle()

    @ray.remote(num_gpus=1)
    class Sees:
        def __init__(self) -> None:
            self.at_start = os.environ.get("CUDA_VISIBLE_DEVICES")

        def see(self) -> tuple[str | None, str | None, list[int]]:
            return self.at_start, os.environ.get("CUDA_VISIBLE_DEVICES"), ray.get_gpu_ids()

    actors = [Sees.remote(), Sees.remote()]
    first = ray.get([actor.see.remote() for actor in actors])
    assert sorted(start for start, _, _ in first) == ["0", "1"]
    assert all(start == now == str(ids[0]) for start, now, ids in first)
    assert ray.get([actor.see.remote() for actor in actors]) == first
    del actors
    idle()


def test_core_27_actor_that_asks_for_a_gpu_holds_a_cpu_too() -> None:
    @ray.remote(num_gpus=1)
    class Asks:
        def assigned(self) -> dict[str, float]:
            return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(Asks.remote().assigned.remote()) == {"CPU": 1.0, "GPU": 1.0}


def test_core_30_assigned_gpus_of_a_task() -> None:
    @ray.remote(num_gpus=0.5, num_cpus=2)
    def assigned() -> dict[str, float]:
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(assigned.remote()) == {"CPU": 2.0, "GPU": 0.5}


def test_core_30_child_tasks_have_no_gpus_of_their_own() -> None:
    see = seeing()

    @ray.remote(num_gpus=1)
    def parent() -> Any:
        return ray.get(see.remote())

    assert ray.get(parent.remote())[1:] == ([], [])


def test_core_30_driver_has_no_gpus() -> None:
    assert ray.get_gpu_ids() == []
    assert ray.get_runtime_context().get_accelerator_ids()["GPU"] == []


def test_core_30_available_gpus_follow_what_runs(gate: Any, tally: Any) -> None:
    idle()
    arrived, release = tally("arrived"), gate("release")

    @ray.remote(num_gpus=1.0)
    def hold(count: Tally, signal: Gate) -> None:
        count.add()
        signal.wait(timeout_s=60)

    held = hold.remote(arrived, release)
    wait_for(lambda: ray.available_resources().get("GPU") == 1, what="one GPU to be taken", timeout_s=60)
    release.open()
    ray.get(held)
    idle()


def test_core_35_gpus_of_a_placement_group(tally: Any) -> None:
    idle()
    group = ray.util.placement_group([{"GPU": 1, "CPU": 1}] * 2)
    ray.get(group.ready())
    meet, arrived = meeting(1), tally("arrived")
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    tasks = [
        meet.options(scheduling_strategy=strategy(group, placement_group_bundle_index=i)).remote(arrived, 2)
        for i in range(2)
    ]
    assert sorted(ray.get(tasks)) == ["0", "1"]
    ray.util.remove_placement_group(group)
    idle()
