"""The end of a session whose libraries fail to end their work, or whose callbacks still run."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

import skate as ray
from skate.client.session import session
from tests.conformance.waiting import wait_for


def test_a_library_that_fails_to_end_its_work_leaves_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("the graph's file is gone")

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="the graph's file is gone"):
        patch.setattr(session, "endings", [fail])
        ray.shutdown()
    assert not ray.is_initialized()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    assert ray.get(ray.put(1)) == 1
    ray.shutdown()


def test_a_callback_of_a_session_that_ends_starts_no_other() -> None:
    begun, found = threading.Event(), []

    def callback(future: Future[Any]) -> None:
        begun.set()
        wait_for(lambda: not ray.is_initialized())  # shutdown now waits for the lock of this callback
        try:
            ray.put(1)
        except RuntimeError as error:
            found.append(str(error))

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    ray.remote(lambda: 1).remote().future().add_done_callback(callback)
    assert begun.wait(20)
    ray.shutdown()
    assert found == ["the session of this callback has ended"]
    assert not ray.is_initialized()
