"""Costs that must not grow with the number of nodes, tasks or groups: steps are counted, not timed."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from skate.core.cluster.head_groups import PAUSE_SECONDS_PER_NODE, PLAIN_NODES_MAX, HeadGroups
from skate.core.placement.placement_table import REMOVED_MAX
from skate.core.schedule.feasibility import Feasibility
from skate.core.schedule.node_selector import NodeSelector
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.simulation.scale.head import Head


def lose(head: Head, cid: int) -> None:
    head.core.step(m.SHELL, se.DriverLeft(se.DRIVER_LEFT, cid), head.now)


class EndsOnly(deque[Any]):
    """A queue that allows access to its ends only."""

    def remove(self, value: Any) -> None:
        raise AssertionError(f"{value} is searched for in a queue of {len(self)}")


@pytest.mark.parametrize("cancels", [False, True])
def test_many_queued_tasks_that_end_at_once_are_not_searched_for(cancels: bool) -> None:
    head = Head(0, 2)
    submits = head.submits([b"plain"] * 50)
    head.run(submits)
    (group,) = head.core.scheduler.waiting
    group.queue = EndsOnly(group.queue)
    if cancels:
        head.run([(cid, (m.CANCEL, message[1], False, True)) for cid, message in submits])
    else:
        lose(head, head.driver)
    assert not group.queue
    assert len(head.core.tasks) == 2  # these run, and were asked to end


def test_the_end_of_a_worker_that_called_nothing_looks_at_no_tasks_of_others() -> None:
    head = Head(0, 1)
    head.run(head.submits([b"plain"] * 5))

    class Unseen(dict[bytes, Any]):
        def values(self) -> Any:
            raise AssertionError("all tasks are looked at")

    worker = head.here[0][0]
    head.core.step(worker, (m.DONE, head.here[0][1], m.OK, ((m.INLINE, b"v", ()),), 1, False), head.now)
    idle = head.enter()
    tasks, unseen = head.core.tasks, Unseen(head.core.tasks)
    for machine in vars(head.core).values():
        if getattr(machine, "tasks", None) is tasks and not isinstance(machine, tuple):
            machine.tasks = unseen
    lose(head, idle)
    with pytest.raises(AssertionError, match="all tasks are looked at"):
        lose(head, head.driver)


def test_removed_groups_are_forgotten_in_a_cluster_too() -> None:
    head = Head(2)
    for _ in range(REMOVED_MAX + 20):
        make, remove = head.group("PACK", 2)
        head.run([make])
        head.run(head.reservations())
        head.run([remove])
    assert len(head.core.placement.groups) == REMOVED_MAX


def waiting_group(head: Head, strategy: str, bundles: int) -> Any:
    head.run(head.reports(head.cids, 0))
    head.run([head.group(strategy, bundles)[0]])
    (group,) = head.core.placement.groups.values()
    assert group.state == "PENDING"
    return group


def test_a_group_is_planned_only_when_what_came_free_is_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    retry = HeadGroups.retry
    monkeypatch.setattr(HeadGroups, "retry", lambda self: (tried.append(1), retry(self)))
    head = Head(3)
    group = waiting_group(head, "STRICT_PACK", 2)
    tried.clear()
    head.run(head.reports(head.cids, 1))
    assert not tried
    head.run(head.reports(head.cids[1:2], 2))
    assert tried
    head.run(head.reservations())
    assert group.state == "CREATED"


def test_among_very_many_nodes_a_group_is_planned_seldom_but_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    retry = HeadGroups.retry
    monkeypatch.setattr(HeadGroups, "retry", lambda self: (tried.append(1), retry(self)))
    nodes = PLAIN_NODES_MAX + 8
    head = Head(nodes)
    group = waiting_group(head, "PACK", 3)
    tried.clear()
    head.run(head.reports(head.cids[:2], 1) + head.reports(head.cids[:2], 1))
    assert not tried
    head.run(head.reports(head.cids[2:3], 1))
    assert group.state == "PENDING"
    head.now += PAUSE_SECONDS_PER_NODE * nodes * 1.1
    head.core.tick(head.now)
    assert len(tried) == 1
    head.run([])
    head.run(head.reservations())
    assert group.state == "CREATED"


def test_nodes_that_join_or_leave_between_tasks_do_not_have_all_nodes_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[Any] = []
    candidates = NodeSelector._candidates
    judge = Feasibility._judge
    monkeypatch.setattr(NodeSelector, "_candidates", lambda *given: searched.append(0) or candidates(*given))
    head = Head(10)
    head.run(head.submits([b"plain"] * 8 + [b"spread"] * 8))
    judged: list[Any] = []
    monkeypatch.setattr(Feasibility, "_judge", lambda *given: judged.append(0) or judge(*given))
    assert len(searched) == 2
    for number in range(10, 40):
        head.join(number)
        head.run(head.submits([b"plain", b"spread"]))
    assert len({cid for cid, _ in head.running} & set(head.cids[10:])) > 25
    assert (len(searched), judged) == (2, [])
    head.run(head.answers())
    lost = head.cids.pop()
    head.core.step(m.SHELL, se.PeerLeft(se.PEER_LEFT, lost, "was lost"), head.now)
    head.run(head.reports(head.cids))
    head.run(head.submits([b"plain"] * 78 + [b"spread"] * 78))
    assert {cid for cid, _ in head.running} == set(head.cids)
    assert len(searched) == 2


def test_a_node_that_joins_is_the_only_one_that_gets_a_report() -> None:
    head = Head(10, 1)
    head.now += 60.0
    head.core.tick(head.now)
    head.core.tick(head.now + 60.0)
    head.core.effects.clear()
    head.join(10)
    head.now += 120.0
    head.core.tick(head.now)
    head.core.tick(head.now + 60.0)
    reports = [cid for cid, message in head.core.effects if message[0] == m.REPORT]
    assert reports == [head.cids[-1]]
