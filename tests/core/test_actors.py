"""Actors: creation, order, restarts, names, and every way to end."""

import pytest

from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig, first

DEAD = 3


def state(rig, actor_id):
    return rig.core.actors.actors[actor_id].state


def invoked(rig, worker):
    return [message[1] for message in rig.received(worker, m.INVOKE)]


def pending(rig, cid=1):
    """Submit a task; return the ref of its pending value, and the task."""
    task = rig.submit(cid=cid)
    rig.send(cid, m.ESCAPE, first(task))
    return first(task), task


# ---------------------------------------------------------------- calls


def test_calls_wait_for_the_constructor_and_then_go_in_order():
    rig = Rig()
    actor_id = rig.create()
    calls = [rig.call(actor_id) for _ in range(3)]
    worker = rig.core.actors.actors[actor_id].worker.cid
    assert invoked(rig, worker) == []
    rig.done(worker, actor_id, returns=())
    assert invoked(rig, worker) == calls


def test_a_call_with_a_pending_argument_holds_back_its_caller_alone():
    rig = Rig(drivers=2)
    actor_id, worker = rig.living()
    rig.send(2, m.HOLD, actor_id)
    oid, source = pending(rig)
    mine = [rig.call(actor_id, oid), rig.call(actor_id)]
    theirs = rig.call(actor_id, cid=2)
    assert invoked(rig, worker) == [theirs]
    rig.done(rig.worker_of(source), source)
    assert invoked(rig, worker) == mine


def test_calls_of_a_concurrent_actor_overtake_those_that_wait_for_arguments():
    rig = Rig()
    actor_id, worker = rig.living(concurrent=True)
    oid, source = pending(rig)
    waiting, ready = rig.call(actor_id, oid), rig.call(actor_id)
    assert invoked(rig, worker) == [ready]
    rig.done(rig.worker_of(source), source)
    assert invoked(rig, worker) == [waiting]


def test_a_failed_argument_fails_its_call_and_lets_the_next_go():
    rig = Rig()
    actor_id, worker = rig.living()
    oid, source = pending(rig)
    bad, good = rig.call(actor_id, oid), rig.call(actor_id)
    rig.done(rig.worker_of(source), source, m.FAILED)
    assert rig.result(bad) == "RayTaskError"
    assert invoked(rig, worker) == [good]


def test_a_cancelled_call_lets_the_next_go():
    rig = Rig()
    actor_id, worker = rig.living()
    oid, _ = pending(rig)
    first_call, second = rig.call(actor_id, oid), rig.call(actor_id)
    rig.send(1, m.CANCEL, first_call, False, True)
    assert rig.result(first_call) == "TaskCancelledError"
    assert invoked(rig, worker) == [second]


# ---------------------------------------------------------------- out of scope


def test_an_actor_leaves_when_nobody_can_call_it_and_all_is_answered():
    rig = Rig()
    actor_id, worker = rig.living(actor_name="a")
    call = rig.call(actor_id)
    rig.send(1, m.FREE, actor_id, 1)
    assert rig.received(worker, m.EXIT) == []
    rig.done(worker, call)
    assert len(rig.received(worker, m.EXIT)) == 1
    assert rig.ask("get_actor", "", "a") is None  # the actor is ending
    rig.lose(worker)
    assert state(rig, actor_id) == DEAD


@pytest.mark.parametrize("concurrent", [False, True])
def test_an_actor_that_a_call_still_waits_for_stays(concurrent):
    rig = Rig()
    actor_id, worker = rig.living(concurrent=concurrent)
    oid, source = pending(rig)
    call = rig.call(actor_id, oid)
    rig.send(1, m.FREE, actor_id, 1)
    assert rig.received(worker, m.EXIT) == []
    rig.done(rig.worker_of(source), source)
    rig.done(worker, call)
    assert rig.result(call) == "ok"
    assert len(rig.received(worker, m.EXIT)) == 1


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_an_unwanted_actor_leaves_also_when_its_last_call_never_runs(how):
    rig = Rig()
    actor_id, worker = rig.living()
    oid, source = pending(rig)
    call = rig.call(actor_id, oid)
    rig.send(1, m.FREE, actor_id, 1)
    if how == "cancelled":
        rig.send(1, m.CANCEL, call, False, True)
    else:
        rig.done(rig.worker_of(source), source, m.FAILED)
    assert len(rig.received(worker, m.EXIT)) == 1


def test_a_detached_actor_outlives_its_maker():
    rig = Rig(drivers=2)
    actor_id, _ = rig.living(cid=2, actor_name="a", detached=True)
    rig.lose(2)
    assert rig.ask("get_actor", "", "a")[0] == actor_id


# ---------------------------------------------------------------- death


def test_killing_an_actor_answers_every_call_sent_queued_or_waiting():
    rig = Rig()
    actor_id, worker = rig.living(concurrent=True)
    oid, _ = pending(rig)
    sent, waiting = rig.call(actor_id), rig.call(actor_id, oid)
    rig.send(1, m.KILL, actor_id, True)
    late = rig.call(actor_id)
    assert rig.shell_cids(KillWorker) == [worker]
    assert {rig.result(call) for call in (sent, waiting, late)} == {"ActorDiedError"}
    rig.done(worker, sent)  # too late
    rig.lose(worker)
    assert rig.result(sent) == "ActorDiedError"


def test_a_call_that_takes_the_result_of_another_is_answered_once_when_the_actor_dies():
    rig = Rig()
    actor_id, worker = rig.living()
    one = rig.call(actor_id)
    rig.send(1, m.ESCAPE, first(one))
    two = rig.call(actor_id, first(one))
    rig.lose(worker)
    assert len(rig.received(1, m.RESULT)) == 2
    assert not {one, two} & set(rig.core.tasks)


