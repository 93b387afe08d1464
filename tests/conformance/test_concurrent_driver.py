"""A driver that does several things at once: threads, futures, and an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(value):
    return value


def test_driver_threads_may_submit_and_get():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: ray.get(echo.remote(i)), range(40))) == list(range(40))


def test_driver_thread_may_wait_while_another_submits(gate):
    release = gate("release")

    @ray.remote(num_cpus=0)
    def hold():
        release.wait()
        return "held"

    ref, results = hold.remote(), []
    waiter = threading.Thread(target=lambda: results.append(ray.wait([ref], timeout=30)[0] == [ref]))
    waiter.start()
    assert ray.get(echo.remote(1)) == 1
    release.open()
    waiter.join(30)
    assert results == [True]


def test_ref_made_in_one_thread_is_got_in_another():
    refs = []
    thread = threading.Thread(target=lambda: refs.append(echo.remote("across")))
    thread.start()
    thread.join(30)
    assert ray.get(refs[0]) == "across"


def test_await_of_a_ref_in_an_event_loop():
    async def main():
        return await echo.remote("awaited")

    assert asyncio.run(main()) == "awaited"


def test_await_of_a_put_ref():
    async def main():
        return await ray.put("awaited")

    assert asyncio.run(main()) == "awaited"


def test_await_raises_the_error_of_the_task():
    @ray.remote
    def fail():
        raise KeyError("awaited")

    async def main():
        with pytest.raises(KeyError):
            await fail.remote()

    asyncio.run(main())


def test_asyncio_gather_over_refs():
    async def main():
        return await asyncio.gather(*[echo.remote(i) for i in range(10)])

    assert asyncio.run(main()) == list(range(10))


def test_asyncio_wait_for_times_out_and_the_task_goes_on(gate):
    release = gate("release")

    @ray.remote
    def hold():
        release.wait()
        return "held"

    ref = hold.remote()

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(ref.future())), 0.05)

    asyncio.run(main())
    release.open()
    assert ray.get(ref) == "held"


def test_same_ref_awaited_twice():
    async def main():
        ref = echo.remote("twice")
        return await ref, await ref

    assert asyncio.run(main()) == ("twice", "twice")


def test_event_loop_runs_on_while_a_ref_is_awaited(gate):
    release = gate("release")

    @ray.remote
    def hold():
        release.wait()
        return "held"

    async def open_it():
        release.open()

    async def main():
        return (await asyncio.gather(hold.remote(), open_it()))[0]

    assert asyncio.run(main()) == "held"


def test_as_completed_over_awaited_refs():
    async def fetch(i):
        return await echo.remote(i)

    async def main():
        return sorted([await each for each in asyncio.as_completed([fetch(i) for i in range(5)])])

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_async_task_function_is_refused_or_run():
    async def coroutine():
        return 1

    with pytest.raises((ValueError, TypeError)):
        ray.get(ray.remote(coroutine).remote())


def test_concurrent_futures_wait_over_futures_of_refs():
    futures = [echo.remote(i).future() for i in range(5)]
    done, _ = concurrent.futures.wait(futures, timeout=30)
    assert sorted(future.result() for future in done) == [0, 1, 2, 3, 4]
