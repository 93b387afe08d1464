"""Workers that read no messages, because they are stopped or hold the GIL in C code: others continue, and `force` ends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.programs import Program

SETUP = """
    import ctypes, os, signal, sys, threading, time
    from waiting import wait_for

    ray.init(START)
    folder = sys.argv[1]

    @ray.remote
    def quick(x):
        return x

    @ray.remote(num_cpus=0)
    class Actor:
        def __init__(self): self.n = 0
        def pid(self): return os.getpid()
        def add(self): self.n += 1; return self.n
        def hold(self): hold()

    def hold():
        '''Keep the GIL in C: PyDLL lets go of it for nobody.'''
        open(f"{folder}/{os.getpid()}", "w").close()
        ctypes.PyDLL(None).sleep(1000)

    def state(pid):
        try: return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
        except OSError: return "gone"

    def stop(pid):
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: state(pid) == "T", what="the worker to stop")

    def others_work():
        assert ray.get([quick.remote(i) for i in range(100)], timeout=20) == list(range(100))
        assert ray.get(Actor.remote().add.remote(), timeout=20) == 1

    def error_of(ref):
        try: ray.get(ref, timeout=20)
        except ray.exceptions.RayError as error: return error
        raise AssertionError("no error")
"""

PROGRAMS = {
    "a stopped actor continues": """
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    stop(pid)
    refs = [actor.add.remote() for _ in range(500)]
    others_work()
    assert ray.wait(refs, num_returns=1, timeout=0)[0] == []
    os.kill(pid, signal.SIGCONT)
    assert ray.get(refs, timeout=20) == list(range(1, 501))
    """,
    "a stopped actor is killed": """
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    stop(pid)
    ref = actor.add.remote()
    ray.kill(actor)
    assert isinstance(error_of(ref), ray.exceptions.ActorDiedError)
    wait_for(lambda: state(pid) == "gone", what="the end of the worker")
    others_work()
    """,
    "a stopped actor that nobody holds ends when it continues": """
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    stop(pid)
    del actor
    others_work()
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: state(pid) == "gone", what="the end of the worker")
    """,
    "a stopped actor takes much and the driver waits for nothing": """
    actor = Actor.options(max_concurrency=2).remote()
    pid = ray.get(actor.pid.remote())
    stop(pid)
    refs = [actor.add.options().remote() for _ in range(5_000)]
    others_work()
    os.kill(pid, signal.SIGCONT)
    assert len(set(ray.get(refs, timeout=20))) > 4_900
    """,
    "a driver that is stopped while threads of an actor answer": """
    @ray.remote(num_cpus=0, max_concurrency=2)
    class Answers:
        def __init__(self): self.count = 0
        def stop(self, pid, calls):
            def resume():
                wait_for(lambda: self.count == calls, what="all calls")
                os.kill(pid, signal.SIGCONT)
            stop(pid)
            threading.Thread(target=resume).start()
        def answer(self):
            self.count += 1
            return bytes(90_000)
    actor = Answers.remote()
    # More than a socket takes: the rest has to be written when the driver reads again, though no thread has more to say.
    refs = [actor.stop.remote(os.getpid(), 50), *(actor.answer.remote() for _ in range(50))]
    assert len(ray.get(refs, timeout=20)) == 51
    """,
    "a stopped worker dies": """
    @ray.remote(max_retries=0)
    def waits():
        open(f"{folder}/{os.getpid()}", "w").close()
        time.sleep(1000)
    ref = waits.remote()
    wait_for(lambda: os.listdir(folder), what="the worker to hold the GIL")
    pid = int(os.listdir(folder)[0])
    stop(pid)
    others_work()
    os.kill(pid, signal.SIGKILL)
    assert isinstance(error_of(ref), ray.exceptions.WorkerCrashedError)
    """,
    "tasks sent ahead to a stopped worker run elsewhere once it is ended": """
    ray.get([quick.remote(i) for i in range(200)])
    @ray.remote(max_retries=0)
    def stops(i):
        if i == 0: os.kill(os.getpid(), signal.SIGSTOP)
        return i
    ray.get([stops.remote(i) for i in range(1, 50)])
    refs = [stops.remote(i) for i in range(50)]
    # What was sent ahead waits with the worker: only it knows what it has begun, and it cannot be asked.
    ray.cancel(refs[0], force=True)
    assert ray.get(refs[1:], timeout=20) == list(range(1, 50))
    """,
    "a task that holds the GIL": """
    @ray.remote(max_retries=0)
    def holds(): hold()
    ref = holds.remote()
    wait_for(lambda: os.listdir(folder), what="the worker to hold the GIL")
    pid = int(os.listdir(folder)[0])
    others_work()
    ray.cancel(ref)  # nobody there can hear it
    assert ray.wait([ref], timeout=0.2)[0] == []
    ray.cancel(ref, force=True)
    assert isinstance(error_of(ref), (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError))
    wait_for(lambda: state(pid) == "gone", what="the end of the worker")
    others_work()
    """,
    "an actor that holds the GIL": """
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    refs = [actor.hold.remote(), actor.add.remote()]
    wait_for(lambda: os.listdir(folder), what="the worker to hold the GIL")
    others_work()
    ray.kill(actor)
    for ref in refs:
        assert isinstance(error_of(ref), ray.exceptions.ActorDiedError)
    wait_for(lambda: state(pid) == "gone", what="the end of the worker")
    """,
    "a large value from a worker that stops while it is read": """
    @ray.remote(num_cpus=0)
    class Holder:
        def make(self): return bytes(5 << 20)
        def pid(self): return os.getpid()
    holder = Holder.remote()
    ref, pid = holder.make.remote(), ray.get(holder.pid.remote())
    stop(pid)
    assert len(ray.get(ref, timeout=20)) == 5 << 20
    ray.kill(holder)
    assert len(ray.get(ref, timeout=20)) == 5 << 20
    """,
    "shutdown with stopped workers": """
    actors = [Actor.remote() for _ in range(3)]
    for pid in ray.get([actor.pid.remote() for actor in actors]): stop(pid)
    ray.shutdown()
    ray.init(START)
    others_work()
    """,
    "a stopped zygote": """
    from skate.client.session import session
    zygote = next(iter(session.host().pool.launchers.values())).pid
    actor = Actor.remote()
    assert ray.get(actor.add.remote()) == 1
    stop(zygote)
    later = Actor.remote()
    ref = later.add.remote()
    assert ray.get([actor.add.remote() for _ in range(100)], timeout=20) == list(range(2, 102))
    assert ray.wait([ref], timeout=0.1)[0] == []
    os.kill(zygote, signal.SIGCONT)
    assert ray.get(ref, timeout=20) == 1
    stop(zygote)  # the end of the session does not wait for it forever
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, run: Callable[..., Program], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    run(SETUP + PROGRAMS[what], str(folder))
