"""Errors of functions as a program sees them: they name the operator, and have no trace of Skate's own code."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import skate
from skate.exceptions import RayTaskError, UserCodeException
from skate.util.state import list_tasks

pytestmark = pytest.mark.usefixtures("node")


def fail(value: Any) -> Any:
    raise KeyError("boom")


class Failing:
    def __call__(self, value: Any) -> Any:
        raise KeyError("boom")


class Unmade:
    def __init__(self) -> None:
        raise KeyError("boom")

    def __call__(self, value: Any) -> Any:
        return value


def dataset(in_driver: bool = False) -> Any:
    found = skate.data.range(4)
    found.context.run_small_work_in_driver = in_driver
    return found


def lines_of(error: BaseException) -> list[str]:
    """Return the error as the interpreter prints it, without its marks and the lines of the test."""
    text = "".join(traceback.format_exception(error)).splitlines()
    return [line for line in text if set(line) - set(" ^~")]


@pytest.mark.parametrize(
    ("act", "title"),
    [
        (lambda ds: ds.map(fail).take_all(), "ray::ReadRange->Map(fail)()"),
        (lambda ds: ds.map(fail).to_pandas(), "ray::ReadRange->Map(fail)()"),
        (lambda ds: ds.map(fail).sort("id").materialize(), "ray::ReadRange->Map(fail)()"),
        (lambda ds: next(iter(ds.map(fail).iter_batches())), "ray::ReadRange->Map(fail)()"),
        (lambda ds: ds.map_batches(Failing, concurrency=1).count(), "ray::MapBatches(Failing)()"),
        (lambda ds: next(iter(ds.map(fail).streaming_split(1)[0].iter_rows())), "ray::streaming_split()"),
    ],
)
@pytest.mark.parametrize("in_driver", [True, False])
def test_an_error_names_its_operator_and_only_the_users_code(act: Any, title: str, in_driver: bool) -> None:
    with pytest.raises(UserCodeException) as caught:
        act(dataset(in_driver))
    assert title in str(caught.value).splitlines()[0]
    lines = lines_of(caught.value)
    own = [line for line in lines if "/skate/" in line]
    assert len(own) <= 2 and not any("/execution/" in line for line in lines), lines
    assert not any("submitted at" in line or "StopIteration" in line for line in lines), lines


def test_an_error_of_a_constructor_names_the_class() -> None:
    with pytest.raises(KeyError) as caught:
        dataset().map_batches(Unmade, concurrency=1).take_all()
    lines = lines_of(caught.value)
    assert any("ray::MapWorker(MapBatches(Unmade)).__init__()" in line for line in lines), lines
    assert not any("submitted at" in line or "/execution/" in line for line in lines), lines


@pytest.mark.parametrize("in_driver", [True, False])
def test_a_wrong_result_is_explained_without_a_trace(in_driver: bool) -> None:
    with pytest.raises(ValueError) as caught:
        dataset(in_driver).map(lambda row: 5).take_all()
    title, text = str(caught.value).splitlines()
    assert title.startswith("ray::ReadRange->Map(<lambda>)()")
    assert "returned this int for row 0" in text


def test_the_settings_can_ask_for_the_frames_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skate.data.DataContext.get_current(), "log_internal_stack_trace", True)
    with pytest.raises(RayTaskError) as caught:
        dataset().map(fail).take_all()
    assert any("/execution/" in line for line in lines_of(caught.value))


def test_tasks_and_actors_are_listed_by_operator() -> None:
    with pytest.raises(KeyError):
        dataset().map(fail).take_all()
    with pytest.raises(KeyError):
        dataset().map_batches(Failing, concurrency=1).take_all()
    names = {task["name"] for task in list_tasks()}
    assert {"ReadRange->Map(fail)", "MapWorker(MapBatches(Failing)).submit"} <= names
