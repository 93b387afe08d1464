"""The timeline of all processes, and its form for viewers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import skate
from skate.util.engine import record_span


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=1, object_store_memory=10**8, log_to_driver=False)
    yield
    skate.shutdown()


@skate.remote
class Recorder:
    def record(self) -> int:
        import os

        record_span("inside", "test", 1.0, 0.5, f"worker:{os.getpid()}", {"object": object()})
        record_span("own row", "test", 2.0, 0.5, "train:x")
        return os.getpid()


def test_spans_of_all_processes(tmp_path: Path) -> None:
    recorder = Recorder.remote()
    pid = skate.get(recorder.record.remote())
    record_span("driver", "test", 3.0, 0.5, "row")
    events = skate.timeline()
    assert events is not None
    found = {event["name"]: event for event in events if event["cat"] == "test"}
    assert set(found) == {"inside", "own row", "driver"}
    assert (found["inside"]["tid"], found["inside"]["ts"]) == (f"worker:{pid}", 1e6)

    path = tmp_path / "trace.json"
    skate.timeline(filename=str(path))
    written = json.loads(path.read_text())
    rows = {event["tid"]: event["args"]["name"] for event in written if event["name"] == "thread_name"}
    (node,) = (event for event in written if event["name"] == "process_name")
    assert node["args"]["name"] == "Node 127.0.0.1"
    assert rows[pid] == f"worker:{pid}" and {"train:x", "row"} <= set(rows.values())
    for event in written:
        assert event["pid"] == node["pid"] and type(event["tid"]) is int
    (task,) = (event for event in written if event["name"] == "Recorder.record")
    assert task["tid"] == pid and task["args"]["status"] == "FINISHED"


@skate.remote
def take(seconds: float) -> None:
    time.sleep(seconds)


def test_the_time_before_the_start_of_a_task(tmp_path: Path) -> None:
    skate.get([take.remote(0.05) for _ in range(3)])
    events = skate.timeline()
    assert events is not None
    ran = sorted((each for each in events if each["cat"] == "task::take"), key=lambda each: float(each["ts"]))
    waited = {
        each["args"]["task_id"]: each
        for each in events
        if each["cat"] == "task:queue" and each["args"]["name"] == "take"
    }
    assert len(ran) == len(waited) == 3
    for event in ran:
        queue = waited[event["args"]["task_id"]]
        assert queue["ts"] + queue["dur"] == pytest.approx(event["ts"], abs=1.0)
    last = waited[ran[-1]["args"]["task_id"]]
    assert last["dur"] >= 90_000, "there is one CPU, so the last one waits for the others"

    path = tmp_path / "trace.json"
    skate.timeline(filename=str(path))
    written = [each for each in json.loads(path.read_text()) if each.get("cat") == "task:queue"]
    spans: dict[str, list[str]] = {}
    for each in sorted(written, key=lambda each: float(each["ts"])):
        spans.setdefault(each["id"], []).append(each["ph"])
    assert all(phases == ["b", "e"] for phases in spans.values()), (
        "waits overlap, so they are no spans of a row"
    )
    assert [each["id"] for each in written if each["name"] == "queue: take"].count(
        f"{last['args']['task_id']}:0"
    ) == 2
