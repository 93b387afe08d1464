"""Workers that end in every possible way: attempts are counted exactly, and no queued call is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import ctypes, os, signal, sys, time, threading
    from ray_exceptions import *

    ray.init(START)
    folder = sys.argv[1]

    def tries(name="tries"):
        path = f"{folder}/{name}"
        return os.path.getsize(path) if os.path.exists(path) else 0

    def count(name="tries"):
        with open(f"{folder}/{name}", "ab") as file:
            file.write(b".")
        return tries(name)

    def opened(name):
        while not os.path.exists(f"{folder}/{name}"):
            time.sleep(0.002)

    def end(how):
        if how == "SIGKILL": os.kill(os.getpid(), signal.SIGKILL)
        elif how == "SIGSEGV": ctypes.string_at(0)
        elif how == "SIGABRT": os.abort()
        elif how == "SIGTERM": os.kill(os.getpid(), signal.SIGTERM)
        elif how == "code 3": os._exit(3)
        elif how == "code 0": os._exit(0)
        elif how == "thread": threading.Thread(target=os._exit, args=(4,)).start(); time.sleep(60)
        elif how == "channel":
            for fd in range(3, 64):
                try:
                    if os.readlink(f"/proc/self/fd/{fd}").startswith("socket"): os.close(fd)
                except OSError: pass
            time.sleep(60)

    @ray.remote
    def crash(how, name="tries"):
        count(name)
        open(f"{folder}/pid", "w").write(str(os.getpid()))
        end(how)

    @ray.remote
    def quick(x):
        return x

    def error_of(ref):
        try:
            ray.get(ref, timeout=20)
        except Exception as error:
            return error
        raise AssertionError("no error")
""".replace("    from ray_exceptions import *\n", "")

WAYS = {
    "SIGKILL": "SIGKILL",
    "SIGSEGV": "SIGSEGV",
    "SIGABRT": "SIGABRT",
    "SIGTERM": "SIGTERM",
    "code 3": "code 3",
    "code 0": "code 0",
    "thread": "code 4",
}


@pytest.mark.parametrize("how", [*WAYS, "channel"])
def test_attempts_are_counted_and_the_error_names_the_cause(
    how: str, run: Callable[..., Program], tmp_path: object
) -> None:
    done = run(
        SETUP
        + f"""
    for retries in (0, 2):
        name = f"tries{{retries}}"
        error = error_of(crash.options(max_retries=retries).remote({how!r}, name))
        assert isinstance(error, ray.exceptions.WorkerCrashedError), repr(error)
        assert tries(name) == retries + 1, tries(name)
        assert open(f"{{folder}}/pid").read() in str(error), error
        print(str(error).splitlines()[0])
    assert ray.get(quick.remote(1)) == 1
    """,
        str(tmp_path),
    )
    for line in done.lines:
        assert "crash" in line and "pid" in line and WAYS.get(how, "") in line, line


