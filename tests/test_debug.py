"""`breakpoint()` in tasks and actors, and `skate debug`, which attaches to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import skate as ray
from skate import procfs
from skate.client import debugger
from skate.util import rpdb
from tests.conformance.waiting import wait_for


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote
def stopped(number: int) -> int:
    found = number * 2
    breakpoint()
    return found


@ray.remote
class Stopped:
    def method(self, text: str) -> str:
        rpdb.set_trace()
        return text.upper()


@ray.remote(runtime_env={"env_vars": {"RAY_DEBUG_POST_MORTEM": "1"}})
def failing(items: list[int]) -> int:
    wrong = 7
    return items[wrong]


def waiting() -> list[debugger.Breakpoint]:
    """The breakpoints of this session: workers are children of the zygote, which is one of this process."""

    def parent(pid: int) -> int:
        return int(procfs.stat(pid)[procfs.PARENT])

    return [each for each in debugger.waiting() if parent(parent(each.pid)) == os.getpid()]


def only() -> debugger.Breakpoint:
    (found,) = wait_for(waiting, what="a breakpoint")
    return found


def attach(*lines: str, pid: int | None = None) -> str:
    command = [sys.executable, "-m", "skate", "debug", "--pid", str(pid or only().pid)]
    done = subprocess.run(
        command, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_breakpoint_of_a_task() -> None:
    ref = stopped.remote(21)
    place = only().place
    assert place.startswith("test_debug.py:") and place.endswith(" stopped")
    text = attach("p found", "where", "found = 5", "c")
    assert "(Pdb) 42" in text and "test_debug.py" in text and "return found" in text
    assert ray.get(ref) == 5


def test_a_breakpoint_of_an_actor() -> None:
    actor = Stopped.remote()
    ref = actor.method.remote("ab")
    assert "'ab'" in attach("p text", "q")
    assert ray.get(ref) == "AB", "to quit lets the task continue"
    assert ray.get(stopped.options(runtime_env={"env_vars": {"PYTHONBREAKPOINT": "0"}}).remote(2)) == 4


def test_a_client_that_goes_lets_the_task_continue() -> None:
    ref = stopped.remote(1)
    attach("b 28")  # a breakpoint that is left, and the end of the input
    assert ray.get(ref) == 2


def test_an_error_is_looked_at_where_it_was_raised() -> None:
    ref = failing.remote([1, 2])
    assert only().place.endswith(" IndexError")
    text = attach("p wrong, items", "c")
    assert "IndexError: list index out of range" in text and "(7, [1, 2])" in text
    with pytest.raises(IndexError):
        ray.get(ref)


def test_several_breakpoints_are_listed() -> None:
    refs = [stopped.remote(number) for number in range(2)]
    found = wait_for(lambda: each if len(each := waiting()) == 2 else None, what="both")
    assert len({each.pid for each in found}) == 2
    listed = subprocess.run(
        [sys.executable, "-m", "skate", "debug"], input="none\n", capture_output=True, text=True
    )
    assert listed.returncode == 1 and "'none' is none of 0 to " in listed.stderr
    assert all(f"pid {each.pid}  {each.place}" in listed.stdout for each in found)
    ray.cancel(refs[0])
    for each in wait_for(lambda: left if len(left := waiting()) == 1 else None, what="the other"):
        attach("c", pid=each.pid)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(refs[0])
    assert ray.get(refs[1]) == 2


def test_no_breakpoint_waits() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "skate", "debug", "--pid", "1"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "no breakpoint of process 1 waits on this machine" in done.stderr
