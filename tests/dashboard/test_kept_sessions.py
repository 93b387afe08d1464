"""Sessions in files: what a killed writer leaves, room, and the answers of the page's routes without a node."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.dashboard import kept
from skate.dashboard.app import guarded
from skate.dashboard.guard import Guard
from skate.dashboard.own_api import READS
from skate.dashboard.recorder import Recorder, key_of, session_now
from skate.dashboard.session_file import SessionFile, SessionWriter
from tests.conformance.waiting import wait_for
from tests.dashboard.asking import Answer, access, ask, bearer


@skate.remote
def task(number: int) -> int:
    print("line", number)
    if number == 2:
        raise ValueError("the second one")
    return number


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=2, object_store_memory=10**8, log_to_driver=False)
    refs = [task.remote(number) for number in range(4)]
    skate.wait(refs, num_returns=4)
    skate.data.range(10).map(lambda row: row).take_all()
    yield
    skate.shutdown()


def get(app: Guard, path: str) -> Answer:
    return ask(app, path, headers=[bearer("read")])


def opened(path: Path) -> tuple[SessionFile, Guard]:
    file = SessionFile(str(path))
    return file, kept.guarded(file, access())


def test_a_saved_session_answers_as_the_session_did(session: None, tmp_path: Path) -> None:
    live = guarded(access())

    def has_lines() -> bool:
        streams = get(live, "/api/skate/logs/streams").json["streams"]
        return sum(row["end"] for row in streams) == 4

    wait_for(has_lines)
    # An answer is used again for half a second, so that of an earlier session may come first.
    wait_for(lambda: bool(get(live, "/api/skate/data").json["datasets"]))
    saved = get(live, "/api/skate/session")
    assert saved.headers["content-disposition"].startswith('attachment; filename="session-')
    path = tmp_path / "saved.skate"
    path.write_bytes(saved.body)
    file, app = opened(path)
    assert get(app, "/api/skate/memory").status == 200  # objects may be freed between two looks
    for route in ("/api/skate/rows/nodes", "/api/skate/logs/streams"):
        was = get(live, route).json
        assert was.items() <= get(app, route).json.items(), route
    first = get(app, "/api/skate/now").json
    assert first["scope"] == "read" and first["kept"]["ended"] >= first["kept"]["began"] > 0
    failed = first["failed"][0]
    assert failed["kind"] == "ValueError" and len(first["ended"]) >= 4
    again = get(app, f"/api/skate/now?cursor={first['cursor']}").json
    assert again["ended"] == again["failed"] == [], "a page that asks again hears nothing twice"
    assert get(app, f"/api/skate/task/{failed['task_id']}").json["attempts"][0]["state"] == "FAILED"
    assert get(app, f"/api/skate/task/{failed['task_id']}/lines").status == 200
    node = first["nodes"][0]["id"]
    assert get(app, f"/api/skate/rows/nodes/{node}").json["row"]["node_id"] == node
    assert len(get(app, "/api/skate/tasks?name=task&limit=50").json["rows"]) == 4
    assert get(app, "/api/skate/tasks?name=other").json["rows"] == []
    streams = get(app, "/api/skate/logs/streams").json["streams"]
    cursor = ",".join(f"{row['pid']}.{row['stream']}=0" for row in streams)
    lines = [
        line
        for row in get(app, f"/api/skate/logs/lines?cursor={cursor}").json["rows"]
        for line in row["lines"]
    ]
    assert sorted(lines) == [f"line {number}" for number in range(4)]
    key = get(app, "/api/skate/data").json["datasets"][0]["key"]
    one = get(app, f"{key_of('/api/skate/data', {'key': key})}&version=x").json["datasets"]
    assert [each["key"] for each in one] == [key]
    assert get(app, "/api/skate/rows/nodes/none").status == get(app, "/api/skate/nothing").status == 404
    assert get(app, "/").status == get(app, "/page/main.js").status == 200
    file.close()


def test_a_kept_session_is_behind_the_guard(session: None, tmp_path: Path) -> None:
    path = tmp_path / "saved.skate"
    path.write_bytes(session_now(READS))
    file, app = opened(path)
    assert ask(app, "/api/skate/now").status == 401
    assert ask(app, "/api/skate/now", headers=[("authorization", "Bearer wrong")]).status == 403
    assert ask(app, "/api/skate/now", headers=[bearer("read")], host="evil.test").status == 421
    assert ask(app, "/api/skate/now", headers=[bearer("read"), ("origin", "http://evil.test")]).status == 403
    assert (
        ask(
            app, "/api/skate/serve/try", "POST", [bearer("submit"), ("content-type", "application/json")]
        ).status
        == 405
    )
    file.close()


def test_only_changes_are_kept(session: None) -> None:
    class Sink:
        def __init__(self) -> None:
            self.keys: list[str] = []

        def add(self, key: str, at: float, answer: bytes) -> bool:
            self.keys.append(key)
            return True

    sink = Sink()
    recorder = Recorder(sink, READS)
    recorder.round()
    assert {"/api/skate/now", "/api/skate/memory", "/api/skate/rows/actors", "/api/skate/tune"} <= set(
        sink.keys
    )
    sink.keys.clear()
    recorder.round(in_full=False)
    assert "/api/skate/memory" not in sink.keys and "/api/skate/tune" not in sink.keys, sink.keys
    assert not any(key.startswith("/api/skate/task/") for key in sink.keys)
    skate.get(task.remote(7))
    sink.keys.clear()
    recorder.round(in_full=False)
    assert "/api/skate/now" in sink.keys


def test_a_recording_that_is_killed_opens(session: None, tmp_path: Path) -> None:
    path = tmp_path / "run.skate"
    options = ["--pid", str(os.getpid()), "--port", "0", "--record", str(path)]
    recorder = subprocess.Popen(
        [sys.executable, "-m", "skate.dashboard", *options],
        stdout=subprocess.PIPE,
        env={**os.environ, "SKATE_ATTACH": "1"},
    )
    try:
        wait_for(lambda: path.exists() and b"/api/skate/rows/workers" in path.read_bytes())
    finally:
        recorder.send_signal(signal.SIGKILL)
        recorder.communicate()
    assert path.stat().st_mode & 0o777 == 0o600
    file, app = opened(path)
    assert get(app, "/api/skate/now").json["nodes"] and get(app, "/api/skate/tasks").json["rows"]
    file.close()


def test_a_file_is_good_up_to_where_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "broken.skate"
    writer = SessionWriter(str(path), 1 << 20)
    sizes = [writer.bytes]
    for number in range(3):
        assert writer.add("/api/skate/x", float(number), b'{"n": %d}' % number)
        sizes.append(writer.bytes)
    writer.close()
    whole = path.read_bytes()
    for size in range(sizes[0], len(whole) + 1):
        path.write_bytes(whole[:size])
        file = SessionFile(str(path))
        places = file.places.get("/api/skate/x", [])
        assert len(places) == sum(size >= end for end in sizes[1:])
        assert [file.answer(each) for each in places] == [{"n": number} for number in range(len(places))]
        file.close()
    damaged = bytearray(whole)
    damaged[sizes[1] + 20] ^= 1
    path.write_bytes(damaged)
    file = SessionFile(str(path))
    assert len(file.places["/api/skate/x"]) == 1
    file.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"skate session 2\n", b"x" * 100],
)
def test_what_is_no_session_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is no session"):
        SessionFile(str(path))


def test_hostile_sizes_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "hostile.skate"
    bomb = struct.pack("<IIHd", 0xFFFFFFFF, 0, 5, 0.0) + b"x" * 50
    path.write_bytes(b"skate session 1\n" + bomb)
    file = SessionFile(str(path))
    assert file.places == {} and file.began == file.ended == 0
    file.close()


def test_a_file_never_becomes_larger_than_its_room(tmp_path: Path) -> None:
    path = tmp_path / "small.skate"
    writer = SessionWriter(str(path), 2000)
    answers: list[Any] = [writer.add("/api/skate/x", 0.0, os.urandom(100)) for _ in range(30)]
    writer.close()
    assert True in answers and not answers[-1] and path.stat().st_size <= 2000
    with pytest.raises(FileExistsError, match="kept in a new file"):
        SessionWriter(str(path), 2000)


def test_any_moment_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "moments.skate"
    writer = SessionWriter(str(path), 1 << 20)
    for second in range(5):
        answer = {"now": 100.0 + second, "ended": [[f"task {second}"]], "failed": [], "nodes": [second]}
        writer.add("/api/skate/now", 100.0 + second, json.dumps(answer).encode())
    writer.close()
    file, app = opened(path)

    def at(moment: str) -> tuple[list[int], int]:
        found = get(app, f"/api/skate/now?at={moment}").json
        return found["nodes"], len(found["ended"])

    assert at("") == ([4], 5)
    assert at("102.5") == ([2], 3), "the last overview before it, with what had ended until then"
    assert at("102") == ([2], 3)
    assert at("0") == ([0], 1), "before the first one"
    assert at("1e9") == ([4], 5)
    assert at("nan") == at("x") == ([4], 5)
    assert get(app, "/api/skate/now?at=102&cursor=end").json["ended"] == []
    file.close()
