"""Memory of large values: freed, kept while a view exists, and returned to the system when it is unused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import gc, os, sys, time, threading
    from waiting import Gate, wait_for

    ray.init(num_cpus=2, num_gpus=0, object_store_memory=2**30)

    def resident():
        '''Bytes of the arena that have memory behind them.'''
        for fd in os.listdir("/proc/self/fd"):
            try:
                if "skate-arena" in os.readlink(f"/proc/self/fd/{fd}"):
                    return os.stat(f"/proc/self/fd/{fd}").st_blocks * 512
            except OSError:
                continue

    @ray.remote
    def make(size):
        return bytes(size)

    @ray.remote
    def length(value):
        return len(value)
"""

PROGRAMS = {
    "fifty puts of 100 MB in 1 GB": """
    value = bytes(100 << 20)
    for _ in range(50):
        ref = ray.put(value)
    assert resident() < 350 << 20, resident()
    """,
    "fifty results of 100 MB": """
    for _ in range(20):
        ref = make.remote(100 << 20)
        assert len(ray.get(ref)) == 100 << 20
    assert resident() < 400 << 20, resident()
    """,
    "arguments are freed after the call": """
    value = bytes(100 << 20)
    for _ in range(20):
        assert ray.get(length.remote(value)) == 100 << 20
    assert resident() < 400 << 20, resident()
    """,
    "refs that go in another thread or a cycle": """
    value = bytes(100 << 20)
    for _ in range(15):
        class Node: pass
        node = Node()
        node.me = node
        node.ref = ray.put(value)
        del node
        gc.collect()
    for _ in range(15):
        refs = [ray.put(value)]
        thread = threading.Thread(target=refs.clear)
        thread.start()
        thread.join()
    assert resident() < 400 << 20, resident()
    """,
    "a view outlives its ref": """
    import numpy
    first = numpy.arange(10_000_000)
    ref = ray.put(first)
    view = ray.get(ref)
    part = view[5_000_000:]
    del ref, view
    for i in range(30):
        ray.put(numpy.full(10_000_000, i))
    assert (part == first[5_000_000:]).all()
    assert not part.flags.writeable
    """,
    "views in a worker outlive the call": """
    import numpy
    @ray.remote
    class Keeper:
        def keep(self, array):
            self.part = array[-10:]
        def get(self):
            return self.part.tolist()
    keeper = Keeper.remote()
    ref = ray.put(numpy.arange(10_000_000))
    ray.get(keeper.keep.remote(ref))
    del ref
    for i in range(30):
        ray.put(numpy.full(10_000_000, -1))
    assert ray.get(keeper.get.remote()) == list(range(9_999_990, 10_000_000))
    """,
    "idle memory goes back to the system": """
    value = bytes(100 << 20)
    kept = ray.put(b"kept" * 1_000_000)
    refs = [ray.put(value) for _ in range(5)]
    assert resident() > 500 << 20
    del refs
    wait_for(lambda: resident() < 50 << 20, what="idle memory to go back")
    assert ray.get(kept) == b"kept" * 1_000_000
    refs = [ray.put(value) for _ in range(5)]
    assert all(len(ray.get(ref)) == 100 << 20 for ref in refs)
    """,
    "what was waited for goes with its ref, without the help of the collector": """
    @ray.remote
    def slowly(size):
        time.sleep(0.3)  # so that the wait for it lasts
        return bytes(size)
    gc.collect()
    gc.disable()
    refs = [slowly.remote(100 << 20)]
    assert len(ray.get(refs)[0]) == 100 << 20
    refs.clear()
    wait_for(lambda: resident() < 50 << 20, what="idle memory to go back")
    """,
    "idle memory goes back while the driver waits": """
    @ray.remote
    def opened(path):
        Gate(path).wait()
    value = bytes(100 << 20)
    refs = [ray.put(value) for _ in range(4)]
    del refs
    def opens():
        wait_for(lambda: resident() < 50 << 20, what="idle memory to go back")
        Gate(sys.argv[1]).open()
    threading.Thread(target=opens).start()
    ray.get(opened.remote(sys.argv[1]), timeout=20)
    """,
    "idle sessions sleep": """
    ray.get([length.remote(b"x") for _ in range(100)])
    value = bytes(10 << 20)
    refs = [ray.put(value) for _ in range(4)]
    del refs
    wait_for(lambda: resident() < 5 << 20, what="idle memory to go back")
    def switches():
        return sum(
            int(line.split()[1])
            for thread in os.listdir("/proc/self/task")
            for line in open(f"/proc/self/task/{thread}/status")
            if line.startswith("voluntary")
        )
    # What runs to its end here: the rounds in which the rest is found to be too small to give back.
    quiet = 0
    deadline = time.monotonic() + 20
    while quiet < 3 and time.monotonic() < deadline:
        before = switches()
        time.sleep(0.5)
        quiet = quiet + 1 if switches() - before <= 4 else 0
    assert quiet == 3
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, run: Callable[..., Program], tmp_path: object) -> None:
    run(SETUP + PROGRAMS[what], str(tmp_path) + "/gate")
