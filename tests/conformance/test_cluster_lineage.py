"""Values lost with a node: recreated by their tasks, or an error with the reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ActorDiedError, ObjectReconstructionFailedError, OwnerDiedError, RayError
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


def wait_until_made(ref: Any) -> None:
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
    wait_until_made(last)
    assert count() == 3
    pair.replace()
    assert ray.get(last, timeout=120)[-1] == 1.0
    assert count() == 6


def test_core_40_wide_fan_in_is_made_again_also_from_values_that_no_task_makes_again(
    pair: Pair, tally: Any
) -> None:
    first, add, count = tasks(tally("runs"))
    once = first.options(resources={"head": 1}, max_retries=0).remote(1.0)
    mixed = add.remote(ray.put(np.full(SIZE, 2.0)), once)
    wait_until_made(mixed)
    del once
    parts = [first.remote(float(n)) for n in range(8)]
    whole = add.remote(*parts)
    wait_until_made(whole)
    pair.replace()
    assert ray.get(whole, timeout=120)[0] == sum(range(8))
    assert [part[0] for part in ray.get(parts, timeout=120)] == list(range(8))
    assert ray.get(mixed, timeout=120)[0] == 3.0
    assert count() == 18 + 3


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
    wait_until_made(inner)
    del inner
    pair.replace()

    @ray.remote(resources={"head": 1})
    def look(box: Any) -> float:
        return float(ray.get(box[0][0])[0])

    assert ray.get(look.remote(boxed), timeout=120) == 4.0
    assert count() == 2


def test_core_40_stream_is_run_again_for_its_items(pair: Pair, tally: Any) -> None:
    runs = tally("runs")

    @ray.remote(resources={"spot": 1}, num_returns="streaming")
    def stream() -> Iterator[np.ndarray]:
        runs.add()
        for n in range(4):
            yield np.full(SIZE, float(n))

    items = list(stream.remote())
    pair.replace()
    assert ray.get(items[3], timeout=120)[0] == 3.0
    assert [ray.get(item, timeout=120)[0] for item in items] == [0.0, 1.0, 2.0, 3.0]
    assert runs.count() == 2


def test_core_40_stream_that_was_read_to_a_bound_is_run_again_by_an_attempt_without_a_reader(
    pair: Pair, tally: Any
) -> None:
    runs = tally("runs")

    @ray.remote(resources={"spot": 1}, num_returns="streaming", _generator_backpressure_num_objects=1)
    def stream() -> Iterator[np.ndarray]:
        runs.add()
        for n in range(4):
            yield np.full(SIZE, float(n))

    items = list(stream.remote())
    pair.replace()
    assert ray.get(items[3], timeout=120)[0] == 3.0
    assert runs.count() == 2


def maker(calls: Any, **options: Any) -> Any:
    @ray.remote(resources={"spot": 0.1}, num_cpus=0, **options)
    class Maker:
        def make(self) -> np.ndarray:
            calls.add()
            return np.ones(SIZE)

    made = Maker.remote()
    ref = made.make.remote()
    wait_until_made(ref)
    return made, ref


def test_core_40_call_of_an_actor_that_started_again_is_made_again(pair: Pair, tally: Any) -> None:
    calls = tally("calls")
    actor, made = maker(calls, max_restarts=1, max_task_retries=1)
    pair.replace()
    assert ray.get(made, timeout=120)[0] == 1.0
    assert calls.count() == 2
    del actor


def test_core_40_call_of_an_actor_that_died_is_not_made_again(pair: Pair, tally: Any) -> None:
    actor, made = maker(tally("calls"), max_task_retries=1)
    pair.replace()
    with pytest.raises(ActorDiedError):
        ray.get(made, timeout=120)
    del actor


def test_core_40_call_without_retries_is_not_made_again(pair: Pair, tally: Any) -> None:
    calls = tally("calls")
    actor, made = maker(calls, max_restarts=1)
    pair.replace()
    with pytest.raises(ObjectReconstructionFailedError):
        ray.get(made, timeout=120)
    assert calls.count() == 1
    del actor


def test_core_40_task_without_retries_is_not_run_again_and_who_takes_its_value_fails(
    pair: Pair, tally: Any
) -> None:
    runs = tally("runs")

    @ray.remote(resources={"spot": 1}, max_retries=0)
    def once() -> np.ndarray:
        runs.add()
        return np.zeros(SIZE)

    @ray.remote(resources={"head": 1})
    def after(array: np.ndarray) -> int:
        return len(array)

    made = once.remote()
    wait_until_made(made)
    pair.replace()
    with pytest.raises(ObjectReconstructionFailedError):
        ray.get(made, timeout=120)
    with pytest.raises(RayError):
        ray.get(after.remote(made), timeout=120)
    assert runs.count() == 1


def test_core_40_task_is_run_again_as_often_as_it_may(pair: Pair, tally: Any) -> None:
    runs = tally("runs")

    @ray.remote(resources={"spot": 1}, max_retries=1)
    def twice() -> np.ndarray:
        runs.add()
        return np.zeros(SIZE)

    made = twice.remote()
    wait_until_made(made)
    pair.replace()

    @ray.remote(resources={"spot": 1})
    def size(array: np.ndarray) -> int:
        return len(array)

    assert ray.get(size.remote(made), timeout=120) == SIZE  # on the new node, where it stays
    pair.replace()
    with pytest.raises(ObjectReconstructionFailedError):
        ray.get(made, timeout=120)
    assert runs.count() == 2


@pytest.mark.chosen_difference(
    "the text names the function, both nodes, the call and what to do", id="D-messages"
)
def test_errors_of_lost_values_say_what_was_lost_with_whom_and_why(pair: Pair, tally: Any) -> None:
    @ray.remote(resources={"spot": 0.5}, max_retries=0)
    def once() -> np.ndarray:
        return np.zeros(SIZE)

    actor, called = maker(tally("calls"), max_restarts=1)
    made = once.remote()
    wait_until_made(made)
    lost, owner = pair.node.node_id, ray.get_runtime_context().get_node_id()
    pair.replace()
    for ref, why in ((made, "once has max_retries=0"), (called, "Maker.make has max_task_retries=0")):
        with pytest.raises(ObjectReconstructionFailedError) as raised:
            ray.get(ref, timeout=120)
        for part in (why, lost, ref.hex(), f"owner: node {owner}", "test_cluster_lineage.py"):
            assert part in str(raised.value), part
        assert raised.value.reason == "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED"
    del actor


def test_core_40_value_whose_owner_was_lost(pair: Pair) -> None:
    @ray.remote(resources={"spot": 1})
    def puts() -> list[Any]:
        return [ray.put(np.zeros(SIZE))]

    [inner] = ray.get(puts.remote(), timeout=60)
    pair.lose()
    with pytest.raises(OwnerDiedError):
        ray.get(inner, timeout=120)


@pytest.mark.chosen_difference("the text names the node of the owner and what to do", id="D-messages")
def test_error_of_a_value_whose_owner_was_lost_names_its_node(pair: Pair) -> None:
    @ray.remote(resources={"spot": 1})
    def puts() -> list[Any]:
        return [ray.put(np.zeros(SIZE))]

    [inner] = ray.get(puts.remote(), timeout=60)
    lost = pair.node.node_id
    pair.lose()
    with pytest.raises(OwnerDiedError, match=f"node {lost}, which .*; create it in a task"):
        ray.get(inner, timeout=120)


@pytest.mark.chosen_difference("the state API needs no dashboard", id="D-state-api")
def test_objects_and_tasks_of_other_nodes_are_listed(pair: Pair, tally: Any) -> None:

    first, _, _ = tasks(tally("runs"))
    made = first.remote(1.0)
    wait_until_made(made)
    task = get_task(made)
    assert (task.state, task.node_id) == ("FINISHED", pair.node.node_id)
    assert any(row.location == f"node {pair.node.node_id[:8]}" for row in get_objects(made.hex()))
    assert pair.node.node_id in {row.node_id for row in list_workers()}


def test_values_of_a_dynamic_generator_are_made_again(pair: Pair, tally: Any) -> None:
    runs = tally("runs")

    @ray.remote(resources={"spot": 1})
    def several(count: int) -> Iterator[np.ndarray]:
        runs.add()
        for n in range(count):
            yield np.full(SIZE, float(n))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refs = list(ray.get(several.options(num_returns="dynamic").remote(3), timeout=60))
    pair.replace()
    assert [ray.get(ref, timeout=120)[0] for ref in refs] == [0.0, 1.0, 2.0]
    assert runs.count() == 2


@pytest.mark.parametrize("form", ["task", "method"])
def test_values_of_a_stream_that_runs_are_made_again(pair: Pair, gate: Any, form: str) -> None:
    release = gate("release")

    def some(release: Any) -> Iterator[np.ndarray]:
        for n in range(5):
            if n == 3:
                release.wait(120)
            yield np.full(SIZE, float(n))

    @ray.remote(resources={"spot": 1}, max_restarts=-1, max_task_retries=-1)
    class Streamer:
        def some(self, release: Any) -> Iterator[np.ndarray]:
            yield from (each for each in some(release))

    if form == "task":
        stream = ray.remote(resources={"spot": 1}, max_retries=-1)(some).remote(release)
    else:
        actor = Streamer.remote()
        stream = actor.some.remote(release)
    refs = [next(stream) for _ in range(3)]
    pair.replace()
    assert [ray.get(ref, timeout=120)[0] for ref in refs] == [0.0, 1.0, 2.0]
    release.open()
    assert [ray.get(ref, timeout=120)[0] for ref in stream] == [3.0, 4.0]


class Three(Pair):
    """A pair with a third node, of the resource `reader`."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster.add_node(num_cpus=1, resources={"reader": 1})
        self.cluster.wait_for_nodes()

    def lose(self) -> None:
        self.cluster.remove_node(self.node, allow_graceful=False)
        wait_for(
            lambda: sum(node["Alive"] for node in ray.nodes()) == 2, what="the node to be lost", timeout_s=60
        )


