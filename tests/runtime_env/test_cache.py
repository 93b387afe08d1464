"""The cache: one build for many requests, no removal of used entries, no failed entries."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env import cache as caches
from skate.runtime_env.cache import Cache
from skate.runtime_env.deadline import Deadline

FOREVER = Deadline(None)


def writer(text: str = "x", size_bytes: int = 0) -> Callable[[Path], None]:
    def build(path: Path) -> None:
        path.mkdir()
        (path / "file").write_text(text)
        (path / "fill").write_bytes(b"x" * size_bytes)

    return build


def never(path: Path) -> None:
    raise AssertionError(f"{path} was built again")


@pytest.mark.parametrize("in_place", [False, True])
def test_an_entry_is_built_once(cache: Cache, in_place: bool) -> None:
    path = cache.entry("trees", "k", writer("hello"), FOREVER, in_place=in_place)
    assert (path / "file").read_text() == "hello"
    assert cache.entry("trees", "k", never, FOREVER, in_place=in_place) == path
    cache.release(path)
    cache.release(path)
    assert cache.in_use() == []
    assert Cache(cache.root).entry("trees", "k", never, FOREVER) == path


@pytest.mark.parametrize("in_place", [False, True])
def test_a_failed_build_leaves_nothing_and_can_be_tried_again(cache: Cache, in_place: bool) -> None:
    def fail(path: Path) -> None:
        writer()(path)
        raise RuntimeEnvSetupError("no luck")

    with pytest.raises(RuntimeEnvSetupError, match="no luck"):
        cache.entry("trees", "k", fail, FOREVER, in_place=in_place)
    assert list((cache.root / "trees").iterdir()) == []
    assert cache.in_use() == []
    path = cache.entry("trees", "k", writer("hello"), FOREVER, in_place=in_place)
    assert (path / "file").read_text() == "hello"


@pytest.mark.parametrize("again", range(10))  # a waiter may be overtaken at any step
def test_threads_that_ask_at_once_get_one_build(cache: Cache, again: int) -> None:
    builds: list[Path] = []
    everybody = threading.Barrier(4)
    got: list[Path] = []

    def build(path: Path) -> None:
        builds.append(path)
        writer()(path)

    def ask() -> None:
        everybody.wait(10)
        got.append(cache.entry("trees", "k", build, FOREVER))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (len(builds), got) == (1, [cache.root / "trees" / "k"] * 4)
    for _ in range(3):
        cache.release(got[0])
    assert cache.in_use() == [got[0]]


HOLDER = """
import sys
from pathlib import Path
from skate.runtime_env.cache import Cache
from skate.runtime_env.deadline import Deadline
def build(path):
    path.mkdir()
    (path / "file").write_text("theirs")
    if sys.argv[3] == "building":
        print("ready", flush=True)
        sys.stdin.read()
