"""Drivers with many threads and event loops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import asyncio, concurrent.futures, os, sys, threading, time

    ray.init(START)

    @ray.remote
    def double(x):
        return 2 * x

    @ray.remote
    def when(path, value):
        while not os.path.exists(path):
            time.sleep(0.002)
        return value

    @ray.remote
    class Counter:
        def __init__(self):
            self.n = 0
        def add(self):
            self.n += 1
            return self.n

    def together(function, count):
        failed = []
        def run(index):
            try:
                function(index)
            except BaseException as error:
                failed.append(error)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        if failed: raise failed[0]

    async def same(ref):
        return await ref
"""

PROGRAMS = {
    "eight threads of five hundred calls": """
    def work(index):
        for i in range(500):
            kind = (i + index) % 5
            if kind == 0:
                assert ray.get(double.remote(i)) == 2 * i
            elif kind == 1:
                assert ray.get(ray.put(i)) == i
            elif kind == 2:
                ready, _ = ray.wait([double.remote(i), double.remote(i + 1)], num_returns=2)
                assert ray.get(ready) == [2 * i, 2 * i + 2]
            elif kind == 3:
                assert ray.get([double.remote(ray.put(i)), double.remote(j := i)]) == [2 * i, 2 * j]
            else:
                assert ray.get(counter.add.remote()) > 0
    counter = Counter.remote()
    together(work, 8)
    assert ray.get(counter.add.remote()) == 801
    """,
    "eight threads with large values": """
    def work(index):
        for i in range(30):
            value = bytes([index]) * 300_000
            ref = ray.put(value)
            assert ray.get(ref) == value
            assert ray.get(double.remote(ref)) == value * 2
    together(work, 8)
    """,
    "threads that wait for different refs are let go one by one": """
    folder = sys.argv[1]
    got = []
    refs = [when.options(num_cpus=0).remote(f"{folder}/{i}", i) for i in range(6)]
    def work(index):
        got.append(ray.get(refs[index]))
        if index:
            open(f"{folder}/{index - 1}", "w").close()
    open(f"{folder}/5", "w").close()
    together(work, 6)
    assert got == [5, 4, 3, 2, 1, 0]
    """,
    "main thread waits while another submits what it waits for": """
    folder = sys.argv[1]
    late = when.remote(f"{folder}/open", "late")
    def other():
        assert ray.get(double.remote(1)) == 2
        open(f"{folder}/open", "w").close()
    thread = threading.Thread(target=other)
    thread.start()
    assert ray.get(late) == "late"
    thread.join()
    """,
    "timeouts in many threads": """
    never = when.options(num_cpus=0).remote(sys.argv[1] + "/never", 0)
    def work(index):
        for _ in range(5):
            try:
                ray.get(never, timeout=0.02)
            except ray.exceptions.GetTimeoutError:
                continue
            raise AssertionError
    together(work, 6)
    assert ray.get(double.remote(2)) == 4
    """,
    "thread pool": """
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: ray.get(double.remote(i)), range(200))) == [2 * i for i in range(200)]
    """,
    "daemon thread that outlives the main thread": """
    never = when.options(num_cpus=0).remote(sys.argv[1] + "/never", 0)
    threading.Thread(target=ray.get, args=(never,), daemon=True).start()
    assert ray.get(double.remote(2)) == 4
    """,
    "thread that continues after the main thread's end": """
    main = threading.main_thread()
    def work():
        main.join()
        assert ray.get([double.remote(i) for i in range(20)]) == [2 * i for i in range(20)]
        print("worked on", flush=True)
    threading.Thread(target=work).start()
    """,
    "futures": """
    futures = [double.remote(i).future() for i in range(100)]
    done = concurrent.futures.wait(futures, timeout=20)
    assert sorted(each.result() for each in done.done) == [2 * i for i in range(100)]
    """,
    "await": """
    async def main():
        assert await double.remote(1) == 2
        assert await asyncio.gather(*[double.remote(i) for i in range(300)]) == [2 * i for i in range(300)]
        assert sorted([await each for each in asyncio.as_completed([same(double.remote(i)) for i in range(50)])]) == [
            2 * i for i in range(50)
        ]
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, ray.get, double.remote(4)) == 8
        assert await asyncio.wait_for(double.remote(5), 20) == 10
        assert await asyncio.to_thread(lambda: ray.get(double.remote(6))) == 12
        counter = Counter.remote()
        assert [await counter.add.remote() for _ in range(5)] == [1, 2, 3, 4, 5]
    for _ in range(3):
        asyncio.run(main())
    assert ray.get(double.remote(7)) == 14
    """,
    "get that blocks in a coroutine": """
    async def main():
        assert ray.get(double.remote(1)) == 2
        ref = double.remote(2)
        ready, _ = ray.wait([ref])
        assert ready == [ref] and await ref == 4
    asyncio.run(main())
    """,
    "awaiting task is cancelled and the ref lives on": """
    path = sys.argv[1] + "/open"
    async def main():
        ref = when.remote(path, "value")
        waiting = [asyncio.ensure_future(same(ref)) for _ in range(3)]
        while not ref._waiters or len(ref._waiters) < 3:
            await asyncio.sleep(0)
        waiting[0].cancel()
        try:
            await waiting[0]
        except asyncio.CancelledError:
            pass
        try:
            await asyncio.wait_for(same(ref), 0.05)
        except asyncio.TimeoutError:
            pass
        open(path, "w").close()
        assert await asyncio.gather(*waiting[1:]) == ["value", "value"]
        assert await ref == "value"
    asyncio.run(main())
    """,
    "loop that ends before its ref is there": """
    path = sys.argv[1] + "/open"
    ref = when.remote(path, "value")
    async def impatient():
        asyncio.ensure_future(same(ref))
        await asyncio.sleep(0)
    asyncio.run(impatient())
    open(path, "w").close()
    assert ray.get(ref) == "value"
    assert asyncio.run(same(ref)) == "value"
    """,
    "event loops in threads": """
    async def main(index):
        for i in range(20):
            assert await asyncio.gather(double.remote(i), double.remote(index)) == [2 * i, 2 * index]
    together(lambda index: asyncio.run(main(index)), 5)
    """,
    "loop of the main thread continues while refs are awaited": """
    path = sys.argv[1] + "/open"
    async def main():
        turns = 0
        ref = asyncio.ensure_future(same(when.remote(path, 1)))
        while not ref.done():
            turns += 1
            if turns == 100:
                open(path, "w").close()
            await asyncio.sleep(0.001)
        assert turns >= 100 and ref.result() == 1
    asyncio.run(main())
    """,
    "async for over a stream": """
    @ray.remote
    def numbers():
        for i in range(200):
            yield i
    async def main():
        got = [await ref async for ref in numbers.remote()]
        assert got == list(range(200))
    asyncio.run(main())
    asyncio.run(main())
    """,
    "signal of a child reaches asyncio": """
    async def main():
        ref = double.remote(1)
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(5)", stdout=asyncio.subprocess.PIPE)
        out, _ = await child.communicate()
        assert out.strip() == b"5" and await ref == 2
    asyncio.run(main())
    """,
    "init and shutdown in a thread": """
    ray.shutdown()
    def work(index):
        ray.init(START)
        assert ray.get(double.remote(1)) == 2
        ray.shutdown()
    together(work, 1)
    assert not ray.is_initialized()
    assert ray.get(double.remote(1)) == 2
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_driver(what: str, run: Callable[..., Program], tmp_path: object) -> None:
    done = run(SETUP + PROGRAMS[what], str(tmp_path))
    assert "Traceback" not in done.err, done.story()
    if "worked on" in PROGRAMS[what]:
        assert "worked on" in done.out
