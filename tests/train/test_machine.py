"""The state machine of a run: hypothesis walks it and compares it with a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from skate.train.configs import FailureConfig, ScalingConfig
from skate.train.controller import machine as machines
from skate.train.controller.machine import Commit, Fail, Finish, Machine, Release, Start, Stop


def running(workers: Any = 2, **failure: Any) -> Machine:
    machine = Machine(ScalingConfig(num_workers=workers), FailureConfig(**failure))
    machine.begin(64)
    machine.started()
    return machine


def test_a_report_is_taken_once_all_ranks_have_come() -> None:
    machine = running(3)
    assert machine.arrived(0, "report", 0, "a", 0.0) == []
    assert machine.arrived(2, "report", 0, "c", 0.0) == []
    assert machine.arrived(1, "report", 0, "b", 0.0) == [Commit(0, ("a", "b", "c"))]


def test_ranks_that_run_ahead_are_counted_by_report() -> None:
    machine = running(2)
    assert machine.arrived(0, "report", 0, "a0", 0.0) == []
    assert machine.arrived(0, "report", 1, "a1", 0.0) == []
    assert machine.arrived(1, "report", 0, "b0", 0.0) == [Commit(0, ("a0", "b0"))]
    assert machine.arrived(1, "report", 1, "b1", 0.0) == [Commit(1, ("a1", "b1"))]


def test_a_collective_gives_all_what_rank_zero_brought() -> None:
    machine = running(2)
    machine.arrived(1, "collective", 0, None, 0.0)
    assert machine.arrived(0, "collective", 0, {"x": 1}, 0.0) == [Release(0, {"x": 1})]


def test_the_first_failure_is_the_run_s_and_ends_it() -> None:
    machine = running(2)
    first, second = ValueError("a"), KeyError("b")
    actions = machine.failed([(1, first), (0, second)], 2, False)
    assert actions == [Stop("rank 1, rank 0 failed"), Fail({1: first, 0: second}, "worker")]
    assert list(actions[1].failures) == [1, 0]
    assert machine.state == machines.ERRORED


@pytest.mark.parametrize("allowed", [1, 3])
def test_as_many_failures_as_allowed_start_the_group_anew(allowed: int) -> None:
    machine = running(2, max_failures=allowed)
    for attempt in range(2, allowed + 2):
        _, start = machine.failed([(0, ValueError())], 2, False)
        assert start.attempt == attempt and start.workers == 2
        assert start.delay < 1
        machine.started()
    assert isinstance(machine.failed([(0, ValueError())], 2, False)[1], Fail)


def test_lost_nodes_have_a_count_of_their_own() -> None:
    machine = running(2, max_failures=0)
    for _ in range(5):
        assert isinstance(machine.failed([(0, OSError())], 2, True)[1], Start)
        machine.started()
    assert isinstance(machine.failed([(0, OSError())], 2, False)[1], Fail)
    machine = running(2, max_preemption_failures=0)
    assert machine.failed([(0, OSError())], 2, True)[1].kind == "preemption"


def test_what_an_attempt_left_does_not_reach_the_next() -> None:
    machine = running(2, max_failures=1)
    machine.arrived(0, "report", 0, "old", 0.0)
    machine.finished(1, "old")
    machine.failed([(0, ValueError())], 2, False)
    assert machine.arrived(1, "report", 0, "late", 0.0) == []
    machine.started()
    assert machine.arrived(0, "report", 0, "new", 0.0) == []
    assert machine.arrived(1, "report", 0, "new", 0.0) == [Commit(0, ("new", "new"))]
    assert machine.finished(0, 1) == []
    assert machine.finished(1, 2) == [Finish((1, 2))]


def test_reports_do_not_wait_for_ranks_that_are_lost_as_announced() -> None:
    machine = running(3, relax_collectives_on_preemption=True)
    machine.arrived(0, "report", 0, "a", 0.0)
    machine.arrived(1, "report", 0, "b", 0.0)
    machine.arrived(0, "collective", 0, "announced?", 0.0, True)
    machine.arrived(0, "collective", 1, "of the program", 0.0)
    machine.arrived(1, "collective", 1, None, 0.0)
    assert machine.relax([2]) == [Commit(0, ("a", "b", None))]
    assert machine.arrived(1, "collective", 0, None, 0.0, True) == [Release(0, "announced?")]
    assert machine.arrived(1, "report", 1, "b", 0.0) == []
    assert machine.arrived(0, "report", 1, "a", 0.0) == [Commit(1, ("a", "b", None))]
    machine.failed([(2, OSError())], 3, True)
    machine.started()
    machine.arrived(0, "report", 0, "a", 0.0)
    assert machine.arrived(1, "report", 0, "b", 0.0) == []  # the next attempt has all ranks


@pytest.mark.parametrize(("relaxed", "lost"), [(False, [2]), (True, [0]), (True, [0, 2])])
def test_reports_wait_for_lost_ranks_unless_told_otherwise_and_always_for_rank_0(
    relaxed: bool, lost: list[int]
) -> None:
    machine = running(3, relax_collectives_on_preemption=relaxed)
    for rank in {0, 1, 2} - set(lost):
        machine.arrived(rank, "report", 0, "x", 0.0)
    assert machine.relax(lost) == []
    assert machine.late(9.0, 5.0)[0][1] == lost


def test_an_elastic_run_starts_with_what_there_is_and_grows() -> None:
    machine = Machine(ScalingConfig(num_workers=(2, 4)), FailureConfig())
    assert machine.begin(3)[0].workers == 3
    machine.started()
    assert machine.capacity_found(3) == []
    stop, start = machine.capacity_found(9)
    assert isinstance(stop, Stop) and start.workers == 4
    machine.started()
    assert machine.capacity_found(9) == []


def test_an_elastic_run_shrinks_after_a_loss_but_not_below_its_least() -> None:
    machine = running((2, 4))
    assert machine.workers == 4
    assert machine.failed([(3, OSError())], 3, True)[1].workers == 3
    machine.started()
    assert machine.failed([(2, OSError())], 1, True)[1].workers == 2


def test_a_run_that_has_begun_to_end_does_not_grow() -> None:
    machine = running((1, 4))
    machine = Machine(ScalingConfig(num_workers=(1, 4)), FailureConfig())
    machine.begin(2)
    machine.started()
    machine.finished(0, None)
    assert machine.capacity_found(4) == []


def test_starts_that_fail_are_tried_again_with_longer_pauses() -> None:
    machine = Machine(ScalingConfig(num_workers=2), FailureConfig(controller_failure_limit=3))
    machine.begin(2)
    delays = [machine.start_failed(OSError(), 2)[1].delay for _ in range(3)]
    assert delays == sorted(delays) and len(set(delays)) == 3
    assert machine.start_failed(OSError("no"), 2)[1].kind == "start"


def test_ranks_that_are_late_are_named() -> None:
    machine = running(3)
    machine.arrived(1, "report", 0, None, 10.0)
    assert machine.late(12.0, 5.0) == []
    ((sync_point, missing),) = machine.late(15.0, 5.0)
    assert (sync_point.kind, sync_point.number, missing) == ("report", 0, [0, 2])


def test_a_rank_that_has_returned_can_no_longer_come() -> None:
    machine = running(2)
    machine.arrived(1, "report", 0, None, 0.0)
    assert machine.unreachable_sync_points() == []
    machine.finished(0, None)
    ((sync_point, missing),) = machine.unreachable_sync_points()
    assert missing == [0] and sorted(sync_point.arrived) == [1]


class Walk(RuleBasedStateMachine):
    """Ranks arrive, fail and return; the model predicts the results."""

    @initialize(least=st.integers(1, 3), more=st.integers(0, 3), allowed=st.integers(-1, 3))
    def begin(self, least: int, more: int, allowed: int) -> None:
        self.machine = Machine(
            ScalingConfig(num_workers=(least, least + more) if more else least),
            FailureConfig(max_failures=allowed),
        )
        self.allowed = allowed
        self.failures = 0
        self.over = False
        (start,) = self.machine.begin(least)
        self.fresh(start)

    def fresh(self, start: Start) -> None:
        assert start.workers == self.machine.workers
        self.reported = [0] * start.workers
        self.returned: set[int] = set()
        self.committed = 0
        self.machine.started()

    @precondition(lambda self: not self.over)
    @rule(rank=st.integers(0, 5))
    def report(self, rank: int) -> None:
        if rank >= self.machine.workers or rank in self.returned:
            return
        number = self.reported[rank]
        self.reported[rank] += 1
        actions = self.machine.arrived(rank, "report", number, (rank, number), 0.0)
        if min(self.reported) > self.committed:
            ((number, reports),) = [(each.number, each.reports) for each in actions]
            assert number == self.committed
            assert reports == tuple((each, number) for each in range(self.machine.workers))
            self.committed += 1
        else:
            assert actions == []

    @precondition(lambda self: not self.over)
    @rule(rank=st.integers(0, 5))
    def come_back(self, rank: int) -> None:
        if rank >= self.machine.workers or rank in self.returned:
            return
        self.returned.add(rank)
        actions = self.machine.finished(rank, rank)
        if len(self.returned) == self.machine.workers:
            assert actions == [Finish(tuple(range(self.machine.workers)))]
            self.over = True
        else:
            assert actions == []

    @precondition(lambda self: not self.over)
    @rule(rank=st.integers(0, 5), room=st.integers(0, 8))
    def fail(self, rank: int, room: int) -> None:
        if rank >= self.machine.workers:
            return
        self.failures += 1
        stop, then = self.machine.failed([(rank, ValueError())], room, False)
        assert isinstance(stop, Stop)
        if 0 <= self.allowed < self.failures:
            assert isinstance(then, Fail)
            self.over = True
        else:
            self.fresh(then)

    @precondition(lambda self: not self.over)
    @rule(room=st.integers(0, 8))
    def grow(self, room: int) -> None:
        before = self.machine.workers
        actions = self.machine.capacity_found(room)
        if actions:
            assert actions[1].workers > before and not self.returned
            self.fresh(actions[1])

    @rule(rank=st.integers(0, 5))
    def late_news(self, rank: int) -> None:
        if self.over:
            state = self.machine.state
            assert self.machine.arrived(rank, "report", 99, None, 0.0) == []
            assert self.machine.finished(rank, None) == []
            assert self.machine.failed([(rank, ValueError())], 9, False) == []
            assert self.machine.capacity_found(9) == [] and self.machine.state == state

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "machine"):
            self.machine.check()


TestWalk = Walk.TestCase
