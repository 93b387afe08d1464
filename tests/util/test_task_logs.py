"""Logs of single tasks and of streams that are followed, inside a session and over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import skate
from skate.util import state
from skate.util.state.exception import RayStateApiException
from skate.util.state.logs import LogReader
from tests.conformance.waiting import wait_for


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=1, object_store_memory=10**8, log_to_driver=False)
    yield
    skate.shutdown()


@skate.remote
def say(text: str) -> tuple[str, int]:
    import os
    import sys

    print(text, end="")
    print(text, "in error", file=sys.stderr)
    return skate.get_runtime_context().get_task_id() or "", os.getpid()


def log(**how: object) -> str:
    try:
        return "".join(state.get_log(**how))  # type: ignore[arg-type]
    except RayStateApiException:
        return ""


def test_each_task_has_its_own_lines() -> None:
    texts = ["one\ntwo\n", "\nblank\n\n", "unended", "after\n"]
    ids = skate.get([say.remote(text) for text in texts])
    assert len({pid for _, pid in ids}) == 1, "one worker has run all"
    whole = "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)
    errors = "".join(f"{text} in error\n" for text in texts)
    pid = ids[0][1]
    wait_for(lambda: log(pid=pid).endswith(whole), what="the lines")
    # The two streams are read from two pipes, either of which may come first.
    wait_for(lambda: log(pid=pid, suffix="err").endswith(errors), what="the lines of the error stream")
    for text, (task_id, _) in zip(texts, ids, strict=True):
        assert log(task_id=task_id) == (text if text.endswith("\n") else f"{text}\n")
        assert log(task_id=task_id, suffix="err") == f"{text} in error\n"
        assert log(task_id=task_id, tail=1) == text.splitlines()[-1] + "\n"
    with pytest.raises(RayStateApiException, match="no output"):
        next(state.get_log(task_id="00" * 24))  # type: ignore[call-overload]


def test_what_a_task_has_printed_is_there_once_its_result_is() -> None:
    missing = []
    for number in range(60):
        task_id, _ = skate.get(say.remote(f"line {number}\n"))
        if log(task_id=task_id) != f"line {number}\n":
            missing.append(number)
    assert not missing


def test_each_attempt_has_its_own_lines(tmp_path: Path) -> None:
    @skate.remote(max_retries=2, retry_exceptions=True)
    def third_time_lucky() -> str:
        with (tmp_path / "attempts").open("a+") as file:
            file.write("x")
            number = file.tell()
        print("attempt", number)
        if number < 3:
            raise ValueError("again")
        return skate.get_runtime_context().get_task_id() or ""

    task_id = skate.get(third_time_lucky.remote())
    for number in range(3):
        expected = f"attempt {number + 1}\n"
        wait_for(
            lambda n=number, e=expected: log(task_id=task_id, attempt_number=n) == e,  # type: ignore[misc]
            what=expected,
        )


def test_a_task_is_followed_to_its_end(tmp_path: Path) -> None:
    @skate.remote
    def waits() -> None:
        print("before", flush=True)
        while not (tmp_path / "go").exists():
            threading.Event().wait(0.01)
        print("after")

    ref = waits.remote()
    texts = state.get_log(task_id=ref.task_id().hex(), follow=True, _interval=0.01)
    said = ""
    for text in texts:
        said += text
        if said == "before\n":
            (tmp_path / "go").touch()
    assert said == "before\nafter\n"
    assert skate.get(ref) is None


def test_an_actor_is_followed_to_its_end() -> None:
    @skate.remote(num_cpus=0)
    class Speaker:
        def say(self, text: str) -> None:
            print(text)

    actor = Speaker.remote()
    skate.get(actor.say.remote("first"))
    actor_id = actor._actor_id.hex()
    wait_for(lambda: "first" in log(actor_id=actor_id), what="the line")
    texts = state.get_log(actor_id=actor_id, follow=True, tail=1, _interval=0.01)
    assert next(iter(texts)) == "first\n"
    skate.get(actor.say.remote("second"))
    assert next(iter(texts)) == "second\n"
    skate.kill(actor)
    assert list(texts) == []


def test_lost_lines_are_counted() -> None:
    _, pid = skate.get(say.remote("begin\n"))
    wait_for(lambda: "begin" in log(pid=pid), what="the line")
    reader = LogReader(pid=pid)
    reader.first(-1)
    _, same = skate.get(say.remote("".join(f"{number:050}\n" for number in range(5_000))))
    assert same == pid
    wait_for(lambda: f"{4_999:050}" in log(pid=pid, tail=1), what="the last line")
    first, *others = (reader.more() or "").splitlines()
    assert first == f"[{5_000 - len(others)} lines are no longer kept]"
    assert others[-1] == f"{4_999:050}" and 100 < len(others) < 5_000
    assert reader.more() == ""
