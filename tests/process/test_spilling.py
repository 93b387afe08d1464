"""Values that do not fit into memory go to disk and come back, regardless of their creator; nothing is left
when the session ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.programs import PATHS, Program, prepared

SETUP = """
    import json, os, sys, time
    import numpy as np
    from waiting import wait_for

    STORE = 80 << 20  # bytes; eight of the values below do not fit
    PART = 10 << 20

    def value(i):
        array = np.full(PART, i, np.uint8)
        array[-8:] = np.frombuffer(np.int64(i * 1_000_003).tobytes(), np.uint8)
        return array

    def right(array, i):
        return len(array) == PART and int(array[0]) == i and array[-8:].tobytes() == np.int64(i * 1_000_003).tobytes()

    def filled(kind):
        '''Put values until one is refused; return the refs of the others, and the error.'''
        refs = []
        try:
            while len(refs) < 60:
                refs.append(ray.put(value(len(refs))))
        except kind as error:
            return refs, str(error)
        raise AssertionError(f"{len(refs)} values were put")

    def start(**settings):
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=STORE, **settings)

    def blocks():
        '''Bytes in memory of the arena, and on disk in each nameless file of this process.'''
        found = {}
        for fd in os.listdir("/proc/self/fd"):
            try:
                path, at = os.readlink(f"/proc/self/fd/{fd}"), os.stat(f"/proc/self/fd/{fd}")
            except OSError:
                continue
            if path.endswith("(deleted)") and at.st_size >= STORE:
                found[at.st_ino] = (path, at.st_blocks * 512)
        arena = sum(size for path, size in found.values() if "skate-arena" in path)
        return arena, [size for path, size in found.values() if "skate-arena" not in path]
