"""The leak check of every test: nothing that Skate started or created outlives its session.

After each test and after each module, once no session runs any more, the processes, descriptors, threads and
files of this run are compared with those of before. A test that shares a cluster with its neighbours is
compared where that cluster ends: at the end of its module, or of the run. Nothing here imports Skate, so the
conformance tests can load it where only real Ray is installed.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.quick import is_quick

# The same examples in every run: a change is judged by what it changes. New ones come from raising max_examples. No
# example has a deadline: a loaded machine is no failure.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")

# A shell without job control has its background jobs ignore Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Inherited by every process that a test starts, so that one which lost its parent is still found.
RUN_MARK = f"SKATE_TEST_RUN={os.getpid()}"
os.environ["SKATE_TEST_RUN"] = str(os.getpid())

# A folder for this run's temporary files, so that a session elsewhere on the machine is not taken for a leak.
# pytest keeps its own where it always does, for a look after a failure.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
TEMPORARY = Path(tempfile.mkdtemp(prefix="st-"))
os.environ["TMPDIR"] = tempfile.tempdir = str(TEMPORARY)
atexit.register(shutil.rmtree, TEMPORARY, ignore_errors=True)

# Processes and threads may take this long to end after shutdown() has returned on a loaded machine.
GRACE_S = 5.0
POLL_INTERVAL_S = 0.01

# Descriptors that only ever belong to a session; files and terminals come and go with pytest itself.
SESSION_DESCRIPTORS = (
    "socket:",
    "/memfd:",
    "pipe:",
    "anon_inode:[eventpoll]",
    "anon_inode:[eventfd]",
    "anon_inode:[pidfd]",
)
SHARED_FOLDERS = (Path("/dev/shm"), TEMPORARY)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m quick`, import no other files."""
    if config.option.markexpr != "quick" or not collection_path.match("test_*.py"):
        return None
    return None if is_quick(collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark quick tests. Select tests of DeepSpeed, long attacks and scenes only with their mark, such as `-m attack`."""
    for item in items:
        if is_quick(item.path):
            item.add_marker("quick")
        if item.path.parent.name == "vllm":
            item.add_marker("vllm")
    for mark in ("deepspeed", "attack", "cluster_scene", "interpreters", "long", "ray_clients", "vllm"):
        if mark not in (config.option.markexpr or ""):
            left = [item for item in items if item.get_closest_marker(mark)]
            if left:
                config.hook.pytest_deselected(items=left)
                items[:] = [item for item in items if item not in left]


def session_running() -> bool:
    """True if a Skate session runs in this process; also false where Skate was never imported."""
    skate = sys.modules.get("skate")
    asks = getattr(skate, "is_initialized", None)
    return bool(asks is not None and asks())


def processes() -> dict[str, str]:
    """The living processes that this run started, whoever their parent is now: pid to command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if RUN_MARK.encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it ended meanwhile, or is another user's
            continue
        if state != "Z" and folder.name != str(os.getpid()):
            found[folder.name] = words
    return found


def descriptors() -> dict[str, str]:
    """The open descriptors of this process that could be a session's: number to what it is."""
    found = {}
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            what = os.readlink(entry)
        except OSError:  # the one that lists the folder
            continue
        if what.startswith(SESSION_DESCRIPTORS):
            found[f"{entry.name} {what}"] = what
    return found


def threads() -> dict[str, str]:
    """The living threads of this process that Skate named."""
    return {str(t.ident): t.name for t in threading.enumerate() if t.name.startswith("skate-")}


def files() -> dict[str, str]:
    """The files under Skate's name in shared memory and in the folder for temporary files."""
    found = {}
    for folder in SHARED_FOLDERS:
        if folder.is_dir():
            found |= {str(folder / name): name for name in os.listdir(folder) if name.startswith("skate-")}
    return found


KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "processes": processes,
    "descriptors": descriptors,
    "threads": threads,
    "files": files,
}

State = dict[str, dict[str, str]]


def state() -> State:
    return {kind: look() for kind, look in KINDS.items()}


def leaks(before: State) -> dict[str, list[str]]:
    """The new processes, descriptors, threads and files, by kind; empty as soon as all are gone."""
    found = {}
    for kind, look in KINDS.items():
        new = [f"{key} {text}" for key, text in look().items() if key not in before[kind]]
        if new:
            found[kind] = new
    return found


def assert_nothing_left(before: State, where: str) -> None:
    deadline = time.monotonic() + GRACE_S
    pause = threading.Event()
    while found := leaks(before):
        if time.monotonic() > deadline:
            lines = [f"  {kind}: {item}" for kind, items in found.items() for item in items]
            pytest.fail(
                f"{where} left behind, {GRACE_S:g} s after its session had ended:\n" + "\n".join(lines) + "\n"
                "shutdown() has to end or remove these; what the test itself opened, the test closes",
                pytrace=False,
            )
        pause.wait(POLL_INTERVAL_S)


def watch(where: str) -> Iterator[None]:
    """Compare before and after, unless a session runs at either end: then whoever ends it is compared."""
    before = None if session_running() else state()
    yield
    if before is not None and not session_running():
        assert_nothing_left(before, where)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_by_the_run() -> Iterator[None]:
    yield from watch("the whole run")


@pytest.fixture(scope="module", autouse=True)
def objects_of_other_modules_are_frozen() -> None:
    """Leave the objects of earlier modules out of collections: late in a whole run one takes four seconds with them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def nothing_left_by_the_module(
    request: pytest.FixtureRequest, nothing_left_by_the_run: None
) -> Iterator[None]:
    before = session_running()
    yield from watch(request.node.nodeid)
    if session_running() and not before:
        # The next module would fail in its own init(), in every test, and hide this one.
        sys.modules["skate"].shutdown()
        pytest.fail(f"{request.node.nodeid} left its session running; end it with shutdown()", pytrace=False)


@pytest.fixture(autouse=True)
def nothing_left_by_the_test(
    request: pytest.FixtureRequest, nothing_left_by_the_module: None
) -> Iterator[None]:
    yield from watch(request.node.nodeid)
