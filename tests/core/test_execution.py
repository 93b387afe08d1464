"""Tasks from submission to results: arguments, retries, cancellation, the end of workers and of callers."""

import pytest

from skate.protocol import messages as m
from skate.protocol.effects import EndTask, KillWorker, Spawn
from skate.protocol.fields import Death
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig, first

WAITING, QUEUED, SENT = 0, 1, 2


def finish(rig, task, **answer):
    rig.done(rig.worker_of(task), task, **answer)


def escaped(rig, task, cid=1):
    """Return the result of a task, passed on by its caller."""
    rig.send(cid, m.ESCAPE, first(task))
    return first(task)


# ---------------------------------------------------------------- arguments


def test_a_task_waits_for_all_its_arguments():
    rig = Rig(cpus=4)
    one, two = rig.submit(), rig.submit()
    last = rig.submit(escaped(rig, one), escaped(rig, two))
    finish(rig, one)
    assert rig.state(last) == WAITING
    finish(rig, two)
    assert rig.state(last) == SENT
    (_, _, _, _, deps, _) = rig.received(rig.worker_of(last), m.EXECUTE)[-1]
    assert [(place, kind, payload) for place, _, kind, payload in deps] == [
        (0, 1, b"value"),
        (1, 1, b"value"),
    ]


def test_the_failure_of_an_argument_goes_down_the_whole_chain_once():
    rig = Rig()
    chain = [rig.submit()]
    for _ in range(3):
        chain.append(rig.submit(escaped(rig, chain[-1])))
    finish(rig, chain[0], status=m.FAILED)
    assert [rig.result(task) for task in chain] == ["RayTaskError"] * 4
    assert len(rig.received(1, m.RESULT)) == 4
    assert not rig.core.tasks


def test_a_task_given_a_value_that_has_failed_already_never_runs():
    rig = Rig()
    oid = rig.oid()
    rig.send(1, m.PUBLISH, oid, m.ERROR, ("RayTaskError", {}), (), True)
    assert rig.result(rig.submit(oid)) == "RayTaskError"
    assert rig.shell_cids(Spawn) == []


def test_an_actor_whose_constructor_takes_a_failed_value_dies_and_answers():
    rig = Rig()
    source = rig.submit()
    oid = escaped(rig, source)
    early = rig.create(oid)
    call = rig.call(early)
    finish(rig, source, status=m.FAILED)
    late = rig.create(oid)
    for actor_id in (early, late):
        assert rig.core.actors.actors[actor_id].death.fields["init_error"][0] == "RayTaskError"
    assert rig.result(call) == "ActorDiedError"


# ---------------------------------------------------------------- retries


def test_a_retriable_failure_runs_again_as_often_as_allowed():
    rig = Rig()
    task = rig.submit(retries=2)
    for attempt in range(3):
        worker = rig.worker_of(task)
        assert rig.received(worker, m.EXECUTE)[0][5] == attempt
        rig.done(worker, task, m.FAILED, retriable=True)
    assert rig.result(task) == "RayTaskError"


def test_a_crash_costs_a_retry_only_those_that_had_begun():
    rig = Rig()
    quick = rig.submit(name="quick")
    finish(rig, quick)
    begun, behind = rig.submit(name="quick"), rig.submit(name="quick")
    worker = rig.worker_of(begun)
    assert rig.worker_of(behind) == worker
    rig.lose(worker, begun=2)
    assert rig.result(begun) == "WorkerCrashedError"
    assert rig.state(behind) == SENT
    finish(rig, behind)
    assert rig.result(behind) == "ok"


def test_a_stream_that_is_made_again_repeats_nothing():
    rig = Rig()
    task = rig.submit(streaming=True, retries=1)
    worker = rig.worker_of(task)
    rig.send(worker, m.ITEM, task, 1, m.INLINE, b"one", ())
    rig.send(worker, m.ITEM, task, 2, m.INLINE, b"two", ())
    rig.lose(worker)
    worker = rig.worker_of(task)
    for index in (1, 2, 3):
        rig.send(worker, m.ITEM, task, index, m.INLINE, b"again", ())
    rig.done(worker, task, returns=())
    assert [(message[2], message[4]) for message in rig.received(1, m.STREAM)] == [
        (1, b"one"),
        (2, b"two"),
        (3, b"again"),
    ]
    assert rig.received(1, m.STREAM_END) == [(m.STREAM_END, task, 3)]


