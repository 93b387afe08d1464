"""Values of two sizes, actors that keep them, and ways to see what keeps a value."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
import ray.util.state
from waiting import Gate, wait_for

ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"
DEADLINE_S = 2 if os.environ.get("Q") else 10
LARGE = 50_000  # doubles: 400 kB, which goes to shared memory
SIZES = pytest.mark.parametrize("size", [3, LARGE], ids=["small", "large"])


def made(size: int) -> ray.ObjectRef:
    return ray.put(np.arange(size))


def total(size: int) -> int:
    return size * (size - 1) // 2


def objects() -> set[str]:
    """The ids of the objects that anything anywhere keeps; nothing on Ray, where asking needs a dashboard."""
    rows = ray.util.state.list_objects(limit=10_000, detail=True)
    return {row.object_id for row in rows if row.reference_type != "ACTOR_HANDLE"}


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test as many objects are there as before it."""
    if not ON_SKATE:
        yield
        return
    before = objects()
    yield
    if "as_long_as_the_function" in request.node.name:  # which is known until the session ends
        return
    gc.collect()
    try:
        wait_for(
            lambda: objects() <= before, what="the objects of this test to be freed", timeout_s=DEADLINE_S
        )
    except AssertionError as error:
        rows = [row for name in objects() - before for row in ray.util.state.get_objects(name)]
        lines = [
            f"{row.object_id} {row.reference_type} {row.holder} x{row.count} {row.call_site}" for row in rows
        ]
        raise AssertionError("\n".join([str(error), *lines])) from None


def freed(name: str) -> None:
    """Wait until an object is gone; takes it as said on Ray."""
    if ON_SKATE:
        wait_for(lambda: name not in objects(), what=f"object {name} to be freed", timeout_s=DEADLINE_S)


def kept(name: str) -> None:
    if ON_SKATE:
        assert name in objects()


def sum_task() -> Any:
    @ray.remote
    def sum_of(value: Any) -> int:
        return int(value.sum())

    return sum_of


def deep_task() -> Any:
    @ray.remote
    def deep(boxed: Any) -> int:
        while not isinstance(boxed, np.ndarray):
            boxed = ray.get(boxed[0])
        return int(boxed.sum())

    return deep


def keeper_class() -> Any:
    @ray.remote
    class Keeper:
        def __init__(self, *given: Any) -> None:
            self.kept: list[Any] = list(given)

        def keep(self, *given: Any, **named: Any) -> None:
            self.kept += [*given, *named.values()]

        def drop(self) -> None:
            self.kept.clear()

        def sum(self) -> int:
            found = self.kept[0]
            while not isinstance(found, np.ndarray):
                found = ray.get(found) if isinstance(found, ray.ObjectRef) else found[0]
            return int(found.sum())

        def give(self) -> Any:
            return self.kept[0]

        def put(self, size: int) -> list[Any]:
            return [ray.put(np.arange(size))]

        def crash(self) -> None:
            os._exit(1)

        def hold(self, inside: Any, started: Gate, release: Gate) -> int:
            started.open()
            release.wait()
            return int(ray.get(inside[0]).sum())

    return Keeper
