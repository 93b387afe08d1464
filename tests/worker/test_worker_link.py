"""Reports of a worker to its node about the waits of its tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skate.worker.main import WorkerLink

CPU = {"CPU": 10_000}


class Channel:
    """Counts what is written."""

    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> bool:
        self.flushed += 1
        return True


class Executor:
    """Records reported waits."""

    def __init__(self) -> None:
        self.waits: list[bytes] = []

    def block(self, task_id: bytes, in_main: bool) -> None:
        assert in_main
        self.waits.append(task_id)


def link_of(
    actor_id: bytes, resources: dict[str, int], task_id: bytes = b"task"
) -> tuple[WorkerLink, Any, Any]:
    context: Any = SimpleNamespace(actor_id=actor_id, task_id=lambda: task_id, resources=lambda: resources)
    channel: Any = Channel()
    process: Any = SimpleNamespace(pending={}, pump=None)
    link = WorkerLink(channel, context, process)
    executor: Any = Executor()
    link.executor = executor
    return link, channel, executor


@pytest.mark.parametrize("resources", [{}, {"CPU": 0}, {"GPU": 10_000}])
def test_a_short_wait_of_an_actor_without_a_cpu_is_not_reported(resources: dict[str, int]) -> None:
    link, channel, executor = link_of(b"actor", resources)
    assert link.block(lasting=False) is False
    assert (executor.waits, channel.flushed) == ([], 1)
    assert link.block() is True
    assert (executor.waits, channel.flushed) == ([b"task"], 2)


@pytest.mark.parametrize(("actor_id", "resources"), [(b"", {}), (b"", CPU), (b"actor", CPU)])
def test_other_waits_are_reported_at_once(actor_id: bytes, resources: dict[str, int]) -> None:
    link, channel, executor = link_of(actor_id, resources)
    assert link.block(lasting=False) is True
    assert (executor.waits, channel.flushed) == ([b"task"], 1)


def test_a_thread_without_a_task_reports_nothing() -> None:
    link, channel, executor = link_of(b"actor", CPU, task_id=b"")
    assert link.block() is False
    assert (executor.waits, channel.flushed) == ([], 1)
