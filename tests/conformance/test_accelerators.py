"""Accelerators besides GPUs: their numbers, shown to a task's libraries in the variable of each kind."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import ray

KINDS = {
    "neuron_cores": "NEURON_RT_VISIBLE_CORES",
    "TPU": "TPU_VISIBLE_CHIPS",
    "HPU": "HABANA_VISIBLE_MODULES",
    "NPU": "ASCEND_RT_VISIBLE_DEVICES",
    "RBLN": "RBLN_DEVICES",
    "FURIOSA": "FURIOSA_DEVICES",
    "TTNPU": "TT_VISIBLE_DEVICES",
    "MBLT": "QBRUNTIME_VISIBLE_DEVICES",
}
ALL = dict.fromkeys(KINDS, 4)


@pytest.fixture(scope="module")
def devices(own_cluster: None) -> None:
    """A node with four of each kind."""
    options: dict[str, Any] = {
        "num_cpus": 4,
        "resources": ALL,
        "log_to_driver": False,
        "include_dashboard": False,
    }
    if not hasattr(ray, "compat"):
        options["address"] = "local"
    ray.shutdown()
    ray.init(**options)


pytestmark = pytest.mark.usefixtures("devices")


def assigned(*names: str) -> tuple[dict[str, list[str]], dict[str, str | None]]:
    return ray.get_runtime_context().get_accelerator_ids(), {name: os.environ.get(name) for name in names}


def shown(kind: str, numbers: list[int]) -> str:
    prefix = "npu:" if kind == "FURIOSA" else ""
    return ",".join(f"{prefix}{number}" for number in numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_is_given_one_and_told_which(kind: str) -> None:
    ids, variables = ray.get(ray.remote(assigned).options(resources={kind: 1}).remote(KINDS[kind]))
    assert len(ids[kind]) == 1
    assert variables[KINDS[kind]] == shown(kind, [int(ids[kind][0])])
    assert not any(found for other, found in ids.items() if other != kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_is_given_all_of_them(kind: str) -> None:
    ids, variables = ray.get(ray.remote(assigned).options(resources={kind: 4}).remote(KINDS[kind]))
    assert ids[kind] == ["0", "1", "2", "3"]
    assert variables[KINDS[kind]] == shown(kind, [0, 1, 2, 3])


@pytest.mark.parametrize("kind", KINDS)
def test_an_actor_keeps_its_own(kind: str) -> None:
    @ray.remote(num_cpus=0)
    class Holder:
        def assigned(self, name: str) -> Any:
            return assigned(name)

    one, other = (Holder.options(resources={kind: 2}).remote() for _ in range(2))
    first, second = ray.get([each.assigned.remote(KINDS[kind]) for each in (one, other)])
    assert sorted(first[0][kind] + second[0][kind]) == ["0", "1", "2", "3"]
    assert first[1][KINDS[kind]] == shown(kind, [int(each) for each in first[0][kind]])
    assert first == ray.get(one.assigned.remote(KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_without_any_is_shown_none(kind: str) -> None:
    ids, variables = ray.get(ray.remote(assigned).remote(KINDS[kind]))
    assert ids[kind] == []
    assert variables == {KINDS[kind]: None}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("NPU", "TPU", "TTNPU")])
@pytest.mark.parametrize("amount", [0.5, 1.5])
def test_parts_of_devices_are_refused(kind: str, amount: float) -> None:
    with pytest.raises(ValueError, match=f"{kind} resource quantity must be .*whole number"):
        ray.remote(assigned).options(resources={kind: amount}).remote()


@pytest.mark.parametrize("amount", [3, 5, 0.5])
def test_numbers_of_tpu_chips_that_cannot_be_are_refused(amount: float) -> None:
    with pytest.raises(ValueError, match="not a supported chip configuration. Supported configs"):
        ray.remote(assigned).options(resources={"TPU": amount}).remote()


def test_half_an_npu_is_shared() -> None:
    ids, _ = ray.get(ray.remote(assigned).options(resources={"NPU": 0.5}).remote())
    assert len(ids["NPU"]) == 1


@pytest.mark.parametrize(("chips", "bounds"), [(1, "1,1,1"), (2, "1,2,1"), (4, None)])
def test_the_layout_of_tpu_chips_is_told(chips: int, bounds: str | None) -> None:
    names = ("TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS")
    _, variables = ray.get(ray.remote(assigned).options(resources={"TPU": chips}).remote(*names))
    assert variables == {names[0]: bounds, names[1]: bounds and "1,1,1"}


def test_two_kinds_at_once() -> None:
    task = ray.remote(assigned).options(resources={"HPU": 1, "neuron_cores": 2})
    ids, variables = ray.get(task.remote(KINDS["HPU"], KINDS["neuron_cores"]))
    assert (len(ids["HPU"]), len(ids["neuron_cores"])) == (1, 2)
    assert all(variables.values())


def test_a_bundle_has_devices_of_its_own() -> None:
    group = ray.util.placement_group([{"CPU": 1, "neuron_cores": 2}])
    ray.get(group.ready())
    where = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
    task = ray.remote(assigned).options(num_cpus=1, resources={"neuron_cores": 2}, scheduling_strategy=where)
    ids, variables = ray.get(task.remote("NEURON_RT_VISIBLE_CORES"))
    assert len(ids["neuron_cores"]) == 2
    assert variables["NEURON_RT_VISIBLE_CORES"] == ",".join(ids["neuron_cores"])
    ray.util.remove_placement_group(group)


def test_the_driver_holds_none() -> None:
    assert not any(ray.get_runtime_context().get_accelerator_ids().values())


def test_the_session_counts_them() -> None:
    total = ray.cluster_resources()
    assert {kind: total[kind] for kind in KINDS} == dict.fromkeys(KINDS, 4.0)


def test_a_variable_can_be_left_alone(script: Callable[..., Any]) -> None:
    done = script(
        """
        import os, ray
        ray.init(START, num_cpus=1, resources={"neuron_cores": 1})
        task = ray.remote(lambda: os.environ.get("NEURON_RT_VISIBLE_CORES"))
        print(ray.get(task.options(resources={"neuron_cores": 1}).remote()))
        """,
        RAY_EXPERIMENTAL_NOSET_NEURON_RT_VISIBLE_CORES="1",
    )
    assert done.stdout.split() == ["None"], done.stderr