def test_a_second_attempt_is_told_what_the_reader_of_its_stream_has_taken():
    """The reader already has the repeated items. Otherwise the task would wait for the reader, which waits for new items."""
    rig = Rig()
    task = rig.submit(streaming=True, retries=1)
    worker = rig.worker_of(task)
    rig.send(worker, m.ITEM, task, 1, m.INLINE, b"one", ())
    rig.send(1, m.CONSUMED, task, 1)
    assert rig.received(worker, m.ACK) == [(m.ACK, task, 1)]
    rig.lose(worker)
    worker = rig.worker_of(task)
    words = [message[0] for cid, message in rig.outbox if cid == worker]
    assert words[-2:] == [m.EXECUTE, m.ACK]
    assert rig.received(worker, m.ACK) == [(m.ACK, task, 1)]


# ---------------------------------------------------------------- cancellation


def test_a_queued_or_waiting_task_ends_at_once_when_cancelled():
    rig = Rig()
    running, queued = rig.submit(), rig.submit()
    waiting = rig.submit(escaped(rig, running))
    for task in (queued, waiting):
        rig.send(1, m.CANCEL, task, False, True)
        assert rig.result(task) == "TaskCancelledError"
    finish(rig, running)
    assert not rig.core.tasks


def test_a_running_task_is_stopped_and_a_forced_one_killed():
    rig = Rig(cpus=2)
    gentle, forced = rig.submit(retries=3), rig.submit(retries=3)
    rig.send(1, m.CANCEL, gentle, False, True)
    worker = rig.worker_of(gentle)
    assert rig.received(worker, m.STOP_TASK)
    rig.done(worker, gentle, m.CANCELLED, returns=())
    worker = rig.worker_of(forced)
    rig.send(1, m.CANCEL, forced, True, True)
    assert rig.received(worker, m.STOP_TASK) == [(m.STOP_TASK, forced, True)]
    rig.lose(worker)
    assert rig.results() == {gentle: "TaskCancelledError", forced: "TaskCancelledError"}


def test_a_worker_that_does_not_leave_with_a_task_cancelled_by_force_is_ended_if_it_is_still_about_it():
    rig = Rig()
    forced = rig.submit()
    worker = rig.worker_of(forced)
    rig.send(1, m.CANCEL, forced, True, True)
    rig.tick(0.1)
    assert rig.shell_cids(EndTask) == []
    for _ in range(2):  # the first message about it may have arrived before the worker began the task
        rig.tick(1.0)
        assert rig.shell_cids(EndTask) == [worker]
    rig.lose(worker)
    assert rig.result(forced) == "TaskCancelledError"
    assert rig.tick(1.0) is None


def test_force_that_comes_too_late_does_not_hit_the_next_task():
    rig = Rig()
    forced, next_one = rig.submit(), rig.submit(retries=0)
    worker = rig.worker_of(forced)
    rig.send(1, m.CANCEL, forced, True, True)
    rig.done(worker, forced)  # the task ended first
    assert rig.worker_of(next_one) == worker
    rig.tick(1.0)
    assert rig.shell_cids(EndTask) == rig.shell_cids(KillWorker) == []
    finish(rig, next_one)
    assert rig.results() == {forced: "ok", next_one: "ok"}


def test_nothing_is_sent_ahead_to_a_worker_about_to_be_ended():
    rig = Rig()
    quick = rig.submit(name="quick")
    finish(rig, quick)
    forced = rig.submit(name="quick")
    rig.send(1, m.CANCEL, forced, True, True)
    assert rig.state(rig.submit(name="quick")) == QUEUED


def test_a_cancel_that_crosses_with_a_task_given_back_is_not_lost():
    rig = Rig()
    quick = rig.submit(name="quick")
    finish(rig, quick)
    parent, behind = rig.submit(name="quick"), rig.submit(name="quick")
    worker = rig.worker_of(behind)
    rig.send(1, m.CANCEL, behind, False, True)
    rig.send(worker, m.BLOCKED, parent)
    rig.send(worker, m.RETURNED, (behind,))
    assert rig.result(behind) == "TaskCancelledError"


