"""Drains: which the head accepts, where nothing goes any more, and when the drained node leaves."""

from __future__ import annotations

from typing import Any

import pytest

from skate.core.cluster.node_drains import ACTORS_SECONDS, IDLE, LATE_SECONDS
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import LeaveCluster, Spawn
from skate.protocol.states import ALIVE, DEAD, RESTARTING
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig
from tests.core.test_definitions import define, submit

PREEMPTION = "DRAIN_NODE_REASON_PREEMPTION"
HEAD, FIRST, SECOND = 50, 51, 52


def name(cid: int) -> bytes:
    return f"node{cid}".encode().ljust(28, b".")


def info(cid: int, **more: Any) -> dict[str, Any]:
    return {"node_id": name(cid), "total": {"CPU": CPU}, "labels": {}, **more}


def head() -> Rig:
    """Return a head without CPUs, with two nodes of one CPU."""
    rig = Rig(cpus=0)
    for cid in (FIRST, SECOND):
        rig.core.cluster.join(cid, info(cid), 0.0)
    return rig


def member(**options: Any) -> Rig:
    """Return a node with one CPU, whose head is another one."""
    rig = Rig(cpus=1, drivers=0)
    rig.core.cluster.join(HEAD, info(HEAD, head=True), 0.0)
    return rig


def ask(rig: Rig, cid: int, reason: str = PREEMPTION, seconds: int = -1) -> tuple[bool, str]:
    rig.send(1, m.REQUEST, 7, "drain_node", (name(cid), reason, "a spot instance", seconds))
    ((_, _, ok, answer),) = rig.received(1, m.REPLY)
    assert ok
    return answer


def forwarded(rig: Rig, kind: int = 0, key: bytes = b"g", **more: Any) -> bytes:
    """Give a node a task of its head."""
    rig.send(HEAD, m.FUNCTION, b"code of " + key, b"blob", ())
    fields = {"name": "g", "function": b"code of " + key, "request": {"CPU": CPU}, **more.pop("fields", {})}
    rig.send(HEAD, m.TEMPLATE, key, fields)
    task_id = more.pop("task_id", rig.count.to_bytes(8, "little") + name(HEAD)[:8] + bytes(8))
    rig.count += 1
    sent = {"attempt": 0, "retries": 0, "job": "", "namespace": "", **more}
    rig.send(HEAD, m.FORWARD, kind, task_id, key, b"", (), (), b"", sent)
    return task_id


def test_nothing_goes_to_a_node_that_drains():
    rig = head()
    assert ask(rig, FIRST, seconds=30) == (True, "")
    reason = "was preempted (a spot instance)"
    for cid in (FIRST, SECOND):
        assert rig.received(cid, m.DRAIN) == [(m.DRAIN, name(FIRST), reason, 30)]
    define(rig, b"f")
    submit(rig, b"f")
    submit(rig, b"f")
    assert len(rig.received(SECOND, m.FORWARD)) >= 1 and not rig.received(FIRST, m.FORWARD)
    rig.now = 10.0
    third = rig.core.next_cid = 60
    rig.core.clock.now = rig.now
    rig.core.cluster.join(third, info(third), rig.now)
    rig._collect()
    assert rig.received(third, m.DRAIN) == [(m.DRAIN, name(FIRST), reason, 20)]
    (row,) = [each for each in rig.core.inventory.rows("nodes") if each["draining"]]
    assert (row["node_id"], row["draining"], row["seconds_left"]) == (name(FIRST).hex(), reason, 20)


@pytest.mark.parametrize(
    ("cid", "reason", "why"),
    [
        (99, PREEMPTION, "no node"),
        (FIRST, IDLE, "not idle"),
        (SECOND, PREEMPTION, "is dead"),
        (FIRST, "tired", "must be"),
    ],
)
def test_a_drain_is_rejected(cid: int, reason: str, why: str):
    rig = head()
    define(rig, b"f")
    rig.core.cluster.left(SECOND, "was lost", 0.0)
    submit(rig, b"f")
    accepted, text = ask(rig, cid, reason)
    assert not accepted and why in text
    assert not rig.received(FIRST, m.DRAIN)


def test_the_head_cannot_be_drained():
    rig = head()
    rig.send(1, m.REQUEST, 7, "drain_node", (rig.core.members.here.node_id, PREEMPTION, "", -1))
    ((_, _, _, (accepted, text)),) = rig.received(1, m.REPLY)
    assert not accepted and "head" in text


