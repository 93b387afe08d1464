"""ray.util.queue.Queue: a queue that tasks and actors share."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import pytest
import ray
from ray.util.queue import Empty, Full, Queue

pytestmark = pytest.mark.usefixtures("cluster")


def test_util_queue_is_first_in_first_out() -> None:
    shared = Queue()
    for item in range(5):
        shared.put(item)
    assert [shared.get() for _ in range(5)] == list(range(5))


def test_util_queue_sizes() -> None:
    shared = Queue(maxsize=2)
    assert (len(shared), shared.size(), shared.qsize(), shared.empty(), shared.full()) == (
        0,
        0,
        0,
        True,
        False,
    )
    shared.put("a")
    assert (len(shared), shared.size(), shared.qsize(), shared.empty(), shared.full()) == (
        1,
        1,
        1,
        False,
        False,
    )
    shared.put("b")
    assert (shared.qsize(), shared.empty(), shared.full()) == (2, False, True)


def test_util_queue_without_a_limit_is_never_full() -> None:
    shared = Queue()
    shared.put_nowait_batch(list(range(100)))
    assert shared.full() is False
    assert shared.qsize() == 100


@pytest.mark.parametrize("how", ["block_false", "nowait", "timeout"])
def test_util_queue_get_of_an_empty_queue(how: str) -> None:
    shared = Queue()
    with pytest.raises(Empty) as raised:
        {
            "block_false": lambda: shared.get(block=False),
            "nowait": shared.get_nowait,
            "timeout": lambda: shared.get(timeout=0.05),
        }[how]()
    assert isinstance(raised.value, queue.Empty)


@pytest.mark.parametrize("how", ["block_false", "nowait", "timeout"])
def test_util_queue_put_to_a_full_queue(how: str) -> None:
    shared = Queue(maxsize=1)
    shared.put(1)
    with pytest.raises(Full) as raised:
        {
            "block_false": lambda: shared.put(2, block=False),
            "nowait": lambda: shared.put_nowait(2),
            "timeout": lambda: shared.put(2, timeout=0.05),
        }[how]()
    assert isinstance(raised.value, queue.Full)
    assert shared.qsize() == 1


@pytest.mark.parametrize("how", ["get", "put"])
def test_util_queue_negative_timeout_is_refused(how: str) -> None:
    shared = Queue()
    with pytest.raises(ValueError, match="timeout"):
        shared.get(timeout=-1) if how == "get" else shared.put(1, timeout=-1)


def test_util_queue_get_blocks_until_an_item_comes() -> None:
    shared = Queue()

    @ray.remote
    def take(source: Queue) -> Any:
        return source.get()

    taking = take.remote(shared)
    assert ray.wait([taking], timeout=0.2)[0] == []
    shared.put("item")
    assert ray.get(taking, timeout=60) == "item"


def test_util_queue_put_blocks_until_there_is_room() -> None:
    shared = Queue(maxsize=1)
    shared.put(1)

    @ray.remote
    def give(target: Queue) -> None:
        target.put(2)

    giving = give.remote(shared)
    assert ray.wait([giving], timeout=0.2)[0] == []
    assert shared.get() == 1
    ray.get(giving, timeout=60)
    assert shared.get() == 2


def test_util_queue_between_tasks() -> None:
    shared, results = Queue(), Queue()

    @ray.remote(num_cpus=0.5)
    def consume(source: Queue, target: Queue) -> int:
        count = 0
        while (item := source.get()) is not None:
            target.put(item * item)
            count += 1
        return count

    consumers = [consume.remote(shared, results) for _ in range(2)]
    shared.put_nowait_batch(list(range(10)))
    shared.put_nowait_batch([None, None])
    assert sum(ray.get(consumers, timeout=60)) == 10
    assert sorted(results.get_nowait_batch(10)) == [n * n for n in range(10)]


def test_util_queue_batches() -> None:
    shared = Queue()
    shared.put_nowait_batch([1, 2, 3])
    assert shared.get_nowait_batch(2) == [1, 2]
    assert shared.get_nowait_batch(1) == [3]


def test_util_queue_batch_that_does_not_fit_changes_nothing() -> None:
    shared = Queue(maxsize=2)
    shared.put(1)
    with pytest.raises(Full):
        shared.put_nowait_batch([2, 3])
    assert shared.qsize() == 1


def test_util_queue_batch_of_more_than_there_is_changes_nothing() -> None:
    shared = Queue()
    shared.put(1)
    with pytest.raises(Empty):
        shared.get_nowait_batch(2)
    assert shared.qsize() == 1


@pytest.mark.parametrize("bad", [-1, "two"], ids=["negative", "text"])
def test_util_queue_bad_batch_size(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        Queue().get_nowait_batch(bad)


def test_util_queue_batch_wants_many_items() -> None:
    with pytest.raises(TypeError):
        Queue().put_nowait_batch(5)


def test_util_queue_async() -> None:
    shared = Queue(maxsize=1)

    async def drive() -> Any:
        await shared.put_async("a")
        with pytest.raises(Full):
            await shared.put_async("b", block=False)
        first = await shared.get_async()
        with pytest.raises(Empty):
            await shared.get_async(block=False)
        with pytest.raises(Empty):
            await shared.get_async(timeout=0.05)
        getting = asyncio.ensure_future(shared.get_async())
        await shared.put_async("c")
        return first, await getting

    assert asyncio.run(drive()) == ("a", "c")


def test_util_queue_holds_any_value() -> None:
    shared = Queue()
    for item in (None, {"a": [1]}, ray.put(3)):
        shared.put(item)
    assert shared.get() is None
    assert shared.get() == {"a": [1]}


def test_util_queue_actor_options() -> None:
    shared = Queue(actor_options={"num_cpus": 1, "name": "the-queue"})
    shared.put(1)
    assert "the-queue" in ray.util.list_named_actors()
    shared.shutdown(force=True)


@pytest.mark.parametrize("force", [False, True], ids=["graceful", "forced"])
def test_util_queue_shutdown_ends_it(force: bool) -> None:
    shared = Queue(actor_options={"name": f"ending-{force}"})
    shared.put(1)
    shared.shutdown(force=force)
    with pytest.raises(Exception):  # noqa: B017 (Ray raises an AttributeError about its own insides)
        shared.put(2)
