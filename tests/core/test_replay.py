"""The log of a core, replayed in a new core: the same effects at each step, and the same final state."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from skate.core.node import NodeCore
from skate.core.replay import Divergence, EventLog, replay
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from tests.core.rig import Rig
from tests.core.store import Store


def state_of(core: NodeCore) -> dict[str, Any]:
    """Return the state of a core, in a form that can be compared with that of another core."""
    return {
        "rows": {kind: core.inventory.rows(kind) for kind in sorted(core.inventory.kinds)},
        "history": [(*entry[:9], entry[11]) for entry in core.history.finished],
        "status": core.snapshot.status(),
        "clients": {cid: (client.job, client.namespace) for cid, client in core.clients.items()},
        "live": dict(core.allocator.arena._live),
        "free": dict(core.allocator.arena._free),
        "disks": [dict(disk._live) for disk in core.allocator.disks],
        "next": core.next_cid,
        "now": core.now,
    }


class Logged(Rig):
    """A rig that records all events of its core."""

    def __init__(self) -> None:
        super().__init__(drivers=0)
        self.log = EventLog(self.core)
        self.join()


def test_a_replay_makes_the_same_decisions_and_ends_in_the_same_state() -> None:
    rig = Logged()
    done, lost = rig.submit(), rig.submit(retries=1)
    rig.report(se.WorkerStarted(se.WORKER_STARTED, rig.worker_of(done), 77))
    rig.done(rig.worker_of(done), done)
    rig.tick(1.0)
    rig.lose(rig.worker_of(lost))
    rig.tick(10.0)
    actor_id, _ = rig.living()
    rig.call(actor_id)
    again = replay(rig.log.entries)
    assert state_of(again) == state_of(rig.core)
    assert any(row["state"] == "RUNNING" for row in again.inventory.rows("tasks"))
    again.check()


def test_a_log_of_spilling_replays() -> None:
    store = Store(drivers=0)
    log = EventLog(store.core)
    store.join()
    values = [store.put() for _ in range(6)]
    assert any(store.on_disk(*values))
    store.get(values[0])
    store.report(se.TrimDue(se.TRIM_DUE, 1 << 27))
    assert state_of(replay(log.entries)) == state_of(store.core)


def test_a_replay_stops_where_it_is_told_to() -> None:
    rig = Logged()
    task = rig.submit()
    rig.done(rig.worker_of(task), task)
    inputs = sum(pickle.loads(each)[0] == "step" for each in rig.log.entries)
    assert task in replay(rig.log.entries, until=inputs - 1).tasks
    assert task not in replay(rig.log.entries, until=inputs).tasks


def test_a_replay_names_the_input_that_has_led_to_other_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Logged()
    task = rig.submit()
    rig.done(rig.worker_of(task), task)
    monkeypatch.setattr(TaskManager, "done", lambda self, cid, message: None)
    with pytest.raises(Divergence, match=rf"input \d+, .*{m.DONE}, .*has led to other effects"):
        replay(rig.log.entries)


def test_an_input_that_fails_is_on_record() -> None:
    rig = Logged()
    with pytest.raises(KeyError):
        rig.core.step(1, (999,), 0.0)
    with pytest.raises(KeyError, match="999"):
        replay(rig.log.entries)


def test_a_closed_log_records_no_more() -> None:
    rig = Logged()
    rig.log.close()
    count = len(rig.log.entries)
    rig.submit()
    rig.tick(1.0)
    assert len(rig.log.entries) == count and rig.core.tasks