@pytest.fixture
def three() -> Iterator[Three]:
    made = Three()
    yield made
    made.stop()


def total(value: Any) -> float:
    return float(value.sum())


@pytest.mark.parametrize("form", ["task", "put in an actor's method", "ray.get in a task"])
def test_core_46_value_that_is_not_made_again_lives_on_where_it_was_read(three: Three, form: str) -> None:
    @ray.remote(resources={"spot": 1}, max_retries=0)
    def once() -> np.ndarray:
        return np.ones(SIZE)

    @ray.remote(resources={"spot": 1})
    class Maker:
        def make(self) -> np.ndarray:
            return np.ones(SIZE)

    @ray.remote(resources={"reader": 1})
    def read(value: Any) -> float:
        return total(ray.get(value[0]) if isinstance(value, list) else value)

    maker = Maker.remote() if form.startswith("put") else None
    made = once.remote() if maker is None else maker.make.remote()
    assert ray.get(read.remote([made] if form.startswith("ray.get") else made), timeout=60) == SIZE
    three.lose()
    assert total(ray.get(made, timeout=60)) == SIZE
    assert ray.get(read.remote(made), timeout=60) == SIZE


def test_core_46_value_with_several_readers_outlives_the_node_that_made_it(three: Three) -> None:
    @ray.remote(resources={"spot": 1}, max_retries=0)
    def once() -> np.ndarray:
        return np.ones(SIZE)

    made = once.remote()
    for place in ("reader", "head"):
        assert ray.get(ray.remote(total).options(resources={place: 1}).remote(made), timeout=60) == SIZE
    three.lose()
    assert total(ray.get(made, timeout=60)) == SIZE