cache = Cache(Path(sys.argv[1]))
cache.entry("trees", sys.argv[2].replace("SESSION", cache.session), build, Deadline(None), in_place=True)
print("ready", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that uses or builds an entry until it is killed."""

    def __init__(self, cache: Cache, key: str, doing: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(cache.root), key, doing],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def __enter__(self) -> Holder:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def test_what_another_process_uses_is_never_removed(cache: Cache) -> None:
    with Holder(cache, "k", "using") as holder:
        assert cache.prune(limit_bytes=0) == []
        assert (cache.root / "trees" / "k" / "file").read_text() == "theirs"
        holder.kill()
        assert cache.prune(limit_bytes=0) == [cache.root / "trees" / "k"]
    assert not (cache.root / "trees" / "k").exists()


def test_waiting_for_another_process_ends_with_the_time(cache: Cache) -> None:
    with Holder(cache, "k", "building"):
        with pytest.raises(RuntimeEnvSetupError, match="cut off while waiting for another process to finish"):
            cache.entry("trees", "k", never, Deadline(0.05))
        stop = threading.Event()
        stop.set()
        with pytest.raises(RuntimeEnvSetupError, match="cancelled while waiting"):
            cache.entry("trees", "k", never, Deadline(None, stop))


def test_what_a_process_died_over_is_built_again(cache: Cache) -> None:
    with Holder(cache, "k", "building") as holder:
        holder.kill()
    path = cache.entry("trees", "k", writer("mine"), FOREVER, in_place=True)
    assert (path / "file").read_text() == "mine"


def test_what_a_dead_process_had_to_itself_goes_at_once(cache: Cache) -> None:
    with Holder(cache, "k~SESSION", "using") as holder:
        cache.prune()
        [theirs] = (cache.root / "trees").iterdir()
        holder.kill()
    cache.prune()
    assert not theirs.exists()
    assert list((cache.root / "locks").iterdir()) == []


def test_what_is_this_sessions_own_goes_with_its_last_user(cache: Cache) -> None:
    key = f"k~{cache.session}"
    path = cache.entry("work", key, writer(), FOREVER)
    cache.entry("work", key, never, FOREVER)
    cache.release(path)
    assert path.exists()
    cache.release(path)
    assert not path.exists()
    cache.entry("work", key, writer(), FOREVER)


def test_the_least_recently_used_go_first(cache: Cache) -> None:
    paths = {}
    for age, name in enumerate(["newest", "middle", "oldest"]):
        paths[name] = cache.entry("trees", name, writer(size_bytes=40_000), FOREVER)
        cache.release(paths[name])
        os.utime(cache.root / "locks" / f"trees-{name}", (1000 - age, 1000 - age))
    assert cache.prune(limit_bytes=100_000) == [paths["oldest"]]
    assert cache.prune(limit_bytes=100_000) == []
    cache.entry("trees", "middle", never, FOREVER)
    assert cache.prune(limit_bytes=0) == [paths["newest"]], "the middle one is in use"


def test_growing_over_the_limit_prunes(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit_bytes=50_000)
    old = cache.entry("trees", "old", writer(size_bytes=40_000), FOREVER)
    cache.release(old)
    new = cache.entry("trees", "new", writer(size_bytes=40_000), FOREVER)
    assert (old.exists(), new.exists()) == (False, True)
    cache.close()


def test_an_entry_that_somebody_deleted_is_built_again(cache: Cache) -> None:
    path = cache.entry("trees", "k", writer(), FOREVER)
    shutil.rmtree(cache.root)
    assert cache.entry("trees", "k", writer("again"), FOREVER) == path
    assert (path / "file").read_text() == "again"


def test_read_only_folders_can_be_removed(cache: Cache) -> None:
    path = cache.entry("trees", "k", writer(), FOREVER)
    path.chmod(0o500)
    cache.release(path)
    assert cache.prune(limit_bytes=0) == [path]


def test_only_the_user_may_look_into_it(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o777)
    cache = Cache(tmp_path / "cache")
    path = cache.entry("trees", "k", writer(), FOREVER)
    for folder in (cache.root, path.parent, cache.root / "locks"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    cache.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeEnvSetupError, match="SKATE_CACHE_DIR"):
        Cache(tmp_path / "file" / "cache")


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SKATE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert caches.default_root() == tmp_path / ".cache" / "skate" / "runtime_env"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert caches.default_root() == tmp_path / ".cache" / "skate" / "runtime_env"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert caches.default_root() == tmp_path / "xdg" / "skate" / "runtime_env"
    monkeypatch.setenv("SKATE_CACHE_DIR", str(tmp_path / "own"))
    assert caches.default_root() == tmp_path / "own" / "runtime_env"


def test_one_cache_a_folder(tmp_path: Path) -> None:
    assert caches.at(tmp_path / "a") is caches.at(tmp_path / "x" / ".." / "a")
    assert repr(caches.at(tmp_path / "a")) == f"<Cache {tmp_path / 'a'}, 0 in use>"
