"""`skate report`: one HTML file with what failed and where, what waits and why, and no way to run anything."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate.command import report
from skate.util.report import Snapshot, take_snapshot, write_report
from skate.util.report.page import page
from skate.util.report.timeline import picture
from tests.conformance.waiting import Gate

VOID = {"meta", "link", "br", "img"}


class Outline(HTMLParser):
    """Checks that tags are closed, and collects what a page could load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [
            f"{name}={value}"
            for name, value in attrs
            if name in ("href", "src", "action") or name[:2] == "on"
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def is_inert(text: str) -> bool:
    found = outline(text)
    return not found.links and not {"script", "iframe", "img", "link"} & found.tags and "url(" not in text


@ray.remote
def fails(text: str) -> None:
    raise ValueError(text)


@ray.remote
def waits_for(gate: Gate) -> None:
    gate.wait()


@ray.remote
def second(argument: Any) -> None:
    pass


def test_report_of_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="no session is running"):
        write_report(tmp_path / "report.html")
    gate = Gate(tmp_path / "gate")
    ray.init(num_cpus=2, log_to_driver=False)
    try:
        with pytest.raises(ValueError, match="broken"):
            ray.get(fails.remote("broken <script>alert(1)</script>"))
        first = waits_for.remote(gate)
        refs = [second.remote(first) for _ in range(3)]
        kept = ray.put(bytes(3 << 20))
        assert report.main(["-o", str(tmp_path / "report.html")]) == 0
        assert "report.html" in capsys.readouterr().out
        text = (tmp_path / "report.html").read_text()
        gate.open()
        ray.get(refs)
        del kept
    finally:
        gate.open()
        ray.shutdown()
    assert is_inert(text)
    assert "broken &lt;script&gt;alert(1)" in text
    line = fails._function.__code__.co_firstlineno + 2
    assert f"tests/test_report.py:{line}</td>" in text
    assert re.search(r"<tr><td>second</td><td class=number>3</td><td>[A-Z_]+</td><td>[^<]+</td>", text)
    assert f"{3.0:.3}" in text and "Failures (1)" in text and "Waiting tasks (3)" in text


def test_a_large_session_makes_a_small_file() -> None:
    now = time.time()
    task = {
        "state": "FAILED", "name": "f", "func_or_class_name": "f", "error_message": "x" * 100_000, "waits_for": None,
        "creation_time_ms": 1, "start_time_ms": 2, "end_time_ms": 5,
    }  # fmt: skip
    tasks = [task | {"error_message": f"{'<x' * 50_000}\nerror {number}"} for number in range(300)]
    events = [
        {"cat": "task::f", "name": f"f{number % 3}", "ts": number * 10.0, "dur": 9.0, "pid": f"10.0.0.{number % 100}",
         "tid": f"worker:{number % 400}", "args": {"status": "FINISHED"}}
        for number in range(50_000)
    ]  # fmt: skip
    text = page(Snapshot(now, "Skate", {}, {}, [], [], tasks, [], [], [], events))
    assert is_inert(text)
    assert len(text) < 2 << 20
    assert "100 more are not shown" in text and "336 more workers are not shown" in text


def test_tasks_that_touch_are_one_box() -> None:
    def event(at: float, name: str, status: str = "FINISHED") -> dict[str, Any]:
        return {
            "cat": f"task::{name}",
            "name": name,
            "ts": at,
            "dur": 1.0,
            "pid": "a",
            "tid": "worker:1",
            "args": {"status": status},
        }

    many = picture([event(number, "f") for number in range(100_000)])
    assert many.count("<rect") == 1 and "100000 tasks" in many
    apart = picture([event(0, "f"), event(50, "g"), event(99, "f", "FAILED")])
    assert apart.count("<rect") == 3 and apart.count('class="failed"') == 1
    assert picture([]) == "<p>No task has ended.</p>"


def test_snapshot_needs_a_session() -> None:
    with pytest.raises(RuntimeError, match="call init"):
        take_snapshot()
