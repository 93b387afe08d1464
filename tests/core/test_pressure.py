"""Reactions of a node to memory pressure: tasks held back, workers ended, retries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.core.memory.memory_pressure import (
    HELPFUL_OF_LARGEST,
    HOLD_BACK_SECONDS,
    LOST,
    LOST_ACTOR,
    RESTARTABLE,
    RETRIABLE,
    Candidate,
    choose,
)
from skate.core.task.retry_policy import OOM_RETRIES_MAX
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import KillWorker, Spawn
from skate.protocol.states import QUEUED, SENT
from tests.core.rig import Rig

MIB = 1 << 20
LIMIT = 1000 * MIB


class Short(Rig):
    """A node whose memory the test sets: `use` in MiB, and the memory of each worker."""

    def look(self, use: int, **held: int) -> None:
        resident = {int(name[1:]): size * MIB for name, size in held.items()}
        others = (("the driver", MIB),)
        self.report(se.MemoryReading(se.MEMORY_READING, use * MIB, LIMIT, "a test", resident, others))

    def ended(self, worker: int) -> None:
        assert self.shell_cids(KillWorker) == [worker]
        self.lose(worker)


def w(cid: int, held: int) -> dict[str, int]:
    return {f"w{cid}": held}


# ---------------------------------------------------------------- the choice


def test_who_is_tried_again_goes_first_and_of_those_the_newest():
    old, new = Candidate(1, RETRIABLE, 1.0, 500), Candidate(2, RETRIABLE, 2.0, 400)
    actor, lost = Candidate(3, RESTARTABLE, 3.0, 900), Candidate(4, LOST, 4.0, 900)
    keeper = Candidate(5, LOST_ACTOR, 5.0, 900)
    everyone = [old, new, actor, lost, keeper]
    order = []
    while everyone:
        cid = choose(everyone, 1000)
        order.append(cid)
        everyone = [each for each in everyone if each.cid != cid]
    assert order == [2, 1, 3, 4, 5]


def test_who_holds_too_little_to_help_is_passed_over():
    hog, tiny = Candidate(1, LOST, 1.0, 800), Candidate(2, RETRIABLE, 2.0, 70)
    assert choose([hog, tiny], 1000) == 1
    assert choose([Candidate(2, RETRIABLE, 2.0, 5)], 1000) is None
    assert choose([], 1000) is None


@given(
    st.lists(
        st.builds(Candidate, st.integers(1, 50), st.integers(0, 3), st.floats(0, 9), st.integers(0, 999))
    )
)
def test_the_end_of_the_chosen_one_always_helps_and_no_better_one_is_left(candidates: list[Candidate]):
    chosen = choose(candidates, 1000)
    largest = max((each.resident for each in candidates), default=0)
    able = [each for each in candidates if each.resident >= max(10, int(largest * HELPFUL_OF_LARGEST))]
    if chosen is None:
        assert not able
    else:
        best = min((each.rank, -each.since) for each in able)
        assert best in [(each.rank, -each.since) for each in able if each.cid == chosen]


# ---------------------------------------------------------------- admission


def test_below_the_first_threshold_nothing_is_held_back():
    rig = Short(cpus=2)
    first = rig.submit()
    rig.look(840, **w(rig.worker_of(first), 800))
    assert rig.state(rig.submit()) == SENT


def test_above_it_nothing_is_begun_beside_what_can_make_room_and_goes_on_once_it_has():
    rig = Short(cpus=3)
    hog = rig.submit()
    rig.tick(5)
    rig.look(870, **w(rig.worker_of(hog), 800))
    held = [rig.submit(), rig.submit()]
    assert [rig.state(each) for each in held] == [QUEUED, QUEUED]
    spawned = rig.shell_cids(Spawn)
    rig.done(rig.worker_of(hog), hog)
    assert [rig.state(each) for each in held] == [SENT, QUEUED]  # one at a time, until memory is read again
    assert len(spawned + rig.shell_cids(Spawn)) == 1
    rig.look(100)
    assert [rig.state(each) for each in held] == [SENT, SENT]


def test_what_waits_in_get_and_what_holds_little_holds_nobody_back():
    rig = Short(cpus=2)
    parent = rig.submit()
    worker = rig.worker_of(parent)
    rig.tick(5)
    rig.look(900, **w(worker, 800))
    child = rig.submit()
    assert rig.state(child) == QUEUED
    rig.send(worker, m.BLOCKED, parent)
    assert rig.state(child) == SENT
    rig.tick(5)
    rig.look(900, **w(worker, 800), **w(rig.worker_of(child), 9))
    assert rig.state(rig.submit()) == SENT


def test_memory_that_others_have_filled_holds_nobody_back_and_ends_nobody():
    rig = Short(cpus=2)
    task = rig.submit()
    rig.look(990, **w(rig.worker_of(task), 8))
    assert rig.state(rig.submit()) == SENT
    assert rig.shell_cids(KillWorker) == []


def test_what_never_ends_holds_others_back_for_a_while_only():
    rig = Short(cpus=3)
    forever = rig.submit()
    rig.look(900, **w(rig.worker_of(forever), 800))
    waiting = [rig.submit(), rig.submit()]
    assert [rig.state(each) for each in waiting] == [QUEUED, QUEUED]
    rig.now += HOLD_BACK_SECONDS + 1
    rig.look(900, **w(rig.worker_of(forever), 800))
    assert [rig.state(each) for each in waiting] == [SENT, QUEUED]  # one more, and then another wait
    rig.look(900, **w(rig.worker_of(forever), 800), **w(rig.worker_of(waiting[0]), 20))
    assert rig.state(waiting[1]) == QUEUED


def test_idle_workers_that_hold_much_leave():
    rig = Short(cpus=2)
    tasks = [rig.submit(), rig.submit()]
    workers = [rig.worker_of(each) for each in tasks]
    rig.done(workers[0], tasks[0])
    rig.look(900, **w(workers[0], 400), **w(workers[1], 400))
    assert rig.received(workers[0], m.EXIT) and not rig.received(workers[1], m.EXIT)


def test_when_the_last_task_has_ended_nothing_is_held_back_any_more():
    rig = Short()
    task = rig.submit()
    rig.look(900, **w(rig.worker_of(task), 800))
    rig.done(rig.worker_of(task), task)
    assert not rig.core.snapshot.busy
    rig.report(se.MemoryIdle(se.MEMORY_IDLE))
    assert rig.core.scheduler.held is None


# ---------------------------------------------------------------- the last resort


def test_one_is_ended_and_nobody_else_until_it_is_gone():
    rig = Short(cpus=3)
    tasks = []
    for _ in range(3):
        tasks.append(rig.submit(retries=3))
        rig.tick(1)
    workers = [rig.worker_of(each) for each in tasks]
    held = {f"w{cid}": 300 for cid in workers}
    rig.look(960, **held)
    rig.look(970, **held)
    assert rig.shell_cids(KillWorker) == [workers[2]]
    rig.lose(workers[2])
    rig.look(965, **w(workers[0], 450), **w(workers[1], 450))
    assert rig.shell_cids(KillWorker) == [workers[1]]


def test_the_error_of_a_task_that_is_not_tried_again_says_all_there_is_to_know():
    rig = Short(cpus=2)
    small, hog = rig.submit(name="small", retries=0), rig.submit(name="hog", retries=0)
    rig.look(970, **w(rig.worker_of(small), 20), **w(rig.worker_of(hog), 800))
    rig.ended(rig.worker_of(hog))
    fields = rig.error(hog)
    assert (fields["task"], fields["resident"], fields["used"], fields["limit"]) == (
        "hog", 800 * MIB, 970 * MIB, LIMIT,
    )  # fmt: skip
    assert [size for _, size in fields["top"]] == [800 * MIB, 20 * MIB, MIB]
    for part in (
        "hog",
        "800 MiB",
        "970 MiB",
        "1000 MiB",
        "a test",
        "the driver",
        "small",
        "max_retries is 0",
        "memory=",
    ):
        assert part in fields["message"], fields["message"]
    assert rig.result(small) is None


def test_a_task_ended_beside_others_is_tried_again_more_often_than_it_has_retries_but_not_for_ever():
    rig = Short(cpus=2)
    other = rig.submit(retries=0)
    hog = rig.submit(retries=1)
    pauses = []
    for _ in range(OOM_RETRIES_MAX + 1):
        worker = rig.worker_of(hog)
        rig.look(970, **w(rig.worker_of(other), 400), **w(worker, 450))
        rig.ended(worker)
        rig.look(350, **w(rig.worker_of(other), 300))
        pause = 0.0
        while rig.state(hog) == QUEUED:
            wanted = rig.tick(0.05)
            pause += 0.05
            assert wanted is not None or rig.state(hog) != QUEUED, "it waits, and nothing will wake it"
        pauses.append(pause)
    assert rig.result(hog) == "OutOfMemoryError"
    assert str(OOM_RETRIES_MAX) in rig.error(hog)["message"]
    assert pauses[0] == pytest.approx(0.1, abs=0.06) and pauses[:-1] == sorted(pauses[:-1])
    assert max(pauses) == pytest.approx(10, abs=0.1)


def test_a_task_ended_with_nobody_beside_it_uses_up_its_retries():
    rig = Short()
    hog = rig.submit(retries=2)
    for _ in range(3):
        worker = rig.worker_of(hog)
        rig.look(970, **w(worker, 900))
        rig.ended(worker)
        rig.tick(1)
    assert rig.result(hog) == "OutOfMemoryError"
    assert "max_retries=2" in rig.error(hog)["message"]


def test_it_is_tried_again_only_when_there_is_room_for_what_it_held():
    rig = Short(cpus=2)
    other, hog = rig.submit(retries=0), rig.submit(retries=3)
    rig.tick(5)
    rig.look(970, **w(rig.worker_of(other), 480), **w(rig.worker_of(hog), 480))
    rig.ended(rig.worker_of(hog))
    for _ in range(10):
        rig.look(500, **w(rig.worker_of(other), 480))
        rig.tick(1)
        assert rig.state(hog) == QUEUED
    rig.done(rig.worker_of(other), other)
    rig.tick(1)
    assert rig.state(hog) == SENT


def test_a_call_of_an_actor_that_is_ended_fails_with_the_reason_and_the_actor_restarts_if_it_may():
    rig = Short(cpus=1)
    for restarts, later in ((0, "ActorDiedError"), (1, "ActorUnavailableError")):
        actor, worker = rig.living(max_restarts=restarts)
        call = rig.call(actor)
        rig.look(970, **w(worker, 900))
        rig.ended(worker)
        assert rig.result(call) == "OutOfMemoryError"
        assert "call" in rig.error(call)["message"]
        assert rig.result(rig.call(actor)) == later
    rig.tick(1)
    assert rig.state(actor) == SENT
