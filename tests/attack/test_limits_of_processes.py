"""Limits of processes and threads (ulimit -u): each error is one sentence with the remedy, and the session continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.limits import as_another_user, run_under

PARTS = '("cannot start more processes", "(ulimit -u)", "this user may have at most")'


@pytest.mark.parametrize("most", [1, 2])
def test_a_start_without_enough_processes(most: int, tmp_path: Path) -> None:
    output = run_under(
        tmp_path,
        f"""
        import errno, resource
        try:
            ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)
            raise AssertionError("it could start")
        except OSError as error:
            assert error.errno == errno.EAGAIN, error
            for part in {PARTS}: assert part in str(error), error
        assert not ray.is_initialized()
        resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)
        @ray.remote
        def one(): return 1
        assert ray.get(one.remote(), timeout=60) == 1
        """,
        *as_another_user(tmp_path),
        shell=f"ulimit -Su {most}",
    )
    assert "Traceback" not in output, output


@pytest.mark.parametrize(
    "most", [4, *(pytest.param(each, marks=pytest.mark.attack) for each in (3, 5, 6, 7, 8, 9))]
)
def test_tasks_without_enough_processes(most: int, tmp_path: Path) -> None:
    """Some of these limits allow a worker, some only the driver. After the limit is raised, everything works."""
    output = run_under(
        tmp_path,
        f"""
        import resource
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)
        @ray.remote(max_retries=0)
        def one():
            print("working")
            return 1
        for _ in range(5):
            try:
                assert ray.get(one.remote(), timeout=60) == 1
            except ray.exceptions.RaySystemError as error:
                for part in {PARTS}: assert part in str(error), error
        assert ray.get(ray.put(2)) == 2
        resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
        for pid in open(f"/proc/self/task/{{__import__('os').getpid()}}/children").read().split():
            resource.prlimit(int(pid), resource.RLIMIT_NPROC, (100, 100))
        assert ray.get([one.remote() for _ in range(20)], timeout=60) == [1] * 20
        """,
        *as_another_user(tmp_path),
        shell=f"ulimit -Su {most}",
    )
    assert "Traceback" not in output, output


def test_more_actors_than_processes(tmp_path: Path) -> None:
    output = run_under(
        tmp_path,
        f"""
        import collections
        from waiting import wait_for
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)
        @ray.remote(num_cpus=0)
        class Small:
            def one(self): return 1
        first = Small.remote()
        assert ray.get(first.one.remote(), timeout=60) == 1
        actors = [Small.remote() for _ in range(40)]
        ended = collections.Counter()
        for actor in actors:
            try:
                ended[ray.get(actor.one.remote(), timeout=60)] += 1
            except ray.exceptions.RaySystemError as error:
                for part in {PARTS}: assert part in str(error), error
                ended["refused"] += 1
        assert ended[1] and ended["refused"], ended
        assert ray.get(first.one.remote(), timeout=60) == 1
        del actors, actor
        def again():
            try: return ray.get(Small.remote().one.remote(), timeout=60) == 1
            except ray.exceptions.RaySystemError: return False
        wait_for(again, 20, "places of the actors that are gone")
        """,
        *as_another_user(tmp_path),
        shell="ulimit -u 20",
    )
    assert "Traceback" not in output, output


def test_an_actor_of_threads_that_can_have_none_works_off_its_calls(tmp_path: Path) -> None:
    run_under(
        tmp_path,
        """
        import os, resource
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)
        @ray.remote(max_concurrency=8)
        class Threads:
            def __init__(self):
                resource.setrlimit(resource.RLIMIT_NPROC, (1, 100))
            def one(self, x): return x
        actor = Threads.remote()
        assert ray.get([actor.one.remote(i) for i in range(30)], timeout=60) == list(range(30))
        """,
        *as_another_user(tmp_path),
    )


SPILLS = """
import resource
ray.init(num_cpus=1, num_gpus=0, object_store_memory=80 << 20)
@ray.remote
def one(): return 1
assert ray.get(one.remote(), timeout=60) == 1
resource.setrlimit(resource.RLIMIT_NPROC, (1, 100))
refs = [ray.put(bytes([i]) * (10 << 20)) for i in range(24)]
assert [ray.get(ref)[-1] for ref in refs] == list(range(24))
"""


def test_spilling_without_a_thread_for_it(tmp_path: Path) -> None:
    run_under(tmp_path, SPILLS, *as_another_user(tmp_path))
