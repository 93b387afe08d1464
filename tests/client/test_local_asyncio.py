"""Local mode: the calls of asyncio actors share a thread with their callers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import skate as ray
from skate.exceptions import ActorDiedError, GetTimeoutError, RayTaskError, TaskCancelledError


@pytest.fixture(autouse=True)
def local() -> Iterator[None]:
    ray.init(num_cpus=2, local_mode=True)
    yield
    ray.shutdown()


@ray.remote
def echo(value: Any) -> Any:
    return value


@ray.remote
class Mailbox:
    def __init__(self) -> None:
        self.letters: asyncio.Queue[Any] = asyncio.Queue()

    async def put(self, letter: Any) -> None:
        await self.letters.put(letter)

    async def get(self) -> Any:
        return await self.letters.get()

    async def nap(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "rested"

    async def count(self, n: int) -> Any:
        for i in range(n):
            yield i

    async def ask(self, other: Any) -> Any:
        return await other.get.remote()

    async def give_up(self) -> None:
        raise asyncio.CancelledError

    async def run_plain(self) -> Any:
        return ray.get(echo.remote("from inside"))

    async def peer_value(self, peer: Any) -> Any:
        return ray.get(peer.nap.remote(0.001))


def test_a_call_that_waits_for_a_later_one() -> None:
    mailbox = Mailbox.remote()
    waiting = mailbox.get.remote()
    assert ray.wait([waiting], timeout=0) == ([], [waiting])
    mailbox.put.remote("letter")
    assert ray.get(waiting) == "letter"


def test_asyncio_actors_sleep_stream_and_await() -> None:
    first, second = Mailbox.remote(), Mailbox.remote()
    assert ray.get([first.nap.remote(0.01), first.nap.remote(0.02)]) == ["rested", "rested"]
    assert [ray.get(ref) for ref in first.count.remote(3)] == [0, 1, 2]
    pending = first.ask.remote(second)
    second.put.remote(7)
    assert ray.get(pending) == 7


def test_blocking_calls_from_inside_an_asyncio_actor() -> None:
    first, second = Mailbox.remote(), Mailbox.remote()
    assert ray.get(first.run_plain.remote()) == "from inside"
    assert ray.get(first.peer_value.remote(second)) == "rested"


def test_a_call_that_waits_can_be_cancelled() -> None:
    mailbox = Mailbox.remote()
    waiting = mailbox.get.remote()
    ray.cancel(waiting)
    with pytest.raises(TaskCancelledError):
        ray.get(waiting)


def test_a_call_that_gives_up_itself_fails_as_in_a_worker_process() -> None:
    with pytest.raises(TaskCancelledError) as caught:
        ray.get(Mailbox.remote().give_up.remote())
    assert isinstance(caught.value, RayTaskError)


def test_waiting_for_what_never_comes_is_an_error() -> None:
    mailbox = Mailbox.remote()
    with pytest.raises(RuntimeError, match=r"wait forever(.|\n)*Mailbox\.get"):
        ray.get(mailbox.get.remote())


def test_waiting_with_a_timeout_ends_with_it() -> None:
    mailbox = Mailbox.remote()
    with pytest.raises(GetTimeoutError):
        ray.get(mailbox.get.remote(), timeout=0.02)


def test_another_thread_may_make_it_ready() -> None:
    mailbox = Mailbox.remote()
    waiting = mailbox.get.remote()
    begun = threading.Event()

    def deliver() -> None:
        begun.wait(10)
        mailbox.put.remote("from a thread")

    thread = threading.Thread(target=deliver)
    thread.start()
    begun.set()
    assert ray.get(waiting) == "from a thread"
    thread.join()


def test_the_driver_may_await() -> None:
    mailbox = Mailbox.remote()

    async def main() -> Any:
        waiting = mailbox.nap.remote(0.01)
        return await waiting, await echo.remote(5)

    assert asyncio.run(main()) == ("rested", 5)


def test_queue() -> None:
    from skate.util.queue import Empty, Queue

    queue = Queue(maxsize=2)
    queue.put(1)
    queue.put(2)
    assert [queue.get(), queue.get()] == [1, 2]
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    with pytest.raises(RuntimeError, match="wait forever"):
        queue.get()


def test_everything_ends_with_shutdown() -> None:
    mailbox = Mailbox.remote()
    waiting = mailbox.get.remote()
    ray.shutdown()
    assert not ray.is_initialized()
    ray.init(num_cpus=1, local_mode=True)
    with pytest.raises(ValueError, match="another session"):
        ray.get(waiting)
    deadline = time.monotonic() + 5
    while any(t.name.startswith("skate-") for t in threading.enumerate()):
        assert time.monotonic() < deadline, "a thread of the session lives on"


def test_constructor_may_be_a_coroutine_function() -> None:
    @ray.remote
    class Patient:
        async def __init__(self, other: Any) -> None:
            await asyncio.sleep(0)  # lets the loop run other steps
            self.value = await other.nap.remote(0.001)

        def read(self) -> Any:
            return self.value

    assert ray.get(Patient.remote(Mailbox.remote()).read.remote()) == "rested"


def test_error_of_a_coroutine_constructor_reaches_the_calls() -> None:
    @ray.remote
    class Fails:
        async def __init__(self) -> None:
            await asyncio.sleep(0)  # lets the loop run other steps
            raise ValueError("it cannot start")

        def read(self) -> None: ...

    with pytest.raises(ActorDiedError, match="it cannot start"):
        ray.get(Fails.remote().read.remote())
