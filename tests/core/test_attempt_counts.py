"""The numbers of attempts are those of the rows of tasks, while the history remembers all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from skate.core.task import task_history
from skate.protocol import messages as m
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig, first


def walked(rig: Rig) -> Counter[tuple[str, int, str]]:
    """Count the rows of tasks by name, kind and state."""
    return Counter((row["name"], row["kind"], row["state"]) for row in rig.core.inventory.rows("tasks"))


def kept(rig: Rig) -> Counter[tuple[str, int, str]]:
    """Return the numbers that are kept."""
    rows: list[dict[str, Any]] = rig.core.inventory.rows("attempts")
    return Counter({(row["name"], int(row["kind"]), row["state"]): row["number"] for row in rows})


def check(rig: Rig) -> Counter[tuple[str, int, str]]:
    found = kept(rig)
    assert found == walked(rig)
    return found


def test_tasks_with_failures_and_retries() -> None:
    rig = Rig(cpus=1)
    task = rig.submit(name="f", retries=2)
    waiting = rig.submit(first(task), name="takes one")
    check(rig)
    for _ in range(2):
        rig.done(rig.worker_of(task), task, m.FAILED, ("RayTaskError", {}), retriable=True)
        check(rig)
    rig.done(rig.worker_of(task), task)
    check(rig)
    rig.done(rig.worker_of(waiting), waiting, m.FAILED, ("RayTaskError", {}))
    lost = rig.submit(name="lost")
    rig.lose(rig.worker_of(lost))
    found = check(rig)
    assert found["f", 0, "FAILED"] == 2 and found["f", 0, "FINISHED"] == 1
    assert found["takes one", 0, "FAILED"] == found["lost", 0, "FAILED"] == 1


def test_actors_and_their_calls() -> None:
    rig = Rig(cpus=1)
    actor, worker = rig.living()
    calls = [rig.call(actor) for _ in range(3)]
    check(rig)
    rig.done(worker, calls[0])
    rig.done(worker, calls[1], m.FAILED, ("RayTaskError", {}))
    found = check(rig)
    assert found["call", 2, "FINISHED"] == found["call", 2, "FAILED"] == 1
    rig.lose(worker)
    found = check(rig)
    assert found["Actor.__init__", 1, "FINISHED"] == 1 and found["call", 2, "FAILED"] == 2
    rig.create(request={"CPU": CPU})
    check(rig)


def test_more_attempts_than_the_history_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_history, "FINISHED_MAX", 3)
    rig = Rig()
    for _ in range(5):
        task = rig.submit(name="f")
        rig.done(rig.worker_of(task), task)
    assert kept(rig) == {("f", 0, "FINISHED"): 5} and walked(rig) == {("f", 0, "FINISHED"): 3}