@pytest.mark.parametrize("stage", ["arguments", "resources", "constructor"])
def test_an_actor_killed_before_it_lives_is_gone_for_good(stage):
    rig = Rig()
    hog = rig.submit() if stage == "resources" else None
    oid, source = pending(rig) if stage == "arguments" else (None, None)
    actor_id = rig.create(*([oid] if oid else []), request={"CPU": CPU}, max_restarts=-1)
    call = rig.call(actor_id)
    rig.send(1, m.KILL, actor_id, True)
    assert rig.result(call) == "ActorDiedError"
    for task in (hog, source):
        if task is not None:
            rig.done(rig.worker_of(task), task)
    for worker in rig.shell_cids(KillWorker):
        rig.lose(worker)
    assert state(rig, actor_id) == DEAD
    assert rig.free == 1
    assert not rig.core.scheduler.waiting


def test_a_constructor_that_fails_kills_the_actor_and_frees_its_worker():
    rig = Rig()
    actor_id = rig.create(request={"CPU": CPU})
    call = rig.call(actor_id)
    worker = rig.core.actors.actors[actor_id].worker.cid
    rig.done(worker, actor_id, m.FAILED)
    assert rig.result(call) == "ActorDiedError"
    assert rig.core.actors.actors[actor_id].death.fields["init_error"][0] == "RayTaskError"
    assert rig.free == 1
    assert rig.worker_of(rig.submit()) != worker


def test_an_actor_that_exits_by_itself_dies_and_is_not_restarted():
    rig = Rig()
    actor_id, worker = rig.living(max_restarts=-1)
    running = rig.call(actor_id)
    rig.send(worker, m.EXITING, "exit_actor")
    queued = rig.call(actor_id)
    rig.lose(worker)
    assert {rig.result(call) for call in (running, queued)} == {"ActorDiedError"}
    assert state(rig, actor_id) == DEAD


# ---------------------------------------------------------------- restarts


def test_a_restarted_actor_gets_what_had_not_begun_and_what_may_be_tried_again():
    rig = Rig()
    actor_id, worker = rig.living(max_restarts=1, max_task_retries=1)
    calls = [rig.call(actor_id) for _ in range(3)]
    rig.lose(worker, begun=2)  # the constructor and the first call
    worker = rig.core.actors.actors[actor_id].worker.cid
    rig.done(worker, actor_id, returns=())
    attempts = [(message[1], message[5]) for message in rig.received(worker, m.INVOKE)]
    assert attempts == [(calls[0], 1), (calls[1], 0), (calls[2], 0)]
    rig.lose(worker, begun=0)
    assert {rig.result(call) for call in calls} == {"ActorDiedError"}


def test_calls_without_retries_fail_with_their_actors_process_and_it_is_known_which_had_begun():
    rig = Rig()
    actor_id, worker = rig.living(max_restarts=1)
    begun, behind = rig.call(actor_id), rig.call(actor_id)
    rig.lose(worker, begun=2)
    assert rig.result(begun) == rig.result(behind) == "ActorUnavailableError"
    assert "begun" not in rig.error(begun)
    assert rig.error(behind)["begun"] is False
    worker = rig.core.actors.actors[actor_id].worker.cid
    rig.done(worker, actor_id, returns=())
    assert invoked(rig, worker) == []


def test_calls_without_retries_that_wait_for_arguments_outlive_a_restart_of_their_actor():
    rig = Rig(cpus=2)
    actor_id, worker = rig.living(max_restarts=1)
    task = rig.submit()
    waits, behind = rig.call(actor_id, first(task)), rig.call(actor_id)
    rig.lose(worker, begun=1)
    worker = rig.core.actors.actors[actor_id].worker.cid
    rig.done(worker, actor_id, returns=())
    rig.done(rig.worker_of(task), task)
    assert invoked(rig, worker) == [waits, behind]


def test_a_cancelled_call_does_not_run_again_after_a_restart():
    rig = Rig()
    actor_id, worker = rig.living(max_restarts=1, max_task_retries=-1)
    rig.call(actor_id)
    call = rig.call(actor_id)
    rig.send(1, m.CANCEL, call, False, True)
    rig.lose(worker, begun=2)
    assert rig.result(call) == "TaskCancelledError"


def test_kill_without_no_restart_restarts():
    rig = Rig()
    actor_id, worker = rig.living(max_restarts=1)
    rig.send(1, m.KILL, actor_id, False)
    assert rig.shell_cids(KillWorker) == [worker]
    rig.lose(worker)
    assert state(rig, actor_id) == 2


# ---------------------------------------------------------------- names


def test_a_name_belongs_to_the_first_who_takes_it_and_is_free_after_its_death():
    rig = Rig(drivers=2)
    owner, worker = rig.living(actor_name="a")
    late = rig.create(cid=2, actor_name="a")
    assert state(rig, late) == DEAD
    assert rig.ask("get_actor", "", "a")[0] == owner
    rig.send(1, m.KILL, owner, True)
    assert rig.ask("get_actor", "", "a") is None
    again, _ = rig.living(actor_name="a")
    assert rig.ask("get_actor", "", "a")[0] == again


def test_a_handle_got_by_name_does_not_keep_the_actor_but_a_call_through_it_does():
    rig = Rig(drivers=2)
    actor_id, worker = rig.living(actor_name="a")
    assert rig.ask("get_actor", "", "a", cid=2)[0] == actor_id
    call = rig.call(actor_id, cid=2)
    rig.send(1, m.FREE, actor_id, 1)
    assert rig.received(worker, m.EXIT) == []
    rig.done(worker, call)
    assert len(rig.received(worker, m.EXIT)) == 1