PROGRAMS = {
    "sys.exit in a task is an attempt that crashed": """
    @ray.remote(max_retries=1)
    def leaves(code):
        count()
        sys.exit(code)
    error = error_of(leaves.remote(5))
    assert isinstance(error, ray.exceptions.RayError), repr(error)
    assert ray.get(quick.remote(1)) == 1
    """,
    "tasks behind a crashed one lose no retry": """
    @ray.remote(max_retries=0)
    def short(i):
        count("short")
        return i
    @ray.remote(max_retries=0)
    def mixed(i):
        count("mixed")
        if i == 150:
            os._exit(1)
        return i
    assert ray.get([short.remote(i) for i in range(200)]) == list(range(200))
    refs = [mixed.remote(i) for i in range(300)]
    lost = []
    for i, ref in enumerate(refs):
        try:
            assert ray.get(ref, timeout=20) == i
        except ray.exceptions.WorkerCrashedError:
            lost.append(i)
    assert lost == [150], lost
    assert tries("mixed") == 300, tries("mixed")
    """,
    "crash after crash ahead of many": """
    @ray.remote(max_retries=0)
    def some(i):
        if i % 50 == 0:
            end("SIGKILL")
        return i
    refs = [some.remote(i) for i in range(400)]
    good = bad = 0
    for i, ref in enumerate(refs):
        try:
            assert ray.get(ref, timeout=30) == i
            good += 1
        except ray.exceptions.WorkerCrashedError:
            bad += 1
    assert (good, bad) == (392, 8), (good, bad)
    """,
    "retry that works": """
    @ray.remote(max_retries=3)
    def third_time(how):
        if count() < 3:
            end(how)
        return "done"
    assert ray.get(third_time.remote("SIGKILL")) == "done"
    assert tries() == 3
    """,
    "stopped worker continues": """
    @ray.remote
    def stops():
        open(f"{folder}/stopped", "w").write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        return "continued"
    ref = stops.remote()
    opened("stopped")
    pid = int(open(f"{folder}/stopped").read() or 0)
    while not pid or open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "T":
        pid = int(open(f"{folder}/stopped").read() or 0)
        time.sleep(0.002)
    assert ray.get([quick.remote(i) for i in range(50)]) == list(range(50))
    assert ray.wait([ref], timeout=0) == ([], [ref])
    os.kill(pid, signal.SIGCONT)
    assert ray.get(ref, timeout=20) == "continued"
    """,
    "stopped worker can be killed": """
    @ray.remote(max_retries=0)
    def stops():
        os.kill(os.getpid(), signal.SIGSTOP)
    ref = stops.remote()
    while ray.util.__name__ and not ray.wait([quick.remote(1)])[0]: pass
    ray.cancel(ref, force=True)
    assert isinstance(error_of(ref), (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError))
    """,
    "exception in __del__": """
    class Bad:
        def __del__(self):
            raise ValueError("in __del__")
    @ray.remote
    def makes():
        Bad()
        return os.getpid()
    @ray.remote
    def returns():
        bad = Bad()
        bad.me = bad
        return 1
    assert ray.get(makes.remote()) and ray.get(returns.remote()) == 1
    assert ray.get(quick.remote(1)) == 1
    """,
    "streams closed by user code": """
    @ray.remote
    class Closing:
        def prints(self):
            print("x")
        def closes(self, what):
            return closes(what)
    def closes(what):
        if what == "fd": os.close(1); os.close(2)
        elif what == "stdout": sys.stdout.close(); sys.stderr.close()
        else: sys.stdout = sys.stderr = None
        return os.getpid()
    for what in ("fd", "stdout", "none"):
        actor = Closing.remote()
        pid = ray.get(actor.closes.remote(what))
        try: ray.get(actor.prints.remote())
        except ray.exceptions.RayTaskError as error: assert isinstance(error, (ValueError, OSError)), error
        try: assert ray.get(actor.closes.remote("none")) == pid
        except ray.exceptions.RayTaskError as error: raise AssertionError(what) from error
    @ray.remote
    def task_closes(what):
        return closes(what)
    ray.get(task_closes.remote("stdout"))
    assert ray.get([quick.remote(i) for i in range(20)]) == list(range(20))
    """,
    "failing task closes nothing": """
    @ray.remote
    def fails():
        sys.stdout.close()
        raise KeyError("k")
    try: ray.get(fails.remote())
    except KeyError as error: assert "k" in str(error)
    assert ray.get(quick.remote(1)) == 1
    """,
    "actor that dies": """
    @ray.remote
    class Actor:
        def pid(self): return os.getpid()
        def end(self, how): count(); end(how)
        def slow(self): opened("open")
    for how, words in (("SIGKILL", "SIGKILL"), ("code 3", "code 3"), ("SIGSEGV", "SIGSEGV")):
        actor = Actor.remote()
        pid = ray.get(actor.pid.remote())
        refs = [actor.end.remote(how), actor.pid.remote(), actor.pid.remote()]
        for ref in refs:
            error = error_of(ref)
            assert isinstance(error, ray.exceptions.ActorDiedError), repr(error)
            assert words in str(error) and str(pid) in str(error), error
        assert isinstance(error_of(actor.pid.remote()), ray.exceptions.ActorDiedError)
    assert tries() == 3, tries()
    """,
    "actor that restarts": """
    @ray.remote(max_restarts=2, max_task_retries=1)
    class Actor:
        def __init__(self): count("made")
        def pid(self): return os.getpid()
        def end(self, how): count(); end(how)
    actor = Actor.remote()
    first = ray.get(actor.pid.remote())
    refs = [actor.end.remote("SIGKILL"), actor.pid.remote()]
    assert isinstance(error_of(refs[0]), (ray.exceptions.ActorUnavailableError, ray.exceptions.ActorDiedError))
    assert tries() == 2, tries()
    assert ray.get(refs[1], timeout=20) != first
    assert tries("made") == 3, tries("made")
    assert isinstance(error_of(actor.end.remote("code 3")), ray.exceptions.ActorDiedError)
    assert tries() == 3 and tries("made") == 3, (tries(), tries("made"))
    """,
    "kill of an actor with calls under way": """
    @ray.remote
    class Actor:
        def slow(self): open(f"{folder}/begun", "w").close(); opened("never")
        def quick(self): return 1
    actor = Actor.remote()
    refs = [actor.slow.remote(), actor.quick.remote()]
    opened("begun")
    ray.kill(actor)
    for ref in refs:
        assert isinstance(error_of(ref), ray.exceptions.ActorDiedError)
    """,
    "crash while writing a large result frees it": """
    @ray.remote(max_retries=0)
    def big(die):
        data = bytes(50 << 20)
        if die: end("SIGKILL")
        return data
    for _ in range(12):
        assert isinstance(error_of(big.remote(True)), ray.exceptions.WorkerCrashedError)
    for _ in range(12):
        assert len(ray.get(big.remote(False))) == 50 << 20
    """,
    "worker that held a put ref dies": """
    @ray.remote
    class Holder:
        def make(self): self.ref = ray.put(bytes(60 << 20)); return 1
        def give(self): return [self.ref]
    for _ in range(8):
        holder = Holder.remote()
        ray.get(holder.make.remote())
        inner = ray.get(holder.give.remote())[0]
        ray.kill(holder)
        assert len(ray.get(inner)) == 60 << 20
        del inner
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_worker(what: str, run: Callable[..., Program], tmp_path: object) -> None:
    run(SETUP + PROGRAMS[what], str(tmp_path))


def test_a_setup_hook_that_raises_fails_what_needs_it(run: Callable[..., Program]) -> None:
    done = run(
        """
        def hook():
            raise ValueError("no licence")
        ray.init(START, runtime_env={"worker_process_setup_hook": hook})
        try:
            ray.get(ray.remote(lambda: 1).remote(), timeout=60)
        except ray.exceptions.RuntimeEnvSetupError as error:
            print("no licence" in str(error))
        """
    )
    assert done.lines[-1] == "True"
