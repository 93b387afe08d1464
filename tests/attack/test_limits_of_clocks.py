"""The wall clock jumps by hours, forwards and backwards (libfaketime), as after a correction or a suspend: no wait ends early or
late, and no duration is negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.limits import run_under

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))

SETUP = """
import os, threading, time
real = time.time()

def rest(seconds):
    '''Sleep; libfaketime misleads `time.sleep`, whose deadline of the monotonic clock it takes for one of the wall clock.'''
    threading.Event().wait(seconds)

def jump(hours):
    with open(os.environ["FAKETIME_TIMESTAMP_FILE"] + ".new", "w") as file:
        file.write(f"{hours:+d}h")
    os.replace(file.name, os.environ["FAKETIME_TIMESTAMP_FILE"])
    assert abs(time.time() - real - 3600 * hours) < 600, (time.time() - real, hours)

def jumping(stop):
    while not stop.is_set():
        for hours in (5, -7, 0):
            jump(hours)
            stop.wait(0.05)

class Jumps:
    '''The clock jumps all the time.'''
    def __enter__(self):
        self.stop = threading.Event()
        self.thread = threading.Thread(target=jumping, args=(self.stop,))
        self.thread.start()
    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

class Took:
    def __init__(self, least, most):
        self.least, self.most = least, most
    def __enter__(self):
        self.begun = time.monotonic()
    def __exit__(self, *_):
        took = time.monotonic() - self.begun
        assert self.least <= took <= self.most, took

ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20, log_to_driver=False)
"""

PROGRAMS = {
    "waits with a timeout": """
    @ray.remote
    def seen():
        return time.time() - real
    jump(5)
    assert abs(ray.get(seen.remote(), timeout=60) - 5 * 3600) < 600, "workers see the jump"

    @ray.remote
    class Actor:
        def rests(self, seconds):
            rest(seconds)
            return seconds
    actor = Actor.remote()
    with Jumps():
        slow = actor.rests.remote(4)
        with Took(0.9, 3): assert ray.wait([slow], timeout=1) == ([], [slow])
        with Took(0.9, 3):
            try: ray.get(slow, timeout=1); raise AssertionError("it was done")
            except ray.exceptions.GetTimeoutError: pass
        with Took(0.9, 30): assert ray.get(slow, timeout=30) == 4
        assert ray.get([actor.rests.remote(0.001) for _ in range(100)], timeout=60) == [0.001] * 100
    """,
    "a queue, a retry and a task that is cancelled": """
    from skate.util.queue import Empty, Queue
    queue = Queue()
    @ray.remote(max_retries=3, retry_exceptions=True)
    def fails(path):
        with open(path, "a") as file: file.write(".")
        assert os.path.getsize(path) == 3
        return "done"
    @ray.remote
    def rests(): rest(600)
    with Jumps():
        with Took(0.9, 5):
            try: queue.get(timeout=1); raise AssertionError("there was something")
            except Empty: pass
        assert ray.get(fails.remote(os.environ["PLACE"]), timeout=60) == "done"
        ref = rests.remote()
        ray.wait([ref], timeout=0.3)
        with Took(0, 10):
            ray.cancel(ref)
            try: ray.get(ref, timeout=30)
            except ray.exceptions.TaskCancelledError: pass
    """,
    "a run of Tune with a budget of time": """
    from skate import tune
    def trial(config):
        for step in range(5):
            rest(0.1)
            tune.report({"score": step})
    with Jumps(), Took(0.5, 60):
        results = tune.Tuner(
            trial,
            param_space={"x": tune.grid_search([1, 2, 3])},
            tune_config=tune.TuneConfig(time_budget_s=900, metric="score", mode="max"),
            run_config=tune.RunConfig(storage_path=os.environ["PLACE"], name="run", verbose=0, stop={"time_total_s": 600}),
        ).fit()
    assert not results.errors and [each.metrics["score"] for each in results] == [4, 4, 4]
    for each in results:
        assert 0.4 <= each.metrics["time_total_s"] < 60, each.metrics
        assert (each.metrics_dataframe["time_this_iter_s"] >= 0).all(), each.metrics_dataframe
    """,
    "requests to Serve": """
    import socket, urllib.request
    from skate import serve
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    scaling = {"min_replicas": 1, "max_replicas": 2, "downscale_delay_s": 600}
    @serve.deployment(autoscaling_config=scaling, health_check_period_s=0.2)
    class Main:
        async def __call__(self, request=None):
            return str(os.getpid())
        def rests(self, seconds):
            rest(seconds)
            return seconds
    serve.start(http_options={"port": port, "request_timeout_s": 20})
    handle = serve.run(Main.bind(), name="app", route_prefix="/")
    ask = lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).read()
    first = ask()
    with Jumps():
        answers = {ask() for _ in range(150)}
        with Took(0.9, 5):
            try: handle.rests.remote(3).result(timeout_s=1); raise AssertionError("it was done")
            except TimeoutError: pass
        assert handle.rests.remote(0.01).result(timeout_s=30) == 0.01
        assert serve.status().applications["app"].status == "RUNNING"
    assert answers == {first}, "a replica was replaced"
    serve.shutdown()
    """,
}


@pytest.fixture
def swept() -> Iterator[None]:
    """Remove the files that libfaketime leaves in shared memory for each killed process."""
    yield
    for left in Path("/dev/shm").glob("*faketime_s*_*"):
        if not Path(f"/proc/{left.name.rpartition('_')[2]}").exists():
            left.unlink(missing_ok=True)


@pytest.mark.skipif(not LIBRARIES, reason="libfaketime is not installed; `make faketime` does it on Debian")
@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize(
    "what",
    [each if each.startswith("waits") else pytest.param(each, marks=pytest.mark.attack) for each in PROGRAMS],
)
def test_the_wall_clock_jumps(what: str, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0h")
    run_under(
        tmp_path,
        "\n".join([SETUP, *(line.removeprefix("    ") for line in PROGRAMS[what].splitlines())]),
        LD_PRELOAD=str(LIBRARIES[0]),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
        DONT_FAKE_MONOTONIC="1",
        PLACE=str(tmp_path / "place"),
    )
