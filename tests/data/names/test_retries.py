"""Functions that fail now and then: `max_map_retries`, `actor_task_retry_on_errors`, `actor_init_retry_on_errors`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate.data
from skate.data import DataContext


class Flaky:
    """Fails the first `times` calls with a given name, in any process."""

    def __init__(self, folder: Path, times: int, error: type[Exception] = ConnectionError) -> None:
        self.folder = folder
        self.times = times
        self.error = error

    def fail(self, name: str = "call") -> None:
        for number in range(self.times):
            mark = self.folder / f"{name}-{number}"
            if not mark.exists():
                mark.touch()
                raise self.error(f"{name} failed for the {number}. time")


@pytest.fixture(params=["here", "workers"])
def where(request: pytest.FixtureRequest, context: DataContext) -> str:
    context.run_small_work_in_driver = request.param == "here"
    return str(request.param)


def retrying(context: DataContext, times: int = 2, errors: Any = True) -> None:
    context.max_map_retries = times
    context.retried_map_errors = errors


def operations(flaky: Flaky) -> dict[str, Any]:
    def row(each: dict[str, Any]) -> dict[str, Any]:
        if each["id"] == 3:
            flaky.fail()
        return each

    def rows(each: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield each
        if each["id"] == 3:
            flaky.fail()

    def keep(each: dict[str, Any]) -> bool:
        return bool(row(each))

    def batch(each: dict[str, Any]) -> dict[str, Any]:
        if 3 in each["id"]:
            flaky.fail()
        return each

    def batches(each: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"id": each["id"][:1]}
        yield {"id": each["id"][1:2]}
        if 3 in each["id"]:
            flaky.fail()
        yield {"id": each["id"][2:]}

    async def later(each: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return batch(each)

    ds = skate.data.range(6, override_num_blocks=1)
    return {
        "map": ds.map(row),
        "flat_map": ds.flat_map(rows),
        "filter": ds.filter(keep),
        "map_batches": ds.map_batches(batch),
        "generator": ds.map_batches(batches),
        "async": ds.map_batches(later, batch_size=2),
        "map_groups": ds.groupby("id").map_groups(batch, batch_format="numpy"),
    }


NAMES = ["map", "flat_map", "filter", "map_batches", "generator", "async", "map_groups"]


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_fails_is_made_again(name: str, where: str, context: DataContext, tmp_path: Path) -> None:
    retrying(context)
    ds = operations(Flaky(tmp_path, 2))[name]
    assert [row["id"] for row in ds.take_all()] == [0, 1, 2, 3, 4, 5]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", NAMES)
def test_it_is_not_made_again_more_often_than_that(
    name: str, where: str, context: DataContext, tmp_path: Path
) -> None:
    retrying(context)
    ds = operations(Flaky(tmp_path, 3))[name]
    with pytest.raises(ConnectionError, match=r"failed for the 2\. time"):
        ds.take_all()


@pytest.mark.parametrize(
    ("errors", "again"),
    [
        (False, False),
        ([], False),
        (["call failed"], True),
        (["ConnectionError"], True),
        ([r"the \d\. time"], True),
        (["timed out", "("], False),
    ],
)
def test_only_errors_that_are_meant(errors: Any, again: bool, context: DataContext, tmp_path: Path) -> None:
    retrying(context, 2, errors)
    ds = operations(Flaky(tmp_path, 1))["map"]
    if again:
        assert ds.count() == 6
    else:
        with pytest.raises(ConnectionError):
            ds.take_all()


def test_patterns_without_a_number_of_retries_retry_nothing(context: DataContext, tmp_path: Path) -> None:
    context.retried_map_errors = True
    with pytest.raises(ConnectionError):
        operations(Flaky(tmp_path, 1))["map"].take_all()


class Model:
    def __init__(self, flaky: Flaky, where: str) -> None:
        self.flaky = flaky
        self.where = where
        if where == "init":
            flaky.fail("init")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.where == "call":
            self.flaky.fail()
        return batch


def model(flaky: Flaky, where: str) -> Any:
    return skate.data.range(4).map_batches(
        Model, compute=skate.data.ActorPoolStrategy(size=1), fn_constructor_args=(flaky, where)
    )


@pytest.mark.parametrize("errors", [True, [ConnectionError]])
def test_calls_of_actors(errors: Any, context: DataContext, tmp_path: Path) -> None:
    context.actor_task_retry_on_errors = errors
    assert model(Flaky(tmp_path, 2), "call").count() == 4


def test_calls_of_actors_with_other_errors(context: DataContext, tmp_path: Path) -> None:
    context.actor_task_retry_on_errors = [ValueError]
    with pytest.raises(ConnectionError):
        model(Flaky(tmp_path, 1), "call").take_all()


def test_constructors_of_actors(context: DataContext, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        model(Flaky(tmp_path, 1, ConnectionError), "init").take_all()
    context.actor_init_retry_on_errors = True
    assert model(Flaky(tmp_path, 3), "init").count() == 4
