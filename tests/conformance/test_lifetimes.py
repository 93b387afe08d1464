"""Values live exactly as long as a reference to them exists, wherever it is."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import ray
import ray.util.state
from keepers import (
    LARGE,
    ON_SKATE,
    SIZES,
    deep_task,
    freed,
    keeper_class,
    kept,
    made,
    nothing_is_left,
    total,
)
from waiting import Gate

__all__ = ["nothing_is_left"]  # a fixture that every test here uses
pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.timeout(120)]


@SIZES
def test_core_39_ref_dropped_while_its_task_waits(gate: Any, size: int) -> None:
    started, release = gate("started"), gate("release")

    @ray.remote
    def slow(value: Any, started: Gate, release: Gate) -> int:
        started.open()
        release.wait()
        return int(value.sum())

    @ray.remote
    def after(value: Any, other: int) -> int:
        return int(value.sum()) + other

    ref = made(size)
    first = slow.remote(ref, started, release)
    second = after.remote(ref, first)
    name = ref.hex()
    del ref
    started.wait()
    gc.collect()
    release.open()
    assert ray.get(second) == 2 * total(size)
    freed(name)


@SIZES
def test_core_39_ref_three_levels_deep(size: int) -> None:
    inner = made(size)
    name = inner.hex()
    boxed = [ray.put([ray.put([inner])])]
    del inner
    gc.collect()
    kept(name)
    assert ray.get(deep_task().remote(boxed)) == total(size)
    del boxed
    freed(name)


@SIZES
def test_core_39_ref_in_a_dict_and_in_an_object(size: int) -> None:
    class Box:
        def __init__(self, ref: Any) -> None:
            self.inside = {"deep": (ref,)}

    @ray.remote
    def open_box(box: Any) -> int:
        return int(ray.get(box.inside["deep"][0]).sum())

    box = Box(made(size))
    name = box.inside["deep"][0].hex()
    pending = open_box.remote(box)
    del box
    assert ray.get(pending) == total(size)
    freed(name)


@SIZES
def test_core_39_ref_in_a_keyword(size: int) -> None:
    @ray.remote
    def named(*, value: Any, boxed: Any = ()) -> int:
        return int(value.sum()) + int(ray.get(boxed[0]).sum())

    pending = named.remote(value=made(size), boxed=[made(size)])
    gc.collect()
    assert ray.get(pending) == 2 * total(size)


@SIZES
def test_core_39_refs_in_defaults_and_closures_live_as_long_as_the_function(size: int) -> None:
    default, captured = made(size), made(size)

    @ray.remote
    def reads(boxed: Any = (default,)) -> int:
        return int(ray.get(boxed[0]).sum()) + int(ray.get(captured).sum())

    assert ray.get(reads.remote()) == 2 * total(size)
    del default
    gc.collect()
    assert ray.get([reads.remote(), reads.options(num_cpus=0.5).remote()]) == [2 * total(size)] * 2


@SIZES
def test_core_39_returned_ref_outlives_the_task(size: int) -> None:
    @ray.remote
    def makes() -> list[Any]:
        return [ray.put(np.arange(size))]

    outer = makes.remote()
    [inner] = ray.get(outer)
    name = inner.hex()
    del outer
    gc.collect()
    assert int(ray.get(inner).sum()) == total(size)
    del inner
    freed(name)


@SIZES
def test_core_39_returned_ref_that_nobody_takes_out(size: int) -> None:
    @ray.remote
    def makes() -> list[Any]:
        return [[ray.put(np.arange(size))] for _ in range(3)]

    outer = makes.remote()
    ray.wait([outer])
    del outer
    ignored = [makes.remote() for _ in range(3)]
    del ignored


@SIZES
def test_core_39_argument_returned(size: int) -> None:
    @ray.remote
    def same(boxed: Any) -> Any:
        return boxed

    ref = made(size)
    back = ray.get(same.remote([ref]))[0]
    assert back == ref
    del ref
    gc.collect()
    assert int(ray.get(back).sum()) == total(size)


@SIZES
def test_core_39_ref_in_the_state_of_an_actor(size: int) -> None:
    keeper = keeper_class().remote()
    ref = made(size)
    name = ref.hex()
    ray.get(keeper.keep.remote([ref]))
    del ref
    gc.collect()
    kept(name)
    assert ray.get(keeper.sum.remote()) == total(size)
    ray.get(keeper.drop.remote())
    freed(name)


@SIZES
def test_core_39_ref_given_to_a_constructor(size: int) -> None:
    inside, given = made(size), made(size)
    keeper = keeper_class().remote([inside], given)
    del inside, given
    gc.collect()
    assert ray.get(keeper.sum.remote()) == total(size)


@SIZES
def test_core_39_ref_sent_to_an_actor_that_dies(gate: Any, size: int) -> None:
    started, release = gate("started"), gate("release")
    keeper = keeper_class().remote()
    kept_ref, queued = made(size), made(size)
    ray.get(keeper.keep.remote([kept_ref]))
    held = keeper.hold.remote([queued], started, release)
    behind = keeper.keep.remote(queued, [queued], named=queued)
    started.wait()
    ray.kill(keeper)
    for ref in (held, behind):
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(ref)
    del keeper
    assert int(ray.get(kept_ref).sum()) == int(ray.get(queued).sum()) == total(size)


@SIZES
def test_core_39_ref_that_only_a_dead_actor_held(size: int) -> None:
    keeper = keeper_class().remote()
    ref = made(size)
    name = ref.hex()
    ray.get(keeper.keep.remote([ref]))
    del ref
    kept(name)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(keeper.crash.remote())
    freed(name)


@SIZES
def test_core_39_ref_passed_on_by_its_borrower(size: int) -> None:
    first, second = keeper_class().remote(), keeper_class().remote()
    ref = made(size)
    name = ref.hex()
    ray.get(first.keep.remote([ref]))
    del ref
    ray.get(second.keep.remote(first.give.remote()))
    ray.get(first.drop.remote())
    del first
    gc.collect()
    assert ray.get(second.sum.remote()) == total(size)
    ray.get(second.drop.remote())
    freed(name)


def test_core_39_view_outlives_its_ref_and_its_actor() -> None:
    keeper = keeper_class().remote()
    [ref] = ray.get(keeper.put.remote(LARGE))
    name = ref.hex()
    if ON_SKATE:  # which is one of its chosen differences, D-put-survives
        ray.kill(keeper)
    part = ray.get(ref)[10:20]
    del ref, keeper
    gc.collect()
    others = [made(LARGE) for _ in range(20)]
    assert list(part) == list(range(10, 20))
    kept(name)
    del part, others
    freed(name)


def test_core_39_view_in_an_actor_outlives_all_refs() -> None:
    keeper = keeper_class().remote()
    ref = made(LARGE)
    name = ref.hex()
    ray.get(keeper.keep.remote(ref))
    del ref
    gc.collect()
    others = [made(LARGE) for _ in range(20)]
    assert ray.get(keeper.sum.remote()) == total(LARGE)
    kept(name)
    del keeper, others
    freed(name)