def test_an_idle_node_leaves_at_once_and_a_busy_one_when_its_task_has_ended():
    rig = member()
    task_id = forwarded(rig)
    (worker,) = rig.shell_cids(Spawn)
    rig.send(HEAD, m.DRAIN, rig.core.members.here.node_id, "was preempted", -1)
    for _ in range(5):
        rig.tick(1.0)
    assert not rig.shell(LeaveCluster)
    rig.done(worker, task_id)
    rig.tick(0.1)
    assert rig.shell(LeaveCluster) == [LeaveCluster("was preempted")]


def test_a_node_leaves_at_its_deadline_whatever_runs():
    rig = member()
    forwarded(rig)
    rig.send(HEAD, m.DRAIN, rig.core.members.here.node_id, "was preempted", 3)
    for _ in range(29):
        rig.tick(0.1)
    assert not rig.shell(LeaveCluster)
    for _ in range(3):
        rig.tick(LATE_SECONDS)
    assert rig.shell(LeaveCluster)


@pytest.mark.parametrize("restarts", [0, 1])
def test_an_actor_that_may_restart_is_asked_to_end_and_another_keeps_the_node(restarts: int):
    rig = member()
    life = {"max_restarts": restarts, "max_task_retries": 0, "restarts": 0, "concurrent": False}
    actor_id = forwarded(rig, 1, fields={"kind": "class"}, life=life, task_id=b"actor".ljust(16, b"."))
    (worker,) = rig.shell_cids(Spawn)
    rig.done(worker, actor_id)
    assert rig.core.actors.actors[actor_id].state == ALIVE
    rig.send(HEAD, m.DRAIN, rig.core.members.here.node_id, "was preempted", -1)
    rig.tick(0.1)
    asked = rig.received(worker, m.EXIT)
    assert bool(asked) == bool(restarts)
    if not restarts:
        rig.tick(2 * ACTORS_SECONDS)
        assert not rig.shell(LeaveCluster)
        return
    assert not rig.shell(LeaveCluster)
    rig.received(HEAD, m.ACTOR_REPORT)
    rig.lose(worker)
    rig.tick(0.1)
    assert rig.shell(LeaveCluster)
    assert not rig.received(HEAD, m.ACTOR_REPORT), "the head restarts it when the node has left"


@pytest.mark.parametrize(("drained", "state", "restarts"), [(True, RESTARTING, 1), (False, DEAD, 1)])
def test_a_restart_after_a_drain_does_not_count(drained: bool, state: Any, restarts: int):
    rig = head()
    define(rig, b"c", kind="class")
    actor_id = b"\0\0\0\1\0\0\0".ljust(16, b"a")
    fields = {"max_restarts": 1, "detached": True, "actor_name": "a"}
    rig.send(1, m.CREATE_ACTOR, actor_id, b"c", b"", (), (), b"", fields)
    (place,) = [cid for cid in (FIRST, SECOND) if rig.received(cid, m.FORWARD)]
    rig.send(place, m.ACTOR_REPORT, actor_id, ALIVE, 1, 5, None)  # its only restart is used up
    if drained:
        assert ask(rig, place) == (True, "")
    rig.core.cluster.left(place, "was lost", 1.0)
    rig._collect()
    actor = rig.core.actors.actors[actor_id]
    assert (actor.state, actor.restarts) == (state, restarts)
    other = FIRST + SECOND - place
    assert bool(rig.received(other, m.FORWARD)) == drained


def test_a_node_that_is_to_stop_asks_its_head_and_a_head_leaves_at_once():
    rig = member()
    rig.report(se.StopWanted(se.STOP_WANTED, 15))
    assert rig.received(HEAD, m.DRAIN) == [(m.DRAIN, rig.core.members.here.node_id, "was stopped", 15)]
    assert not rig.shell(LeaveCluster)
    above = head()
    above.send(FIRST, m.DRAIN, name(FIRST), "was stopped", 15)
    assert (
        above.received(FIRST, m.DRAIN)
        == above.received(SECOND, m.DRAIN)
        == [(m.DRAIN, name(FIRST), "was stopped", 15)]
    )
    above.send(FIRST, m.DRAIN, name(SECOND), "was stopped", 15)
    assert not above.received(SECOND, m.DRAIN), "only the head drains others"
    above.report(se.StopWanted(se.STOP_WANTED, 15))
    assert above.shell(LeaveCluster)
