"""Limits of address space, and of memory in a cgroup: the error names the request and the remedy, and smaller
requests work."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.limits import run_under

REQUESTS = """
import errno, os
descriptors = set(os.listdir("/proc/self/fd"))
for size in (1 << 31, 1 << 31):
    try:
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=size)
        raise AssertionError("it had room")
    except OSError as error:
        assert error.errno == errno.ENOMEM, error
        text = str(error)
        for part in ("shared memory of 2147483648 bytes (2 GiB)", "of address space (ulimit -v)", "smaller object_store_memory"):
            assert part in text, text
    assert not ray.is_initialized()
assert len(os.listdir("/proc/self/fd")) <= len(descriptors), "something stays open after a start that failed"
ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)

@ray.remote
def double(x): return 2 * x

@ray.remote
class Counter:
    def one(self): return 1

assert ray.get([double.remote(i) for i in range(20)], timeout=60) == list(range(0, 40, 2))
assert ray.get(Counter.remote().one.remote(), timeout=60) == 1
refs = [ray.put(bytes([i]) * (20 << 20)) for i in range(8)]
assert [ray.get(ref)[-1] for ref in refs] == list(range(8)), "more than fits, in a small space"
ray.shutdown()
"""


@pytest.mark.parametrize("kib", [500_000, 1_500_000])
def test_a_store_larger_than_the_address_space(kib: int, tmp_path: Path) -> None:
    run_under(tmp_path, REQUESTS, shell=f"ulimit -v {kib}")


WORKER = """
import resource
ray.init(num_cpus=1, num_gpus=0, object_store_memory=100 << 20, log_to_driver=False)

@ray.remote
def large():
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, limits[1]))
    try:
        return bytearray(2 << 30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)

@ray.remote
def small(): return 1

try:
    ray.get(large.remote(), timeout=60)
    raise AssertionError("it had room")
except MemoryError:
    pass
assert ray.get(small.remote(), timeout=60) == 1
"""


def test_a_task_that_takes_more_than_its_address_space_raises_memory_error(tmp_path: Path) -> None:
    run_under(tmp_path, WORKER)


def test_workers_that_cannot_map_the_store_are_an_error_that_says_so(tmp_path: Path) -> None:
    run_under(
        tmp_path,
        """
        import os, resource, subprocess
        ray.init(num_cpus=1, num_gpus=0, object_store_memory=600 << 20, log_to_driver=False)
        parents = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "pid="], capture_output=True, text=True)
        @ray.remote
        def small(): return 1
        own = [int(pid) for pid in parents.stdout.split()]
        before = {pid: resource.prlimit(pid, resource.RLIMIT_AS) for pid in own if os.path.exists(f"/proc/{pid}")}
        assert before, "the process that starts workers"
        for pid, (_, hard) in before.items():
            resource.prlimit(pid, resource.RLIMIT_AS, (400 << 20, hard))
        try:
            ray.get(small.remote(), timeout=60)
            raise AssertionError("it had room")
        except ray.exceptions.RaySystemError as error:
            text = str(error)
        assert "no worker could be started for it: shared memory of" in text and "(ulimit -v)" in text, text
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_AS, limits)
        assert ray.get(small.remote(), timeout=60) == 1
        """,
    )


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    """Create a cgroup (version 1 or 2) below that of this process, with a limit of 400 MiB."""
    roots = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]
    for root, name in zip(roots, ["memory.limit_in_bytes", "memory.max"], strict=True):
        made = root / f"skate-test-{uuid.uuid4().hex}"
        try:
            made.mkdir()
        except OSError:
            continue
        if (made / name).exists():
            try:
                (made / name).write_text(str(400 << 20))
            except OSError:
                made.rmdir()
                continue
            yield made
            made.rmdir()
            return
        made.rmdir()
    pytest.skip(
        "no cgroup with a limit of memory can be made here (it takes root, and the memory controller)"
    )


@pytest.mark.attack
def test_a_task_that_takes_more_than_its_cgroup_is_named(group: Path, tmp_path: Path) -> None:
    text = """
    import os, time
    ray.init(num_cpus=2, num_gpus=0, object_store_memory=80 << 20, log_to_driver=False)

    @ray.remote(max_retries=0)
    def hog():
        kept = []
        while True:
            kept.append(bytearray(os.urandom(1 << 20)) * 10)
            time.sleep(0.01)

    @ray.remote
    def modest(x): return x

    try:
        ray.get(hog.remote(), timeout=60)
        raise AssertionError("it had room")
    except ray.exceptions.OutOfMemoryError as error:
        assert "hog" in str(error) and "400 MiB" in str(error), error
    assert ray.get([modest.remote(i) for i in range(20)], timeout=60) == list(range(20))
    """
    run_under(tmp_path, text, shell=f"echo $$ > {group}/cgroup.procs")
    assert os.path.isdir(group)
