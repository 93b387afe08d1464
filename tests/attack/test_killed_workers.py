"""Workers are killed at random under load: no value is lost or wrong, and all CPUs are released."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.limits import run_under

SETUP = """
import os, random, signal, subprocess, threading, time
ray.init(num_cpus=4, num_gpus=0, object_store_memory=100 << 20, log_to_driver=False)
COUNT, KILLS = int(os.environ["COUNT"]), int(os.environ["KILLS"])
drawn = random.Random(1)

def below(pid):
    try: children = [int(each) for each in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    except OSError: return []
    return [each for child in children for each in (child, *below(child))]

def workers():
    '''What the process that starts workers has started.'''
    return [each for child in below(os.getpid()) for each in below(child)]

class Killer(threading.Thread):
    '''Kills one worker after the other until it is told to stop, or has killed enough.'''
    def __init__(self):
        super().__init__()
        self.ended, self.killed = threading.Event(), 0
    def run(self):
        while self.killed < KILLS and not self.ended.wait(drawn.uniform(0.01, 0.08)):
            found = workers()
            if found:
                try: os.kill(drawn.choice(found), signal.SIGKILL)
                except ProcessLookupError: continue
                self.killed += 1
    def __enter__(self):
        self.start()
        return self
    def __exit__(self, *_):
        self.ended.set()
        self.join()

def all_free():
    deadline = time.monotonic() + 30
    while ray.available_resources().get("CPU") != 4.0:
        assert time.monotonic() < deadline, ray.available_resources()
        time.sleep(0.01)
"""
PROGRAMS = {
    "tasks": """
    @ray.remote(max_retries=50)
    def double(x):
        if x % 20 == 0: time.sleep(0.005)
        return 2 * x
    with Killer() as killer:
        refs = [double.remote(i) for i in range(COUNT)]
        got = ray.get(refs, timeout=80)
        while killer.killed < 3:
            ray.get([double.remote(0) for _ in range(20)], timeout=60)
    assert got == [2 * i for i in range(COUNT)]
    print("killed", killer.killed)
    all_free()
    """,
    "actors": """
    @ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)
    class Adder:
        def add(self, x): return x + 1
    actors = [Adder.remote() for _ in range(4)]
    with Killer() as killer:
        for begin in range(0, COUNT, 500):
            refs = [actors[i % 4].add.remote(i) for i in range(begin, begin + 500)]
            assert ray.get(refs, timeout=80) == list(range(begin + 1, begin + 501))
        while killer.killed < 3:
            ray.get([each.add.remote(1) for each in actors], timeout=60)
    print("killed", killer.killed)
    del actors
    all_free()
    """,
    "large values": """
    import numpy as np
    @ray.remote(max_retries=50)
    def make(i): return np.full(1 << 18, i, np.uint8)
    @ray.remote(max_retries=50)
    def total(*parts): return sum(int(each[0]) * len(each) for each in parts)
    with Killer() as killer:
        for begin in range(0, COUNT, 100):
            parts = [make.remote(i % 100) for i in range(100)]
            sums = [total.remote(*parts[i : i + 10]) for i in range(0, 100, 10)]
            assert sum(ray.get(sums, timeout=80)) == sum(range(100)) << 18
    print("killed", killer.killed)
    all_free()
    """,
    "cancelled from three threads": """
    @ray.remote
    def rests(): time.sleep(600)
    @ray.remote
    def one(): return 1
    def storm(seed):
        for round in range(COUNT // 100):
            refs = [rests.remote() for _ in range(30)]
            for number, each in enumerate(refs): ray.cancel(each, force=(number + seed) % 5 == 0)
            for each in refs:
                try: ray.get(each, timeout=60); ended.append("a value")
                except (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError): pass
    ended = []
    threads = [threading.Thread(target=storm, args=(seed,)) for seed in range(3)]
    for each in threads: each.start()
    for each in threads: each.join()
    assert ended == []
    assert ray.get([one.remote() for _ in range(50)], timeout=60) == [1] * 50
    all_free()
    """,
    "a dataset that is sorted and grouped": """
    ray.data.DataContext.get_current().enable_progress_bars = False
    def slow(batch):
        time.sleep(0.01)
        batch["key"] = batch["id"] % 7
        return batch
    def make():
        return ray.data.range(20 * COUNT, override_num_blocks=20).map_batches(slow, batch_size=COUNT)
    with Killer() as killer:
        assert make().sum("id") == sum(range(20 * COUNT))
        rows = make().groupby("key").count().take_all()
        assert sum(each["count()"] for each in rows) == 20 * COUNT and len(rows) == 7
        first = make().sort("id", descending=True).take(3)
        assert [each["id"] for each in first] == [20 * COUNT - 1 - i for i in range(3)]
    print("killed", killer.killed)
    all_free()
    """,
}
LONG = {"a dataset that is sorted and grouped"}


def run(what: str, tmp_path: Path, count: int, kills: int) -> None:
    lines = [SETUP, *(line.removeprefix("    ") for line in PROGRAMS[what].splitlines())]
    print(run_under(tmp_path, "\n".join(lines), COUNT=str(count), KILLS=str(kills)))


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=pytest.mark.attack) if each in LONG else each for each in PROGRAMS]
)
def test_killed(what: str, tmp_path: Path) -> None:
    run(what, tmp_path, 2000 if what in ("tasks", "actors") else 300, 8)


@pytest.mark.attack
@pytest.mark.parametrize("what", ["tasks", "actors", "large values", "cancelled from three threads"])
def test_killed_for_long(what: str, tmp_path: Path) -> None:
    run(what, tmp_path, 40_000 if what in ("tasks", "actors") else 3000, 40)
