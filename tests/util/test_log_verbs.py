"""`skate logs`, and the same questions over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate
from skate.command import main
from skate.dashboard.app import guarded
from skate.dashboard.guard import Guard
from skate.util import state
from tests.conformance.waiting import wait_for
from tests.dashboard.asking import access, ask, bearer

RED = "\x1b[31mred\x1b[0m"


@skate.remote(num_cpus=0)
class Speaker:
    def say(self, text: str) -> tuple[str, int]:
        import os
        import sys

        print(text)
        print("error", file=sys.stderr)
        return skate.get_runtime_context().get_task_id() or "", os.getpid()


@pytest.fixture(scope="module")
def speaker() -> Iterator[Speaker]:
    skate.init(num_cpus=1, object_store_memory=10**8, log_to_driver=False)
    yield Speaker.remote()
    skate.shutdown()


@pytest.fixture(scope="module")
def said(speaker: Speaker) -> tuple[str, int]:
    """Return the id of a task that has printed, and its pid."""
    first, pid = skate.get(speaker.say.remote(RED))
    last, _ = skate.get(speaker.say.remote("last"))
    wait_for(lambda: f"worker-{pid}.err" in state.list_logs().get("worker_err", ()), what="the streams")
    wait_for(lambda: "last" in "".join(state.get_log(task_id=last)), what="the last line")
    return first, pid


def test_the_topics(speaker: Speaker, said: tuple[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    task_id, pid = said
    actor_id = speaker._actor_id.hex()  # type: ignore[attr-defined]
    for words, expected in (
        (["task", "--id", task_id], [RED]),
        (["task", "--id", task_id, "--err"], ["error"]),
        (["task", "--id", task_id, "--suffix", "err"], ["error"]),
        (["actor", "--id", actor_id], [RED, "last"]),
        (["actor", "--pid", str(pid), "--tail", "1"], ["last"]),
        (["worker", "--pid", str(pid), "--err"], ["error", "error"]),
        (["cluster", f"worker-{pid}.out", "--tail", "1"], ["last"]),
        ([f"*{pid}.err", "--tail", "-1"], ["error", "error"]),
    ):
        assert main(["logs", *words]) == 0, words
        lines = capsys.readouterr().out.splitlines()
        assert lines[2 if "-1" not in words else 0 :] == expected, words
        assert ("truncated" in lines[0]) is ("-1" not in words)
    assert main(["logs", "cluster"]) == 0
    listed = capsys.readouterr().out
    assert f"worker-{pid}.out" in listed and f"worker-{pid}.err" in listed
    assert main(["logs", "actor", "--id", "00" * 16]) == 2
    assert "no output" in capsys.readouterr().err
    for words in (["actor"], ["task"], ["worker"]):
        with pytest.raises(SystemExit, match="2"):
            main(["logs", *words])


@pytest.fixture(scope="module")
def app(speaker: Speaker) -> Guard:
    return guarded(access())


def test_the_same_over_http(app: Guard, speaker: Speaker, said: tuple[str, int]) -> None:
    def get(query: str, media: str = "file") -> tuple[int, str]:
        answer = ask(app, f"/api/v0/logs/{media}?{query}", headers=[bearer("read")])
        return answer.status, answer.body.decode()

    task_id, pid = said
    assert get(f"task_id={task_id}") == (200, f"{RED}\n")
    assert get(f"task_id={task_id}&filter_ansi_code=True") == (200, "red\n")
    assert get(f"task_id={task_id}&suffix=err&attempt_number=0") == (200, "error\n")
    assert get(f"pid={pid}&lines=1") == (200, "last\n")
    assert get(f"filename=worker-{pid}.err&lines=-1") == (200, "error\nerror\n")
    assert get(f"task_id={task_id}", "stream") == (200, f"{RED}\n"), "it has ended, so the stream ends"
    for query, status in (
        ("pid=1", 404), ("task_id=" + "00" * 24, 404), ("pid=x", 400), ("", 400), (f"pid={pid}&lines=x", 400),
        (f"pid={pid}&suffix=log", 400), (f"pid={pid}&node_id=00", 404), ("filename=../../etc/passwd", 400),
        (f"task_id={task_id}&attempt_number=5", 404), ("task_id=zz", 400),
    ):  # fmt: skip
        assert get(query)[0] == status, query
    assert get(f"pid={pid}", "video")[0] == 404
    answer = ask(
        app, f"/api/v0/logs/file?pid={pid}&download_filename=a.txt%22%0d%0aX: y", headers=[bearer("read")]
    )
    assert answer.headers["content-disposition"] == 'attachment; filename="file.txt"'
