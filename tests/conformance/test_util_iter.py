"""ray.util.iter: parallel iterators, which older programs have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import ray
from ray.util import iter as parallel

pytestmark = pytest.mark.usefixtures("cluster")


def test_items_are_dealt_to_shards() -> None:
    found = parallel.from_items([1, 2, 3, 4])
    assert repr(found) == str(found) == "ParallelIterator[from_items[int, 4, shards=2]]"
    assert found.num_shards() == 2
    assert [list(each) for each in found.shards()] == [[1, 3], [2, 4]]


def test_a_range_is_cut_into_stretches() -> None:
    found = parallel.from_range(6, num_shards=2)
    assert repr(found) == "ParallelIterator[from_range[6, shards=2]]"
    assert [list(each) for each in found.shards()] == [[0, 1, 2], [3, 4, 5]]


def test_shards_are_gathered_in_turns() -> None:
    found = parallel.from_items([1, 2, 3, 4]).gather_sync()
    assert repr(found) == "LocalIterator[ParallelIterator[from_items[int, 4, shards=2]].gather_sync()]"
    assert list(found) == [1, 2, 3, 4]


def test_batches_are_of_one_shard() -> None:
    assert list(parallel.from_items([1, 2, 3, 4]).batch(2).gather_sync()) == [[1, 3], [2, 4]]


def test_batches_across_shards_are_of_all() -> None:
    assert list(parallel.from_items([1, 2, 3, 4]).batch_across_shards()) == [[1, 2], [3, 4]]


def test_take_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    found = parallel.from_items([1, 2, 3, 4])
    assert found.take(10) == [1, 2, 3, 4]
    found.show(2)
    assert capsys.readouterr().out.split() == ["1", "2"]


STEPS: list[tuple[str, Callable[[Any], Any], list[Any]]] = [
    ("for_each()", lambda each: each.for_each(lambda x: 2 * x), [0, 2, 4, 6, 8, 10]),
    ("filter()", lambda each: each.filter(lambda x: x % 2 == 0), [0, 2, 4]),
    ("flatten()", lambda each: each.batch(2).flatten(), [0, 1, 2, 3, 4, 5]),
    ("combine()", lambda each: each.combine(lambda x: [x, x]), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
    ("transform()", lambda each: each.transform(lambda items: (x + 1 for x in items)), [1, 2, 3, 4, 5, 6]),
    ("local_shuffle", lambda each: each.local_shuffle(3, seed=1), [0, 1, 2, 3, 4, 5]),
    ("repartition[num_partitions=3]", lambda each: each.repartition(3), [0, 1, 2, 3, 4, 5]),
]


@pytest.mark.parametrize(("name", "step", "wanted"), STEPS, ids=[name for name, _, _ in STEPS])
def test_shards_do(name: str, step: Callable[[Any], Any], wanted: list[Any]) -> None:
    found = step(parallel.from_range(6))
    assert name in repr(found)
    assert sorted(found.gather_sync()) == wanted


LOCAL: list[tuple[str, Callable[[Any], Any], list[Any]]] = [
    ("for_each()", lambda each: each.for_each(lambda x: 2 * x), [0, 4, 2, 6]),
    ("filter()", lambda each: each.filter(bool), [2, 1, 3]),
    ("batch(3)", lambda each: each.batch(3), [[0, 2, 1], [3]]),
    ("flatten()", lambda each: each.batch(3).flatten(), [0, 2, 1, 3]),
    ("combine()", lambda each: each.combine(lambda x: [x] * x), [2, 2, 1, 3, 3, 3]),
    ("transform()", lambda each: each.transform(lambda items: (x + 1 for x in items)), [1, 3, 2, 4]),
]


@pytest.mark.parametrize(("name", "step", "wanted"), LOCAL, ids=[name for name, _, _ in LOCAL])
def test_a_local_iterator_does(name: str, step: Callable[[Any], Any], wanted: list[Any]) -> None:
    found = step(parallel.from_range(4).gather_sync())
    assert repr(found).endswith(f".{name}]")
    assert list(found) == wanted


def test_a_local_shuffle_keeps_all_items() -> None:
    assert sorted(parallel.from_range(10).gather_sync().shuffle(4, seed=1)) == list(range(10))


def test_generators_make_a_shard_each() -> None:
    found = parallel.from_iterators([range(2), lambda: iter("ab")])
    assert found.num_shards() == 2
    assert [list(each) for each in found.shards()] == [[0, 1], ["a", "b"]]
    assert repr(parallel.from_iterators([range(2)], name="mine")) == "ParallelIterator[mine]"


def test_items_may_repeat() -> None:
    found = parallel.from_items([1, 2], repeat=True)
    assert found.take(6) == [1, 2, 1, 2, 1, 2]


def test_actors_make_a_shard_each() -> None:
    @ray.remote(num_cpus=0)
    class Source(parallel.ParallelIteratorWorker):
        def __init__(self, start: int) -> None:
            super().__init__(range(start, start + 2), False)

    found = parallel.from_actors([Source.remote(0), Source.remote(10)])
    assert found.num_shards() == 2
    assert sorted(found.gather_sync()) == [0, 1, 10, 11]


def test_a_union_has_the_shards_of_both() -> None:
    found = parallel.from_items([1, 2]).union(parallel.from_range(2))
    assert repr(found).startswith("ParallelIterator[ParallelUnion[ParallelIterator[from_items")
    assert found.num_shards() == 4
    assert sorted(found.gather_sync()) == [0, 1, 1, 2]


def test_shards_can_be_chosen() -> None:
    found = parallel.from_items([1, 2, 3, 4])
    assert list(found.get_shard(1)) == [2, 4]
    assert list(found.select_shards([1]).gather_sync()) == [2, 4]
    with pytest.raises(ValueError, match="Shard index out of range"):
        found.get_shard(5)


def test_gathering_in_any_order() -> None:
    assert sorted(parallel.from_range(8).gather_async()) == list(range(8))
    assert sorted(parallel.from_range(8).gather_async(batch_ms=5)) == list(range(8))
    assert sorted(parallel.from_range(8).gather_async(num_async=2)) == list(range(8))


@pytest.mark.parametrize(
    ("given", "match"),
    [({"num_async": 0}, "queue depth must be positive"), ({"batch_ms": -1}, "batch time must be positive")],
)
def test_gathering_refuses(given: dict[str, int], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        parallel.from_range(4).gather_async(**given)


def test_the_actor_of_an_item_is_told() -> None:
    pairs = list(parallel.from_range(4).gather_async().zip_with_source_actor())
    assert sorted(item for _, item in pairs) == [0, 1, 2, 3]
    assert len({actor._actor_id for actor, _ in pairs}) == 2


def test_local_iterators_in_turns() -> None:
    one, other = (
        parallel.from_range(2, num_shards=1).gather_sync(),
        parallel.from_range(3, num_shards=1).gather_sync(),
    )
    assert list(one.union(other, deterministic=True)) == [0, 0, 1, 1, 2]


def test_a_parallel_iterator_cannot_be_iterated() -> None:
    with pytest.raises(TypeError, match="You must use it.gather_sync"):
        iter(parallel.from_range(2))


def test_for_each_in_tasks() -> None:
    found = parallel.from_items([4, 1, 3], num_shards=1).for_each(lambda x: x, max_concurrency=2)
    assert sorted(found.gather_sync()) == [1, 3, 4]
    with pytest.raises(AssertionError, match="max_concurrency must be non-negative"):
        parallel.from_range(2).for_each(lambda x: x, max_concurrency=-1)


def test_metrics_are_of_the_iterator_that_runs() -> None:
    def count(item: int) -> int:
        parallel.LocalIterator.get_metrics().counters["seen"] += 1
        return parallel.LocalIterator.get_metrics().counters["seen"]

    assert list(parallel.from_range(3, num_shards=1).gather_sync().for_each(count)) == [1, 2, 3]


def test_a_parallel_iterator_is_passed_to_a_task() -> None:
    @ray.remote
    def total(items: Any) -> int:
        return sum(items.gather_sync())

    assert ray.get(total.remote(parallel.from_range(5))) == 10