def test_children_are_cancelled_with_their_parent_but_not_with_one_that_has_ended():
    rig = Rig(cpus=4)
    parents = [rig.submit(), rig.submit()]
    children = []
    for parent in parents:
        worker = rig.worker_of(parent)
        children.append(rig.submit(cid=worker, parent=parent, request={"CPU": 4 * CPU}))
    finish(rig, parents[1])
    for parent in parents:
        rig.send(1, m.CANCEL, parent, False, True)
    gone, kept = children
    assert rig.state(gone) is None
    assert rig.state(kept) is not None


def test_recursive_cancel_leaves_children_alone_when_told_so():
    rig = Rig(cpus=2)
    parent = rig.submit()
    child = rig.submit(cid=rig.worker_of(parent), parent=parent)
    rig.send(1, m.CANCEL, parent, False, False)
    assert rig.received(rig.worker_of(child), m.STOP_TASK) == []


# ---------------------------------------------------------------- callers that die


def test_tasks_of_a_dead_caller_end_unless_others_wait_for_them():
    rig = Rig(cpus=1, drivers=3)
    hog = rig.submit(cid=3)
    alone, wanted = rig.submit(cid=2), rig.submit(cid=2)
    endless = rig.submit(cid=2, streaming=True)
    rig.send(2, m.ESCAPE, first(wanted))
    rig.send(1, m.HOLD, first(wanted))
    rig.send(1, m.FETCH, first(wanted))
    rig.lose(2)
    assert rig.state(alone) is None
    assert rig.state(endless) is None
    rig.done(rig.worker_of(hog), hog)
    finish(rig, wanted)
    assert rig.received(1, m.VALUE)[0][3] == b"value"


def test_a_task_that_only_another_task_of_the_dead_caller_wants_ends_with_it():
    rig = Rig(cpus=1, drivers=2)
    hog = rig.submit(cid=1)
    source = rig.submit(cid=2)
    rig.submit(escaped(rig, source, cid=2), cid=2)
    rig.lose(2)
    assert list(rig.core.tasks) == [hog]


def test_a_result_for_a_caller_that_is_gone_leaves_nothing_behind():
    rig = Rig(drivers=2)
    task = rig.submit(cid=2)
    worker = rig.worker_of(task)
    oid = rig.oid(worker)
    rig.lose(2)
    rig.send(worker, m.PUBLISH, oid, m.INLINE, b"inner", (), True)
    rig.done(worker, task, returns=((m.INLINE, b"value", (oid,)),))
    rig.send(worker, m.FREE, oid, 1)
    assert not rig.core.objects.records
    assert not rig.core.tasks


# ---------------------------------------------------------------- what can never run


@pytest.mark.parametrize("request_", [{"CPU": 2 * CPU}, {"GPU": CPU}, {"unheard_of": 1}])
def test_what_no_node_can_ever_give_is_refused_at_once(request_):
    rig = Rig()
    assert rig.result(rig.submit(request=request_)) == "TaskUnschedulableError"
    call = rig.call(rig.create(request=request_))
    assert rig.result(call) == "ActorUnschedulableError"


def test_an_environment_that_cannot_be_made_fails_what_wanted_it():
    rig = Rig(cpus=2)
    task = rig.submit(environment="broken", retries=3)
    worker = rig.worker_of(task)
    rig.lose(worker, 0, Death("RuntimeEnvSetupError", {"message": "no such package"}))
    assert rig.result(task) == "RuntimeEnvSetupError"
    assert rig.free == 2


def test_a_value_that_an_earlier_attempt_wrote_and_that_has_gone_is_made_again() -> None:
    rig = Rig(cpus=1)
    task = rig.submit()
    rig.send(1, m.ESCAPE, first(task))
    worker = rig.worker_of(task)
    rig.send(worker, m.DONE, task, m.OK, ((m.ARENA, (0, 0), ()),), 5, False)
    assert rig.state(task) == SENT, "it runs again, and no retry is counted"
    rig.done(rig.worker_of(task), task)
    assert rig.result(task) == "ok"
