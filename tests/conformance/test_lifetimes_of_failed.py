"""Failed, cancelled, crashed and abandoned work leaves nothing behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
import ray.util.state
from keepers import (
    ON_SKATE,
    SIZES,
    freed,
    keeper_class,
    made,
    nothing_is_left,
    sum_task,
    total,
)
from waiting import Gate, wait_for

__all__ = ["nothing_is_left"]  # a fixture that every test here uses
pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.timeout(120)]


@SIZES
def test_core_39_error_that_carries_a_ref(size: int) -> None:
    @ray.remote(max_retries=0)
    def fails() -> None:
        raise ValueError([ray.put(np.arange(size))])

    @ray.remote(max_retries=0)
    def fails_with(boxed: Any) -> None:
        raise KeyError("without it")

    ref = made(size)
    with pytest.raises(KeyError, match="without it"):
        ray.get(fails_with.remote([ref]))
    assert int(ray.get(ref).sum()) == total(size)
    failed = fails.remote()
    for _ in range(2):
        with pytest.raises(ValueError) as raised:
            ray.get(failed)
        inner = raised.value.cause.args[0][0]
        assert int(ray.get(inner).sum()) == total(size)
        del raised, inner
        gc.collect()
    behind = sum_task().remote(failed)
    with pytest.raises(ValueError):
        ray.get(behind)


def test_core_04_failed_ref_that_was_looked_at_can_be_passed_on() -> None:
    @ray.remote(max_retries=0)
    def fails() -> None:
        raise KeyError("passed on")

    @ray.remote
    def catches(boxed: Any) -> str:
        try:
            ray.get(boxed[0])
        except KeyError as error:
            return str(error.cause.args[0])
        return "nothing"

    failed = fails.remote()
    with pytest.raises(KeyError):
        ray.get(failed)
    assert ray.get(catches.remote([failed])) == "passed on"
    with pytest.raises(KeyError):
        ray.get(sum_task().remote(failed))


@SIZES
def test_core_29_items_that_are_not_taken(size: int) -> None:
    @ray.remote
    def streams(count: int) -> Iterator[Any]:
        for _ in range(count):
            yield np.arange(size)

    stream = streams.remote(5)
    first = next(stream)
    assert int(ray.get(first).sum()) == total(size)
    del stream
    gc.collect()
    assert int(ray.get(first).sum()) == total(size)
    unread = streams.remote(5)
    del unread


@SIZES
def test_core_29_items_that_contain_refs(size: int) -> None:
    @ray.remote
    def streams(count: int) -> Iterator[Any]:
        for _ in range(count):
            yield [ray.put(np.arange(size))]

    assert [int(ray.get(ray.get(item)[0]).sum()) for item in streams.remote(3)] == [total(size)] * 3
    stream = streams.remote(3)
    next(stream)
    del stream


@SIZES
def test_core_29_closed_stream(gate: Any, size: int) -> None:
    release = gate("release")

    @ray.remote
    def streams(boxed: Any, release: Gate) -> Iterator[Any]:
        yield ray.get(boxed[0])
        yield [boxed[0]]
        release.wait()
        yield boxed

    ref = made(size)
    stream = streams.remote([ref], release)
    next(stream)
    ray.cancel(stream)
    name = ref.hex()
    del stream, ref
    release.open()
    freed(name)


@SIZES
def test_core_18_cancelled_tasks_let_go(gate: Any, size: int) -> None:
    started, release = gate("started"), gate("release")

    @ray.remote(max_retries=0)
    def holds(value: Any, boxed: Any, started: Gate, release: Gate) -> Any:
        started.open()
        release.wait()
        return boxed

    @ray.remote
    def follows(value: Any, boxed: Any, other: Any) -> Any:
        return boxed

    ref = made(size)
    running = holds.remote(ref, [ref], started, release)
    queued = follows.remote(ref, [ref], running)
    started.wait()
    ray.cancel(queued)
    ray.cancel(running)
    for each in (queued, running):
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(each)
    release.open()
    assert int(ray.get(ref).sum()) == total(size)


@SIZES
def test_core_11_crashed_tasks_let_go(tally: Any, size: int) -> None:
    attempts = tally("attempts")

    @ray.remote(max_retries=1)
    def crashes_once(value: Any, boxed: Any) -> Any:
        if attempts.add() == 1:
            os._exit(1)
        return [boxed[0], ray.put(value)]

    ref = made(size)
    pending = crashes_once.remote(ref, [ref])
    name = ref.hex()
    del ref
    back, copy = ray.get(pending)
    assert int(ray.get(back).sum()) == int(ray.get(copy).sum()) == total(size)
    del back, copy, pending
    freed(name)


@SIZES
def test_core_39_task_that_starts_tasks_and_ends(size: int) -> None:
    @ray.remote
    def inner(value: Any) -> Any:
        return value

    @ray.remote
    def outer(size: int) -> list[Any]:
        ref = ray.put(np.arange(size))
        return [inner.remote(ref), inner.remote(inner.remote(ref))]

    first, second = ray.get(outer.remote(size))
    assert int(ray.get(first).sum()) == int(ray.get(second).sum()) == total(size)


@SIZES
def test_core_39_many_go_round(size: int) -> None:
    keeper = keeper_class().remote()
    same = sum_task()
    for _ in range(20):
        ref = made(size)
        calls = [same.remote(ref), keeper.keep.remote([ref]), keeper.drop.remote()]
        assert ray.get(calls)[0] == total(size)


def test_core_28_handle_in_a_value_keeps_its_actor() -> None:
    boxed = ray.put([keeper_class().remote(np.arange(3))])
    gc.collect()
    assert ray.get(ray.get(boxed)[0].sum.remote()) == 3

    @ray.remote
    def use(box: Any) -> int:
        return ray.get(box[0].sum.remote())

    assert ray.get(use.remote(boxed)) == 3
    assert ray.get(use.remote([keeper_class().remote(np.arange(4))])) == 6


@pytest.mark.skipif(not ON_SKATE, reason="asks the state API, which on Ray needs a dashboard")
def test_core_25_actors_end_with_their_last_handle() -> None:
    def living() -> list[str]:
        return [row.actor_id for row in ray.util.state.list_actors(filters=[("state", "!=", "DEAD")])]

    wait_for(lambda: not living(), what="the actors of other tests to end")
    first, second = keeper_class().remote(), keeper_class().remote()
    ray.get([first.keep.remote([ray.put(second)]), second.keep.remote([made(3)])])
    del second
    gc.collect()
    assert len(living()) == 2
    del first
    wait_for(lambda: not living(), what="both actors to end")
