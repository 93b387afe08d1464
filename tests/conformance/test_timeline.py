"""ray.timeline: what ran where and when, for a trace viewer."""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any

import pytest
import ray
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def ran(name: str) -> list[dict[str, Any]]:
    return [event for event in ray.timeline() if name in event["name"] or name in event["cat"]]


def test_util_timeline_holds_a_complete_event_per_task() -> None:
    @ray.remote
    def a_task_to_find() -> None: ...

    ray.get([a_task_to_find.remote() for _ in range(3)])
    events = wait_for(lambda: ran("a_task_to_find"), what="the tasks to appear in the timeline", timeout_s=30)
    for event in events:
        assert event["ph"] == "X"
        assert event["ts"] > 0
        assert event["dur"] >= 0
        assert {"name", "cat", "pid", "tid", "args"} <= set(event)


def test_util_timeline_holds_actor_methods() -> None:
    @ray.remote
    class Findable:
        def method_to_find(self) -> None: ...

    ray.get(Findable.remote().method_to_find.remote())
    wait_for(lambda: ran("method_to_find"), what="the method to appear in the timeline", timeout_s=30)


def test_util_timeline_writes_a_file(tmp_path: pathlib.Path) -> None:
    @ray.remote
    def a_task() -> None: ...

    ray.get(a_task.remote())
    wait_for(lambda: ray.timeline(), what="an event in the timeline", timeout_s=30)
    path = tmp_path / "timeline.json"
    assert ray.timeline(filename=str(path)) is None
    assert isinstance(json.loads(path.read_text()), list)


def test_util_timeline_has_events_by_rays_names() -> None:
    @ray.remote
    def named_in_the_timeline() -> None: ...

    @ray.remote(num_cpus=0)
    class OfTheTimeline:
        def method(self) -> None: ...

    ray.get(named_in_the_timeline.remote())
    ray.get(OfTheTimeline.remote().method.remote())
    wanted = {
        "task:execute",
        "task::named_in_the_timeline",
        "task::OfTheTimeline.__init__",
        "task::OfTheTimeline.method",
    }
    wait_for(
        lambda: wanted <= {event["cat"] for event in ray.timeline()},
        what="the events to appear",
        timeout_s=30,
    )
    for event in ray.timeline():
        if event["cat"] in wanted:
            assert event["cname"]
            assert event["tid"].startswith("worker:")
    (mine,) = [event for event in ray.timeline() if event["cat"] == "task::named_in_the_timeline"]
    assert mine["args"]["name"] == mine["name"]
    assert len(bytes.fromhex(mine["args"]["task_id"])) == 24


def test_util_timeline_counts_from_1970() -> None:
    @ray.remote
    def timed_in_the_timeline() -> None: ...

    before = time.time() * 1e6
    ray.get(timed_in_the_timeline.remote())
    (event,) = wait_for(lambda: ran("task::timed_in_the_timeline"), what="the task to appear", timeout_s=30)
    assert before - 1e6 < event["ts"] < time.time() * 1e6


@pytest.mark.chosen_difference(
    "Ray times the arguments, the results and the submission of each task as well", id="D-timeline"
)
def test_util_timeline_has_the_execution_of_a_task_alone() -> None:
    @ray.remote
    def timed_once() -> None: ...

    ray.get(timed_once.remote())
    wait_for(lambda: ran("timed_once"), what="the task to appear", timeout_s=30)
    kinds = {event["cat"] for event in ray.timeline() if not event["cat"].startswith("task::")}
    assert not kinds & {"task:deserialize_arguments", "task:store_outputs", "submit_task"}
