"""Queue: order, blocking, time-outs, batches, sharing, shutdown."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from typing import Any

import pytest
from waiting import wait_for

import skate as ray
from skate.exceptions import ActorDiedError
from skate.util.queue import Empty, Full, Queue

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def unbounded() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.shutdown()


@pytest.fixture
def pair() -> Iterator[Queue]:
    made = Queue(maxsize=2)
    yield made
    made.shutdown()


@ray.remote(num_cpus=0)
def put_all(target: Queue, items: list[Any]) -> None:
    for item in items:
        target.put(item)


@ray.remote(num_cpus=0)
def take(source: Queue, count: int) -> list[Any]:
    return [source.get(timeout=20) for _ in range(count)]


def test_items_come_out_in_the_order_they_went_in(unbounded: Queue) -> None:
    for item in range(5):
        unbounded.put(item)
    assert [unbounded.get() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_sizes(pair: Queue) -> None:
    assert pair.empty() and not pair.full()
    pair.put("a")
    assert (len(pair), pair.size(), pair.qsize()) == (1, 1, 1)
    assert not pair.empty() and not pair.full()
    pair.put("b")
    assert pair.full()
    assert repr(pair) == "Queue(maxsize=2)"


def test_an_unbounded_queue_is_never_full(unbounded: Queue) -> None:
    unbounded.put_nowait_batch(range(1000))
    assert not unbounded.full()


def test_empty(unbounded: Queue) -> None:
    with pytest.raises(Empty, match="empty"):
        unbounded.get_nowait()
    with pytest.raises(Empty):
        unbounded.get(block=False)
    with pytest.raises(Empty, match=r"0\.01 s"):
        unbounded.get(timeout=0.01)
    assert issubclass(Empty, queue.Empty)


def test_full(pair: Queue) -> None:
    pair.put_nowait_batch([1, 2])
    with pytest.raises(Full, match="full"):
        pair.put_nowait(3)
    with pytest.raises(Full):
        pair.put(3, block=False)
    with pytest.raises(Full, match=r"0\.01 s"):
        pair.put(3, timeout=0.01)
    assert issubclass(Full, queue.Full)
    assert pair.size() == 2


def test_a_timeout_of_zero_takes_what_is_there(pair: Queue) -> None:
    pair.put("here", timeout=0)
    assert pair.get(timeout=0) == "here"
    with pytest.raises(Empty):
        pair.get(timeout=0)


def test_negative_timeouts_are_refused(pair: Queue) -> None:
    with pytest.raises(ValueError, match="non-negative"):
        pair.get(timeout=-1)
    with pytest.raises(ValueError, match="non-negative"):
        pair.put(1, timeout=-1)


def test_batches_are_all_or_nothing(pair: Queue) -> None:
    with pytest.raises(Full, match="Cannot add 3 items to queue of size"):
        pair.put_nowait_batch([1, 2, 3])
    assert pair.empty()
    pair.put_nowait_batch(iter([1, 2]))
    with pytest.raises(Empty, match="Cannot get 3 items from queue of size"):
        pair.get_nowait_batch(3)
    assert pair.get_nowait_batch(0) == []
    assert pair.get_nowait_batch(2) == [1, 2]


def test_bad_batches_are_refused(pair: Queue) -> None:
    with pytest.raises(TypeError, match="iterable"):
        pair.put_nowait_batch(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="int"):
        pair.get_nowait_batch("two")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-1"):
        pair.get_nowait_batch(-1)


def test_a_put_waits_for_room(pair: Queue) -> None:
    done = put_all.remote(pair, list(range(6)))
    assert ray.get(take.remote(pair, 6)) == [0, 1, 2, 3, 4, 5]
    ray.get(done)


def test_a_get_waits_for_an_item(unbounded: Queue) -> None:
    taken = take.remote(unbounded, 1)
    assert ray.wait([taken], timeout=0.05)[0] == []
    unbounded.put("at last")
    assert ray.get(taken) == ["at last"]


def test_many_blocked_readers_do_not_keep_out_the_writer(unbounded: Queue) -> None:
    readers = [unbounded.actor.get.remote(None) for _ in range(1200)]
    unbounded.put_nowait_batch(range(1200))
    assert sorted(ray.get(readers)) == list(range(1200))


def test_async_calls(pair: Queue) -> None:
    async def use() -> list[Any]:
        await pair.put_async(1)
        await pair.put_async(2)
        with pytest.raises(Full):
            await pair.put_async(3, block=False)
        with pytest.raises(Full):
            await pair.put_async(3, timeout=0.01)
        got = [await pair.get_async(), await pair.get_async(timeout=5)]
        with pytest.raises(Empty):
            await pair.get_async(block=False)
        with pytest.raises(Empty):
            await pair.get_async(timeout=0.01)
        with pytest.raises(ValueError, match="non-negative"):
            await pair.get_async(timeout=-1)
        later = asyncio.ensure_future(pair.get_async(timeout=20))
        await pair.put_async("late")
        return [*got, await later]

    assert asyncio.run(use()) == [1, 2, "late"]


def test_actor_options_reach_the_actor() -> None:
    before = ray.available_resources().get("CPU", 0)
    made = Queue(actor_options={"num_cpus": 1})
    made.put(1)
    wait_for(lambda: ray.available_resources().get("CPU", 0) == before - 1, what="the queue to hold a CPU")
    made.shutdown(force=True)
    wait_for(lambda: ray.available_resources().get("CPU", 0) == before, what="the CPU to be given back")


@pytest.mark.parametrize("force", [False, True])
def test_shutdown_ends_the_actor(force: bool) -> None:
    made = Queue()
    actor = made.actor
    made.put(1)
    made.shutdown(force=force, grace_period_s=20)
    with pytest.raises(ActorDiedError):
        ray.get(actor.qsize.remote())
    with pytest.raises(ValueError, match="shut down"):
        made.get()
    made.shutdown()
    assert repr(made) == "Queue(maxsize=0, shut down)"
