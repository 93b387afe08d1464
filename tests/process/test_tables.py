"""Repeated work in a long program fills no table of the driver, the node or the workers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import gc, os, sys, threading, time, weakref
    from waiting import wait_for
    ray.init(START)
    from skate.client.session import session
    core, process = session.host().core, session.current()

    def workers_known():
        return max(len(worker.known) for worker in core.scheduler.workers.values())
"""

PROGRAMS = {
    "a function for every call": """
    captured = ray.put(bytes(1 << 20))
    for n in range(1000):
        assert ray.get(ray.remote(lambda x: (captured, x + n)[1]).remote(1)) == n + 1
    for table in (core.functions, core.templates, core.scheduler.classes, process.exported):
        assert len(table) < 600, len(table)
    assert workers_known() < 600
    """,
    "options for every call": """
    @ray.remote
    def f(x):
        return x
    for n in range(1000):
        assert ray.get(f.options(name=f"f{n}", num_cpus=0.5 + n / 10_000).remote(n)) == n
    for table in (core.functions, core.templates, core.scheduler.classes, process.exported):
        assert len(table) < 600, len(table)
    """,
    "a class for every actor": """
    for n in range(150):
        class Own:
            def number(self): return n
            def other(self): return -n
        own = ray.remote(num_cpus=0)(Own).remote()
        assert ray.get([own.number.remote(), own.other.remote()]) == [n, -n]
    del own
    for table in (core.functions, core.templates, process.exported):
        assert len(table) < 450, len(table)
    wait_for(lambda: not process.actors, what="handles to go")
    """,
    "functions that are kept are kept": """
    kept = [ray.remote(lambda x, n=n: x + n) for n in range(5)]
    for f in kept: ray.get(f.remote(0))
    late = [ray.remote(lambda n=n: time.sleep(0.2) or n).remote() for n in range(4)]
    for n in range(700):
        ray.remote(lambda n=n: n).remote()
    assert ray.get(late) == [0, 1, 2, 3]
    assert [ray.get(f.remote(1)) for f in kept] == [1, 2, 3, 4, 5]
    """,
    "a worker that makes functions": """
    @ray.remote
    class Maker:
        def make(self):
            for n in range(700):
                assert ray.get(ray.remote(lambda x: x + n).remote(1)) == n + 1
            return len(session.current().exported)
    assert ray.get(Maker.remote().make.remote()) < 600
    assert len(core.functions) < 600
    """,
    "a ref goes as soon as nobody has it": """
    @ray.remote
    def make():
        time.sleep(0.002)
        return bytes(200_000)
    for n in range(60):
        ref = make.remote()
        assert len(ray.get(ref)) == 200_000
        weak = weakref.ref(ref)
        if n % 2:  # the background thread polls when the next one is waited for
            wait_for(lambda: process.pump._background_drives, what="the background thread to poll")
        del ref
        assert weak() is None, n
    wait_for(lambda: not core.objects.records and not process.known, what="freed objects")
    """,
    "a ref that another thread comes by while it ends": """
    release_later = type(process).release_later
    met = []
    def meets(self, any_id, grants):
        release_later(self, any_id, grants)
        with self.lock:  # as the background thread does when it wakes up at this moment
            found = self._adopt(any_id, 0) if not met else None
            met.append(found)
            self.tidy()
    type(process).release_later = meets
    ref = ray.put(bytes(200_000))
    oid = ref.binary()
    box = ray.put([ref, bytes(200_000)])
    del ref
    again = met[0]
    assert again.binary() == oid and len(ray.get(again)) == 200_000
    del again, box
    met[0] = None
    wait_for(lambda: not core.objects.records and not process.known, what="freed objects")
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, run: Callable[..., Program]) -> None:
    run(SETUP + PROGRAMS[what])
