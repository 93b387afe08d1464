"""A session that a page shows: tasks that run, wait and fail, an actor, groups, values, output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import skate as ray
import skate.dashboard

TOKEN = "the-token-for-everything"
#: What a task prints and what its error says is text, also if it looks like a part of a page.
HOSTILE = "<img src=x onerror=document.title='attacked'>"
SITES = "SKATE_RECORD_REF_CREATION_SITES"


@ray.remote(num_cpus=0)
def fails(word: str) -> None:
    """Fail at a line that the page has to name."""
    print("looking for", word, HOSTILE)
    raise ValueError(f"there is no {word} {HOSTILE}")


@ray.remote
def holds(gate: str) -> bytes:
    """Hold a CPU until a file exists."""
    while not os.path.exists(gate):
        time.sleep(0.05)
    return b"x"


@ray.remote
def follows(value: bytes) -> int:
    """Wait for the value of another task."""
    return len(value)


@ray.remote
def quick(number: int) -> int:
    """End at once."""
    return number


@ray.remote(num_cpus=0)
class Keeper:
    """An actor with a name."""

    def keep(self, number: int) -> int:
        """Print a line."""
        print("kept", number, file=sys.stderr)
        return number


class Running(NamedTuple):
    """The session: its link, the file that lets tasks end, and what keeps the rest alive."""

    link: Any
    gate: Path
    kept: list[Any]
    failed: str
    waiting: str


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Start the session and its dashboard, and end them."""
    before = {name: os.environ.get(name) for name in ("RAY_AUTH_TOKEN", SITES, "RAY_IGNORE_UNHANDLED_ERRORS")}
    os.environ.update({"RAY_AUTH_TOKEN": TOKEN, SITES: "1", "RAY_IGNORE_UNHANDLED_ERRORS": "1"})
    ray.init(num_cpus=2, object_store_memory=10**8, log_to_driver=False)
    try:
        gate = folder / "gate"
        failed = [fails.remote("word") for _ in range(3)]
        ray.wait(failed, num_returns=3)
        ray.get([quick.remote(number) for number in range(50)])
        held = [holds.remote(str(gate)) for _ in range(5)]
        after = follows.remote(held[-1])
        keeper = Keeper.options(name="keeper").remote()
        ray.get([keeper.keep.remote(number) for number in range(40)])
        group = ray.util.placement_group([{"CPU": 5}], name="wide")
        value = ray.put(bytes(5_000_000))
        link = skate.dashboard(port=0)
        kept = [failed, held, after, keeper, group, value]
        yield Running(link, gate, kept, failed[0].task_id().hex(), after.task_id().hex())
    finally:
        ray.shutdown()
        for name, text in before.items():
            os.environ.pop(name, None)
            if text is not None:
                os.environ[name] = text