@pytest.mark.parametrize("form", ["put", "small put", "result that is awaited", "result"])
def test_value_of_a_lost_owner_raises_on_a_third_node_that_borrowed_it(
    three: Three, gate: Any, form: str
) -> None:
    release = gate("release")

    @ray.remote(resources={"head": 1})
    def wait(release: Any) -> int:
        release.wait(120)
        return 1

    @ray.remote(resources={"spot": 1}, num_cpus=0)
    class Owner:
        def make(self) -> list[Any]:
            if form.startswith("result"):
                return [wait.remote(release)]
            return [ray.put(1 if form == "small put" else np.ones(SIZE))]

    @ray.remote(resources={"reader": 1}, num_cpus=0, max_concurrency=2)
    class Borrower:
        reading = False

        def hold(self, box: list[Any]) -> None:
            self.box = box

        def read(self) -> str:
            self.reading = True
            try:
                ray.get(self.box[0], timeout=120)
            except OwnerDiedError:
                return "OwnerDiedError"
            return "value"

        def is_reading(self) -> bool:
            return self.reading

    owner, borrower = Owner.remote(), Borrower.remote()
    box = ray.get(owner.make.remote(), timeout=60)
    ray.get(borrower.hold.remote(box), timeout=60)
    del box
    if form == "result that is awaited":
        read = borrower.read.remote()
        wait_for(
            lambda: ray.get(borrower.is_reading.remote()),
            what="the borrower to ask for the value",
            timeout_s=60,
        )
        three.lose()
    else:
        three.lose()
        read = borrower.read.remote()
    assert ray.get(read, timeout=120) == "OwnerDiedError"
    release.open()