"""

PROGRAMS = {
    "four times the store, put and got back in each way": """
    start()
    refs = [ray.put(value(i)) for i in range(32)]
    arena, disk = blocks()
    assert arena < STORE + (8 << 20), arena
    assert sum(disk) >= 24 * PART, disk
    for i, ref in enumerate(refs):
        assert right(ray.get(ref), i)
    assert all(right(array, i) for i, array in enumerate(ray.get(refs))), "more than fits, at once"
    assert all(right(ray.get(refs[i]), i) for i in (31, 0, 17, 3)), "back and forth"
    """,
    "arguments and results of tasks and actors": """
    start()

    @ray.remote
    def made(i):
        return value(i)

    @ray.remote
    def checked(array, i):
        return right(array, i)

    @ray.remote
    class Keeper:
        def __init__(self):
            self.refs = []
        def take(self, array, i):
            self.refs.append(ray.put(array))
            return right(array, i)
        def check(self):
            return [right(ray.get(ref), i) for i, ref in enumerate(self.refs)]

    refs = [made.remote(i) for i in range(32)]
    assert all(ray.get([checked.remote(ref, i) for i, ref in enumerate(refs)]))
    keeper = Keeper.remote()
    assert all(ray.get([keeper.take.remote(ref, i) for i, ref in enumerate(refs)]))
    del refs
    assert all(ray.get(keeper.check.remote()))
    """,
    "many writers at once all come to their turn": """
    start()

    @ray.remote(num_cpus=0)
    class Writer:
        def write(self, base):
            refs = [ray.put(value(base + i)) for i in range(6)]
            return all(right(ray.get(ref), base + i) for i, ref in enumerate(refs))

    writers = [Writer.remote() for _ in range(6)]
    assert all(ray.get([writer.write.remote(10 * i) for i, writer in enumerate(writers)], timeout=120))
    """,
    "what is looked at is not moved": """
    start()
    seen = ray.get([ray.put(value(i)) for i in range(5)])
    before = [array.ctypes.data for array in seen]
    refs = [ray.put(value(i)) for i in range(5, 37)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs, 5))
    assert all(right(array, i) for i, array in enumerate(seen))
    assert [array.ctypes.data for array in seen] == before
    """,
    "what a worker looks at is not moved": """
    start()

    @ray.remote
    class Keeper:
        def keep(self, array, i):
            self.array, self.i, self.at = array, i, array.ctypes.data
        def check(self):
            return right(self.array, self.i) and self.array.ctypes.data == self.at

    keepers = [Keeper.remote() for _ in range(2)]
    ray.get([keeper.keep.remote(ray.put(value(i)), i) for i, keeper in enumerate(keepers)])
    refs = [ray.put(value(i)) for i in range(2, 34)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs, 2))
    assert all(ray.get([keeper.check.remote() for keeper in keepers]))
    """,
    "a value larger than the store": """
    start()
    small = ray.put(value(7))
    large = ray.put(np.arange(40 << 20, dtype=np.int64))
    assert right(ray.get(small), 7)
    array = ray.get(large)
    assert len(array) == 40 << 20 and (array[:: 1 << 20] == np.arange(40) * (1 << 20)).all()
    del array, large
    """,
    "disk is given back with the last ref": """
    start()
    refs = [ray.put(value(i)) for i in range(32)]
    assert sum(blocks()[1]) >= 24 * PART
    refs.clear()
    wait_for(lambda: sum(blocks()[1]) <= PART, what="blocks of the disk to be given back")
    """,
    "two folders are both used": """
    folders = [sys.argv[1] + "/a", sys.argv[1] + "/b"]
    config = json.dumps({"type": "filesystem", "params": {"directory_path": folders}})
    start(_system_config={"object_spilling_config": config})
    refs = [ray.put(value(i)) for i in range(32)]
    disk = blocks()[1]
    assert len(disk) == 2 and min(disk) >= 8 * PART, disk
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))
    assert [os.listdir(folder) for folder in folders] == [[], []]
    """,
    "a disk that is full from the start is an error that says so, and loses nothing": """
    start(_system_config={"local_fs_capacity_threshold": 1e-9})
    refs = [ray.put(value(i)) for i in range(7)]
    for _ in range(2):
        try:
            ray.put(value(0))
        except ray.exceptions.OutOfDiskError as error:
            text = str(error)
        assert "a value of 104" in text and "the disk of /" in text and "10 MiB are needed" in text, text
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))
    del refs[0]
    refs.append(ray.put(value(7)))
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs, 1))

    @ray.remote
    def made():
        return value(1)

    try:
        ray.get(made.remote())
    except ray.exceptions.RayError as error:
        assert "OutOfDiskError" in repr(error) + str(error), error
    """,
    "a disk that fills up in the middle of a copy loses nothing, and is used again once it has room": """
    import errno
    send, left = os.sendfile, [35 << 20]

    def sendfile(out, source, at, size):
        # A file system that promises blocks and does not have them, as some on a network do.
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sent = send(out, source, at, min(size, left[0], 1 << 20))
        left[0] -= sent
        return sent

    write = os.pwrite

    def pwrite(fd, data, at):
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(fd, memoryview(data)[: min(left[0], 1 << 20)], at)
        left[0] -= written
        return written

    os.sendfile, os.pwrite = sendfile, pwrite
    start()
    refs, text = filled(ray.exceptions.OutOfDiskError)
    assert left[0] <= 0 and 10 <= len(refs) < 14, (left, len(refs))
    assert "a value of 104" in text and "No space left on device" in text and "free space" in text, text
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs)), "nothing is lost"
    left[0] = 1 << 40

    def put_again():
        try:
            return [ray.put(value(len(refs) + i)) for i in range(7)]
        except ray.exceptions.OutOfDiskError:
            return None

    refs += wait_for(put_again, what="the disk to be used again")
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))
    """,
    "a limit on the size of files is a full store": """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (240 << 20, 240 << 20))
    start()
    refs, text = filled(ray.exceptions.ObjectStoreFullError)
    assert "are the limit" in text, text
    assert 20 < len(refs) < 40, len(refs)
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))
    del refs[:10]
    refs += [ray.put(value(i)) for i in range(len(refs) + 10, len(refs) + 15)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs, 10))
    """,
}

OUTSIDE = {
    "by fsspec": "",
    "by pyarrow": """
    sys.modules["fsspec"] = None
    """,
}

OUTSIDE_PROGRAM = """
    place = sys.argv[1]
    files = lambda: [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names]
    config = json.dumps({"type": "smart_open", "params": {"uri": "file://" + place}})
    start(_system_config={"object_spilling_config": config})

    @ray.remote
    def made(i):
        return value(i)

    refs = [ray.put(value(i)) for i in range(24)]
    results = [made.remote(24 + i) for i in range(8)]
    ray.wait(results, num_returns=8)
    ray.get([ray.put(value(i)) for i in range(7)])
    assert 0 < len(files()) <= 32
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs + results))
"""

DAMAGE = {
    "cut off": "os.truncate(name, PART // 2)",
    "altered": "data = bytearray(open(name, 'rb').read()); data[len(data) // 2] ^= 1; open(name, 'wb').write(data)",
    "deleted": "os.unlink(name)",
}

KILLED = """
    start(object_spilling_directory=sys.argv[1])
    refs = []
    print("started", flush=True)
    while True:
        refs.append(ray.put(value(len(refs) % 256)))
        if len(refs) == 30:
            print("spilling", flush=True)
        if len(refs) > 60:
            del refs[:20]
