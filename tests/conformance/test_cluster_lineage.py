"""Values that were lost with a node: made again from their tasks, or an error that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ObjectLostError, ObjectReconstructionFailedError, OwnerDiedError, RayError
from ray.util.state import get_objects, get_task, list_workers
from waiting import wait_for

pytestmark = pytest.mark.timeout(300)

SIZE = 100_000  # doubles: 800 kB, which stays where it was made


class Pair:
    """A head of one CPU and a node with the resource `spot`, which can be lost and replaced."""

    def __init__(self) -> None:
        ray.shutdown()
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "resources": {"head": 8}})
        self.node = self.cluster.add_node(num_cpus=1, resources={"spot": 1})
        ray.init(address=self.cluster.address, log_to_driver=False)
        self.cluster.wait_for_nodes()

    def lose(self) -> None:
        self.cluster.remove_node(self.node, allow_graceful=False)
        wait_for(self.is_lost, what="the node to be marked dead", timeout_s=60)

    @staticmethod
    def is_lost() -> bool:
        return sum(node["Alive"] for node in ray.nodes()) == 1

    def replace(self) -> None:
        self.lose()
        self.node = self.cluster.add_node(num_cpus=1, resources={"spot": 1})
        self.cluster.wait_for_nodes()

    def stop(self) -> None:
        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.stop()


def there(ref: Any) -> None:
    """Wait until a value is made, without having it sent here."""
    assert ray.wait([ref], timeout=60, fetch_local=False)[0] == [ref]


def tasks(runs: Any) -> tuple[Any, Any, Callable[[], int]]:
    @ray.remote(resources={"spot": 1})
    def first(value: float) -> np.ndarray:
        runs.add()
        return np.full(SIZE, value)

    @ray.remote(resources={"spot": 1})
    def add(*arrays: np.ndarray) -> np.ndarray:
        runs.add()
        return sum(arrays[1:], arrays[0])

    return first, add, runs.count


def test_core_40_chain_of_three_is_made_again(pair: Pair, tally: Any) -> None:
    first, add, count = tasks(tally("runs"))
    last = add.remote(add.remote(first.remote(1.0)))
    there(last)
    assert count() == 3
    pair.replace()
    assert ray.get(last, timeout=120)[-1] == 1.0
    assert count() == 6


def test_core_40_wide_fan_in_is_made_again(pair: Pair, tally: Any) -> None:
    first, add, count = tasks(tally("runs"))
    parts = [first.remote(float(n)) for n in range(8)]
    whole = add.remote(*parts)
    there(whole)
    pair.replace()
    assert ray.get(whole, timeout=120)[0] == sum(range(8))
    assert [part[0] for part in ray.get(parts, timeout=120)] == list(range(8))
    assert count() == 18


def test_core_40_all_results_of_a_task_come_from_one_run(pair: Pair, tally: Any) -> None:
    runs = tally("runs")

    @ray.remote(resources={"spot": 1}, num_returns=3)
    def three() -> tuple[Any, ...]:
        runs.add()
        return tuple(np.full(SIZE, float(n)) for n in range(3))

    refs = three.remote()
    ray.wait(refs, num_returns=3, timeout=60, fetch_local=False)
    pair.replace()
    assert [array[0] for array in ray.get(refs, timeout=120)] == [0.0, 1.0, 2.0]
    assert runs.count() == 2


def test_core_40_value_captured_in_another_is_made_again(pair: Pair, tally: Any) -> None:
    first, _, count = tasks(tally("runs"))
    inner = first.remote(4.0)
    boxed = ray.put([[inner]])
    there(inner)
    del inner
    pair.replace()

    @ray.remote(resources={"head": 1})
    def look(box: Any) -> float:
        return float(ray.get(box[0][0])[0])

    assert ray.get(look.remote(boxed), timeout=120) == 4.0
    assert count() == 2


def test_core_40_error_without_retries_names_the_cause(pair: Pair) -> None:
    @ray.remote(resources={"spot": 1}, max_retries=0)
    def once() -> np.ndarray:
        return np.zeros(SIZE)

    @ray.remote(resources={"head": 1})
    def after(array: np.ndarray) -> int:
        return len(array)

    made = once.remote()
    there(made)
    lost = pair.node.node_id
    pair.replace()
    with pytest.raises(ObjectReconstructionFailedError) as raised:
        ray.get(made, timeout=120)
    if hasattr(raised.value, "reason_message"):  # what each of them says is its own
        for part in ("once", "max_retries=0", lost, made.hex(), "owner", "test_cluster_lineage.py"):
            assert part in str(raised.value), part
    with pytest.raises(RayError):
        ray.get(after.remote(made), timeout=120)


def test_core_40_result_of_an_actor_is_not_made_again(pair: Pair) -> None:
    @ray.remote(resources={"spot": 1})
    class Maker:
        def make(self) -> np.ndarray:
            return np.zeros(SIZE)

    maker = Maker.remote()
    made = maker.make.remote()
    there(made)
    pair.replace()
    with pytest.raises(ObjectLostError) as raised:
        ray.get(made, timeout=120)
    if hasattr(raised.value, "reason_message"):
        assert "Maker.make" in str(raised.value)


def test_core_40_value_whose_owner_was_lost(pair: Pair) -> None:
    @ray.remote(resources={"spot": 1})
    def puts() -> list[Any]:
        return [ray.put(np.zeros(SIZE))]

    [inner] = ray.get(puts.remote(), timeout=60)
    lost = pair.node.node_id
    pair.lose()
    with pytest.raises(OwnerDiedError) as raised:
        ray.get(inner, timeout=120)
    if hasattr(raised.value, "detail"):
        assert lost in str(raised.value)


@pytest.mark.chosen_difference("the state API needs no dashboard", id="D-state-api")
def test_objects_and_tasks_of_other_nodes_are_listed(pair: Pair, tally: Any) -> None:

    first, _, _ = tasks(tally("runs"))
    made = first.remote(1.0)
    there(made)
    task = get_task(made)
    assert (task.state, task.node_id) == ("FINISHED", pair.node.node_id)
    assert any(row.location == f"node {pair.node.node_id[:8]}" for row in get_objects(made.hex()))
    assert pair.node.node_id in {row.node_id for row in list_workers()}
