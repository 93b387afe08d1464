"""Placement groups: placement, waiting for resources, removal while their tasks run."""

from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig, first

QUEUED, SENT = 1, 2
WHOLE = {"CPU": CPU}


def state(rig, group_id):
    return rig.core.placement.groups[group_id].state


def inside(group_id, index=-1):
    return ("bundle", group_id, index, False)


def ready(rig, group_id, cid=1):
    oid = rig.oid(cid)
    rig.ask("group_ready", group_id, oid, cid=cid)
    rig.send(cid, m.FETCH, oid)
    return oid


def test_a_group_takes_its_bundles_from_the_node_and_gives_them_back():
    rig = Rig(cpus=3)
    group = rig.group(WHOLE, WHOLE)
    assert state(rig, group) == "CREATED"
    assert rig.free == 1
    rig.ask("remove_group", group)
    assert rig.free == 3


def test_a_group_waits_for_room_and_goes_before_the_tasks_that_wait():
    rig = Rig(cpus=2)
    tasks = [rig.submit() for _ in range(4)]
    group = rig.group(WHOLE, WHOLE)
    oid = ready(rig, group)
    assert state(rig, group) == "PENDING"
    for task in tasks:
        if rig.state(task) == SENT and state(rig, group) == "PENDING":
            rig.done(rig.worker_of(task), task)
    while state(rig, group) == "PENDING":
        running = next(task for task in tasks if rig.state(task) == SENT)
        rig.done(rig.worker_of(running), running)
    assert rig.received(1, m.VALUE)[0][1:3] == (oid, m.INLINE)


def test_a_group_that_can_never_be_is_said_to_be_so_at_once():
    rig = Rig(cpus=1)
    group = rig.group(WHOLE, WHOLE)
    ready(rig, group)
    (_, _, kind, (name, fields), *_) = rig.received(1, m.VALUE)[0]
    assert (kind, name) == (m.ERROR, "TaskUnschedulableError")
    assert "num_cpus=2" in fields["message"]


def test_tasks_run_in_their_bundle_and_nowhere_else():
    rig = Rig(cpus=3)
    group = rig.group(WHOLE, WHOLE)
    one = rig.submit(strategy=inside(group, 1))
    other = rig.submit(strategy=inside(group, 1))
    anywhere = rig.submit(strategy=inside(group))
    assert [rig.state(task) for task in (one, other, anywhere)] == [SENT, QUEUED, SENT]
    assert rig.free == 1
    rig.done(rig.worker_of(one), one)
    assert rig.state(other) == SENT


def test_what_does_not_fit_into_any_bundle_is_refused():
    rig = Rig(cpus=2)
    group = rig.group(WHOLE)
    assert (
        rig.result(rig.submit(strategy=inside(group), request={"CPU": 2 * CPU})) == "TaskUnschedulableError"
    )


def test_removal_ends_all_that_runs_or_waits_in_the_group_and_nothing_else():
    rig = Rig(cpus=2)
    group = rig.group(WHOLE)
    quick = rig.submit(name="quick", strategy=inside(group))
    rig.done(rig.worker_of(quick), quick)
    outside = rig.submit()
    running = rig.submit(name="quick", strategy=inside(group))
    ahead = rig.submit(name="quick", strategy=inside(group))
    worker = rig.worker_of(running)
    assert rig.worker_of(ahead) == worker
    rig.send(1, m.ESCAPE, first(ahead))
    after = rig.submit(first(ahead), strategy=inside(group))
    rig.ask("remove_group", group)
    assert [rig.result(task) for task in (running, ahead, after)] == ["TaskPlacementGroupRemoved"] * 3
    assert set(rig.shell_cids(KillWorker)) == {worker}
    assert rig.state(outside) == SENT
    assert rig.free == 1
    rig.done(worker, running)  # too late
    rig.lose(worker)
    assert rig.result(rig.submit(strategy=inside(group))) == "TaskPlacementGroupRemoved"


def test_a_task_that_falls_with_its_argument_is_answered_once():
    rig = Rig(cpus=2)
    group = rig.group(WHOLE)
    source = rig.submit(strategy=inside(group))
    rig.send(1, m.ESCAPE, first(source))
    chain = rig.submit(first(source), strategy=inside(group))
    rig.ask("remove_group", group)
    assert len([each for each in rig.received(1, m.RESULT) if each[1][:24] == chain]) == 1


def test_removal_kills_the_actors_in_the_group_at_any_stage():
    rig = Rig(cpus=2)
    group = rig.group(WHOLE)
    living, worker = rig.living(strategy=inside(group), request=WHOLE)
    queued = rig.create(strategy=inside(group), request=WHOLE, max_restarts=-1)
    calls = [rig.call(living), rig.call(queued)]
    rig.ask("remove_group", group)
    assert {rig.result(call) for call in calls} == {"ActorDiedError"}
    assert rig.shell_cids(KillWorker) == [worker]
    rig.lose(worker)
    assert rig.free == 2
    assert not rig.core.scheduler.waiting


def test_a_group_ends_with_its_driver():
    rig = Rig(cpus=1, drivers=2)
    group = rig.group(WHOLE, cid=2)
    waiting = rig.submit()
    assert rig.state(waiting) == QUEUED
    rig.lose(2)
    assert state(rig, group) == "REMOVED"
    assert rig.state(waiting) == SENT


def test_who_waits_for_a_group_whose_driver_died_is_told():
    rig = Rig(cpus=1, drivers=2)
    hog = rig.submit()
    group = rig.group(WHOLE, cid=2)
    oid = rig.oid(2)
    rig.ask("group_ready", group, oid, cid=2)
    rig.send(1, m.HOLD, oid)
    rig.send(1, m.FETCH, oid)
    rig.lose(2)
    assert rig.received(1, m.VALUE)[0][3][0] == "TaskPlacementGroupRemoved"
    rig.done(rig.worker_of(hog), hog)
    assert rig.free == 1


def test_a_bundle_has_gpus_of_its_own():
    rig = Rig(cpus=2, gpus=["a", "b"], more={"GPU": 2 * CPU})
    group = rig.group({"GPU": CPU + CPU // 2})
    half = {"GPU": CPU // 2}
    lent = []
    for _ in range(4):
        task = rig.submit(strategy=inside(group), request=half)
        if rig.state(task) == SENT:
            lent += rig.received(rig.worker_of(task), m.LEASE)[0][1]["gpus"]
    assert sorted(lent) == ["a", "a", "b"]
    outside = rig.submit(request=half)
    assert rig.received(rig.worker_of(outside), m.LEASE)[0][1]["gpus"] == ["b"]