"""

TWO_NODES = """
    from skate.cluster_utils import Cluster
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
    cluster.add_node(num_cpus=1, resources={"there": 100}, object_store_memory=STORE)
    ray.init(address=cluster.address)

    @ray.remote(resources={"there": 1})
    def made(i):
        return value(i)

    @ray.remote(resources={"there": 1})
    def checked(array, i):
        return right(array, i)

    refs = [made.remote(i) for i in range(24)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs)), "they come here"
    mine = [ray.put(value(i)) for i in range(24)]
    assert all(ray.get([checked.remote(ref, i) for i, ref in enumerate(mine)])), "they go there"
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_that_do_not_fit(name: str, run: Callable[..., Program], tmp_path: Path) -> None:
    run(SETUP + PROGRAMS[name], str(tmp_path / "place"), TMPDIR=str(tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "program" not in str(path.parent)]


def test_values_of_two_nodes(run: Callable[..., Program]) -> None:
    run(SETUP + TWO_NODES)


@pytest.mark.parametrize("how", OUTSIDE)
def test_storage_outside(how: str, run: Callable[..., Program], tmp_path: Path) -> None:
    pytest.importorskip("fsspec" if how == "by fsspec" else "pyarrow")
    place = tmp_path / "place"
    place.mkdir()
    text = """
    refs.clear()
    results.clear()
    wait_for(lambda: not files(), what="copies outside to be deleted")
    refs = [ray.put(value(i)) for i in range(16)]
    """
    run(SETUP + OUTSIDE[how] + OUTSIDE_PROGRAM + text, str(place))
    assert not list(place.iterdir()), "the session has ended"


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_copy_is_a_lost_value_or_made_again(
    damage: str, run: Callable[..., Program], tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    place = tmp_path / "place"
    place.mkdir()
    text = f"""
    for name in files():
        {DAMAGE[damage]}
    lost = 0
    for i, ref in enumerate(refs):
        try:
            assert right(ray.get(ref), i)
        except ray.exceptions.ObjectLostError as error:
            lost += 1
            assert place in str(error) and ref.hex() in str(error), error
    assert lost >= 10, lost
    assert all(right(ray.get(ref), 24 + i) for i, ref in enumerate(results)), "these have tasks that make them again"
    """
    run(SETUP + OUTSIDE_PROGRAM + text, str(place))


@pytest.mark.parametrize("moment", ["started", "spilling"])
def test_a_driver_killed_while_it_spills_leaves_nothing(
    moment: str, program: Callable[..., Program], tmp_path: Path
) -> None:
    place = tmp_path / "place"
    driver = program(SETUP + KILLED, str(place))
    driver.wait_for_output(moment)
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.gone()
    assert list(place.iterdir()) == []


def test_a_killed_driver_leaves_nothing_in_a_storage_outside(
    program: Callable[..., Program], tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    place = tmp_path / "place"
    place.mkdir()
    driver = program(SETUP + KILLED.replace("sys.argv[1]", '"file://" + sys.argv[1]'), str(place))
    driver.wait_for_output("spilling")
    assert list(place.iterdir())
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.gone()
    assert list(place.iterdir()) == []


def test_a_full_disk_is_named_with_what_is_free(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    unshare = shutil.which("unshare")
    mount = ["-Urm", "sh", "-c", f'mount -t tmpfs -o size=100m none {disk} && exec "$@"', "sh"]
    if unshare is None or subprocess.run([unshare, *mount, "true"], capture_output=True).returncode:
        pytest.skip("only where a small disk can be mounted")
    text = """
    start(object_spilling_directory=sys.argv[1], _system_config={"local_fs_capacity_threshold": 1.0})
    refs, text = filled(ray.exceptions.OutOfDiskError)
    assert f"the disk of {sys.argv[1]} has" in text and "free, but 10 MiB are needed" in text, text
    assert 14 <= len(refs) <= 18, len(refs)
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs)), "nothing is lost"
    del refs[:4]
    refs += [ray.put(value(i)) for i in range(len(refs) + 4, len(refs) + 7)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs, 4))
    """
    path = tmp_path / "program.py"
    path.write_text(prepared(SETUP + text))
    ended = subprocess.run(
        [unshare, *mount, sys.executable, str(path), str(disk)],
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
