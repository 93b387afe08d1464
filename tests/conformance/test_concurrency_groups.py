"""Concurrency groups: which methods share threads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import ray
from waiting import Gate

pytestmark = pytest.mark.usefixtures("cluster")


def grouped_class() -> Any:
    @ray.remote(concurrency_groups={"io": 2, "compute": 1})
    class Grouped:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        @ray.method(concurrency_group="io")
        def meet(self) -> bool:
            self.barrier.wait(timeout=30)
            return True

        @ray.method(concurrency_group="compute")
        def hold(self, started: Gate, release: Gate) -> str:
            started.open()
            release.wait()
            return "held"

        @ray.method(concurrency_group="compute")
        def compute(self) -> str:
            return "computed"

        def plain(self) -> str:
            return "plain"

    return Grouped


def test_core_21_methods_of_a_group_run_at_once() -> None:
    grouped = grouped_class().remote()
    assert ray.get([grouped.meet.remote(), grouped.meet.remote()], timeout=40) == [True, True]


def test_core_21_a_busy_group_does_not_block_the_others(gate: Any) -> None:
    grouped = grouped_class().remote()
    started, release = gate("started"), gate("release")
    held = grouped.hold.remote(started, release)
    started.wait()
    assert ray.get(grouped.plain.remote(), timeout=30) == "plain"
    assert ray.get([grouped.meet.remote(), grouped.meet.remote()], timeout=40) == [True, True]
    release.open()
    assert ray.get(held) == "held"


def test_core_21_a_group_of_one_runs_its_methods_one_by_one(gate: Any) -> None:
    grouped = grouped_class().remote()
    started, release = gate("started"), gate("release")
    held = grouped.hold.remote(started, release)
    started.wait()
    queued = grouped.compute.remote()
    assert ray.wait([queued], timeout=0.3)[0] == []
    release.open()
    assert ray.get([held, queued]) == ["held", "computed"]


def test_core_21_group_chosen_per_call(gate: Any) -> None:
    grouped = grouped_class().remote()
    started, release = gate("started"), gate("release")
    held = grouped.hold.remote(started, release)
    started.wait()
    assert ray.get(grouped.compute.options(concurrency_group="io").remote(), timeout=30) == "computed"
    release.open()
    assert ray.get(held) == "held"


def test_core_21_groups_of_an_asyncio_actor(gate: Any) -> None:
    started, release = gate("started"), gate("release")

    @ray.remote(concurrency_groups={"io": 1})
    class Loop:
        @ray.method(concurrency_group="io")
        async def block(self) -> str:
            started.open()
            # Groups may have an event loop each, so an asyncio.Event could not reach this one.
            while not release.is_open():
                await asyncio.sleep(0.005)
            return "open"

        @ray.method(concurrency_group="io")
        async def behind(self) -> str:
            return "behind"

        async def elsewhere(self) -> str:
            return "elsewhere"

    loop = Loop.remote()
    blocked = loop.block.remote()
    started.wait()
    behind = loop.behind.remote()
    assert ray.get(loop.elsewhere.remote(), timeout=30) == "elsewhere"
    assert ray.wait([behind], timeout=0.3)[0] == []
    release.open()
    assert ray.get([blocked, behind], timeout=30) == ["open", "behind"]


def test_core_21_default_group_keeps_max_concurrency() -> None:
    @ray.remote(concurrency_groups={"io": 1}, max_concurrency=2)
    class Pair:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        def meet(self) -> bool:
            self.barrier.wait(timeout=30)
            return True

    pair = Pair.remote()
    assert ray.get([pair.meet.remote(), pair.meet.remote()], timeout=40) == [True, True]


@pytest.mark.parametrize(
    "groups", [{"io": 0}, {"io": -1}, {"io": "two"}, ["io"]], ids=["zero", "negative", "text", "list"]
)
@pytest.mark.chosen_difference(
    "a group that could run nothing, or is no group, is refused where it is written", id="D-concurrency-group"
)
def test_core_21_bad_groups_are_refused(groups: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="concurrency_groups"):

        @ray.remote(concurrency_groups=groups)
        class Never:
            pass

        Never.remote()


@pytest.mark.chosen_difference(
    "an unknown group is refused at the call; in Ray it ends the actor's process", id="D-concurrency-group"
)
def test_core_21_unknown_group_is_refused_at_the_call() -> None:
    grouped = grouped_class().remote()
    with pytest.raises(ValueError, match="nothing"):
        grouped.plain.options(concurrency_group="nothing").remote()
    assert ray.get(grouped.plain.remote()) == "plain"
