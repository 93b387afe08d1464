"""Values that do not fit into shared memory together: their users do not notice, and no view of them changes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import ray

pytestmark = pytest.mark.timeout(180)

STORE = 78_643_200  # bytes, the least that Ray takes
PART = 10 << 20
COUNT = 4 * STORE // PART


def value(number: int) -> np.ndarray[Any, Any]:
    array = np.full(PART, number, np.uint8)
    array[-8:] = np.frombuffer(np.int64(number * 1_000_003).tobytes(), np.uint8)
    return array


def right(array: np.ndarray[Any, Any], number: int) -> bool:
    return len(array) == PART and array[0] == number and array[-8:].tobytes() == value(number)[-8:].tobytes()


@ray.remote
def made(number: int) -> np.ndarray[Any, Any]:
    return value(number)


@ray.remote
def is_right(array: np.ndarray[Any, Any], number: int) -> bool:
    return bool(right(array, number))


def test_core_39_all_that_was_put_comes_back(short_of_memory: int) -> None:
    refs = [ray.put(value(i)) for i in range(COUNT)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))
    assert all(right(ray.get(refs[i]), i) for i in (COUNT - 1, 0, COUNT // 2, 1))


def test_core_39_results_of_tasks_come_back(short_of_memory: int) -> None:
    refs = [made.remote(i) for i in range(COUNT)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))


def test_core_39_they_are_arguments_of_tasks(short_of_memory: int) -> None:
    refs = [ray.put(value(i)) for i in range(COUNT)]
    assert all(ray.get([is_right.remote(ref, i) for i, ref in enumerate(refs)]))


def test_core_39_they_are_inside_other_values(short_of_memory: int) -> None:
    refs = [ray.put(value(i)) for i in range(COUNT)]
    whole = ray.put(refs)
    del refs
    assert all(right(ray.get(ref), i) for i, ref in enumerate(ray.get(whole)))


def test_core_39_an_actor_keeps_them(short_of_memory: int) -> None:
    @ray.remote
    class Keeper:
        def __init__(self) -> None:
            self.refs: list[Any] = []

        def keep(self, number: int) -> None:
            self.refs.append(ray.put(value(number)))

        def check(self) -> bool:
            return all(right(ray.get(ref), i) for i, ref in enumerate(self.refs))

    keeper = Keeper.remote()
    for i in range(COUNT):
        keeper.keep.remote(i)
    assert ray.get(keeper.check.remote())


def test_core_39_views_stay_what_they_are(short_of_memory: int) -> None:
    views = [ray.get(ray.put(value(i))) for i in range(3)]
    refs = [ray.put(value(i)) for i in range(COUNT)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))
    assert all(right(view, i) for i, view in enumerate(views))


def test_core_39_many_writers_all_finish(short_of_memory: int) -> None:
    @ray.remote(num_cpus=0.25)
    def write(base: int) -> bool:
        refs = [ray.put(value(base + i)) for i in range(5)]
        return all(right(ray.get(ref), base + i) for i, ref in enumerate(refs))

    assert all(ray.get([write.remote(10 * i) for i in range(8)], timeout=150))


def test_core_39_wait_counts_what_is_on_disk_as_ready(short_of_memory: int) -> None:
    refs = [ray.put(value(i)) for i in range(COUNT)]
    ready, rest = ray.wait(refs, num_returns=COUNT, timeout=120, fetch_local=False)
    assert len(ready) == COUNT and not rest


def test_core_39_a_generator_gives_more_than_fits(short_of_memory: int) -> None:
    @ray.remote
    def give() -> Iterator[np.ndarray[Any, Any]]:
        for number in range(COUNT):
            yield value(number)

    refs = list(give.remote())
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))


def test_core_39_the_folder_is_the_users_to_choose(fresh: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    fresh(num_cpus=1, object_store_memory=STORE, object_spilling_directory=str(tmp_path / "place"))
    refs = [ray.put(value(i)) for i in range(COUNT)]
    assert (tmp_path / "place").is_dir()
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))


@pytest.mark.parametrize("count", [1, 2])
def test_core_39_folders_are_also_said_in_system_config(
    fresh: Callable[..., Any], tmp_path: pathlib.Path, count: int
) -> None:
    folders = [str(tmp_path / str(number)) for number in range(count)]
    params = {"directory_path": folders[0] if count == 1 else folders}
    config = json.dumps({"type": "filesystem", "params": params})
    fresh(num_cpus=1, object_store_memory=STORE, _system_config={"object_spilling_config": config})
    refs = [ray.put(value(i)) for i in range(COUNT)]
    assert all(right(ray.get(ref), i) for i, ref in enumerate(refs))


@pytest.mark.parametrize(
    "config", ["{", '{"type": "no such storage", "params": {}}', '{"type": "filesystem"}']
)
def test_core_39_a_bad_config_is_refused(fresh: Callable[..., Any], config: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        fresh(num_cpus=1, _system_config={"object_spilling_config": config})
