"""Scheduling: leases, tasks sent ahead, waiting tasks, blocked workers, fairness."""

import pytest

from skate.core.schedule.scheduler import IDLE_SECONDS_MAX, LEASE_SECONDS_MAX, STALL_SECONDS
from skate.protocol import messages as m
from skate.protocol.effects import Spawn
from skate.protocol.version import VERSION
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig

SENT = 2
QUEUED = 1


def quick(rig, spec="quick"):
    """Let the node measure that tasks of this name are short."""
    task = rig.submit(name=spec)
    worker = rig.worker_of(task)
    rig.done(worker, task)
    return worker


def test_tasks_get_workers_while_resources_are_free_and_wait_then():
    rig = Rig(cpus=2)
    tasks = [rig.submit() for _ in range(3)]
    assert [rig.state(task) for task in tasks] == [SENT, SENT, QUEUED]
    assert len(rig.shell_cids(Spawn)) == 2
    assert rig.free == 0
    rig.done(rig.worker_of(tasks[0]), tasks[0])
    assert rig.state(tasks[2]) == SENT


def test_an_idle_worker_is_used_again():
    rig = Rig()
    worker = quick(rig)
    assert rig.worker_of(rig.submit()) == worker
    assert len(rig.shell_cids(Spawn)) == 1


def test_short_tasks_are_sent_ahead_and_long_ones_are_not():
    rig = Rig()
    worker = quick(rig)
    tasks = [rig.submit(name="quick") for _ in range(5)]
    assert [rig.worker_of(task) for task in tasks] == [worker] * 5
    rig = Rig()
    hog = rig.submit(name="hog")
    rig.now += 1
    rig.send(rig.worker_of(hog), m.DONE, hog, m.OK, (), 1_000_000, False)
    assert [rig.state(rig.submit(name="hog")) for _ in range(3)] == [SENT, QUEUED, QUEUED]


def test_what_waits_behind_a_long_task_is_asked_back_once_another_worker_could_run_it():
    rig = Rig(cpus=2)
    quick(rig)
    running = [rig.submit(name="quick"), rig.submit(name="quick")]
    behind = rig.submit(name="quick")
    busy = rig.worker_of(behind)
    (other,) = {rig.worker_of(task) for task in running} - {busy}
    rig.tick(STALL_SECONDS * 2)
    assert rig.received(busy, m.TAKE_BACK) == []  # no other worker could take it
    rig.done(other, next(task for task in running if rig.worker_of(task) == other))
    rig.tick(STALL_SECONDS * 2)
    assert len(rig.received(busy, m.TAKE_BACK)) == 1
    rig.send(busy, m.RETURNED, (behind,))
    assert rig.worker_of(behind) == other


def test_what_waits_behind_a_stream_is_asked_back_even_if_the_stream_yields_all_the_time():
    rig = Rig(cpus=2)
    quick(rig)
    stream = rig.submit(name="quick", streaming=True)
    other = rig.submit(name="quick")
    behind = [rig.submit(name="quick") for _ in range(2)]
    worker = rig.worker_of(stream)
    assert worker in {rig.worker_of(task) for task in behind}
    rig.done(rig.worker_of(other), other)
    for index in range(1, 10):
        rig.now += STALL_SECONDS / 3
        rig.send(worker, m.ITEM, stream, index, m.INLINE, b"", ())
        rig.tick(0.0)
    assert len(rig.received(worker, m.TAKE_BACK)) == 1


def test_a_blocked_worker_lends_its_cpu_and_gets_nothing_more_to_do():
    rig = Rig()
    worker = quick(rig)
    parent = rig.submit(name="quick")
    assert rig.worker_of(parent) == worker
    rig.send(worker, m.BLOCKED, parent)
    assert rig.free == 1
    child = rig.submit(name="quick")
    assert rig.worker_of(child) != worker
    rig.send(worker, m.UNBLOCKED, parent)
    assert rig.free == -1
    later = rig.submit(name="other")
    assert rig.state(later) == QUEUED
    rig.done(rig.worker_of(child), child)
    rig.done(worker, parent)
    assert rig.state(later) == SENT


def test_a_task_that_ends_without_saying_that_it_goes_on_leaves_no_cpu_lent():
    rig = Rig()
    worker = quick(rig)
    parent, behind = rig.submit(name="quick"), rig.submit(name="quick")
    rig.send(worker, m.BLOCKED, parent)
    rig.done(worker, parent)
    assert rig.worker_of(behind) == worker
    assert rig.free == 0


def test_a_class_that_never_runs_dry_lets_others_have_a_turn():
    rig = Rig()
    first = rig.submit(name="many")
    worker = rig.worker_of(first)
    crowd = [rig.submit(name="many") for _ in range(50)]
    lonely = rig.submit(name="lonely", request={"CPU": CPU // 2})
    tasks = iter([first, *crowd])
    for _ in range(20):
        rig.now += LEASE_SECONDS_MAX / 8
        rig.done(worker, next(tasks))
        if rig.state(lonely) == SENT:
            break
    assert rig.state(lonely) == SENT
    rig.done(rig.worker_of(lonely), lonely)
    assert rig.free == 0  # and the other tasks continue


def test_a_worker_that_is_to_leave_gets_nothing_more_to_do():
    rig = Rig()
    first = rig.submit(max_calls=1, name="worn")
    worker = rig.worker_of(first)
    second = rig.submit(max_calls=1, name="worn")
    assert rig.state(second) == QUEUED  # short or not, one at a time
    rig.done(worker, first)
    assert len(rig.received(worker, m.EXIT)) == 1
    assert rig.worker_of(second) != worker
    rig.lose(worker)
    assert rig.state(second) == SENT


def test_a_function_with_max_calls_does_not_run_behind_another_of_the_same_resources():
    rig = Rig()
    worker = quick(rig)
    rig.submit(name="quick")
    rig.submit(name="quick")
    worn = rig.submit(max_calls=1, name="worn")
    assert rig.state(worn) == QUEUED
    assert all(t.template.name == "quick" for t in rig.core.scheduler.workers[worker].outstanding.values())


def test_idle_workers_beyond_the_cpus_are_retired():
    rig = Rig(cpus=1)
    tasks = [rig.submit(request={}) for _ in range(3)]
    workers = [rig.worker_of(task) for task in tasks]
    for worker, task in zip(workers, tasks, strict=True):
        rig.done(worker, task)
    assert rig.tick(0.0) is not None
    rig.tick(IDLE_SECONDS_MAX * 1.1)
    left = [worker for worker in workers if rig.received(worker, m.EXIT)]
    assert len(left) == 2
    assert rig.worker_of(rig.submit()) not in left


def test_the_tick_wants_nothing_while_nothing_can_come_of_it():
    rig = Rig()
    assert rig.tick(1.0) is None
    actor, worker = rig.living()
    for _ in range(3):
        rig.call(actor)
    assert rig.tick(1.0) is None
    assert rig.received(worker, m.TAKE_BACK) == []


def test_gpus_are_named_and_never_lent_twice():
    rig = Rig(cpus=4, gpus=["a", "b"], more={"GPU": 2 * CPU})
    half = {"CPU": CPU, "GPU": CPU // 2}
    tasks = [rig.submit(request=half) for _ in range(2)] + [rig.submit(request={"GPU": CPU})]
    lent = [rig.received(rig.worker_of(task), m.LEASE)[0][1]["gpus"] for task in tasks]
    assert lent == [["a"], ["a"], ["b"]]
    assert rig.state(rig.submit(request={"GPU": 1})) == QUEUED


def test_late_words_of_a_worker_that_is_gone_change_nothing():
    rig = Rig()
    task = rig.submit()
    worker = rig.worker_of(task)
    rig.lose(worker)
    for message in ((m.BLOCKED, task), (m.UNBLOCKED, task), (m.RETURNED, (task,)), (m.EXITING, "")):
        rig.send(worker, *message)
    rig.done(worker, task)
    assert list(rig.results().values()) == ["WorkerCrashedError"]
    assert rig.free == 1


def flood(request: dict[str, int]) -> tuple[Rig, list[int]]:
    """Submit 200 tasks without CPUs; return the rig and the workers that it starts for them."""
    rig = Rig(1, more={"b": 10_000 * CPU})
    for _ in range(200):
        rig.submit(name="free", request=request)
    return rig, rig.shell_cids(Spawn)


def begin(rig: Rig, workers: list[int]) -> None:
    for worker in workers:
        rig.send(worker, m.READY, worker, VERSION)


@pytest.mark.parametrize("request_", [{}, {"b": 1}], ids=["nothing", "a resource"])
def test_a_flood_of_tasks_without_cpus_gets_few_processes(request_: dict[str, int]) -> None:
    rig, workers = flood(request_)
    assert len(workers) == 16
    for _ in range(9):  # the machine is slow: no process has started yet
        rig.tick(1.0)
    assert not rig.shell(Spawn)
    begin(rig, workers)
    for _ in range(184):  # they end one by one, and the next ones take their places
        busy = next(w for w in rig.core.scheduler.workers.values() if w.outstanding)
        rig.done(busy.cid, next(iter(busy.outstanding)))
        rig.tick(0.05)
    assert not rig.shell(Spawn)


def test_long_tasks_that_request_another_resource_than_cpus_soon_all_run() -> None:
    rig, workers = flood({"b": 1})
    for _ in range(4):
        begin(rig, workers)
        rig.tick(0.11)
        workers = rig.shell_cids(Spawn)
    assert len(rig.core.scheduler.workers) == 200


def test_tasks_that_request_nothing_are_admitted_one_by_one() -> None:
    rig, workers = flood({})
    begin(rig, workers)
    rig.tick(1.1)
    assert len(rig.shell(Spawn)) == 1


def of_microseconds(rig, count, name="echo"):
    """Let the node measure that tasks of this name take microseconds, on as many workers as there are tasks."""
    tasks = [rig.submit(name=name) for _ in range(count)]
    workers = [rig.worker_of(task) for task in tasks]
    for worker, task in zip(workers, tasks, strict=True):
        rig.send(worker, m.DONE, task, m.OK, ((m.INLINE, b"value", ()),), 5, False)
    return workers


def test_tasks_of_microseconds_stay_with_few_workers():
    rig = Rig(cpus=16, short_task_workers=4)
    assert len(set(of_microseconds(rig, 16))) == 16  # their times were not known yet
    tasks = [rig.submit(name="echo") for _ in range(150)]
    assert {rig.state(task) for task in tasks} == {SENT}
    assert len({rig.worker_of(task) for task in tasks}) == 4
    others = [rig.submit(name="other") for _ in range(12)]  # nobody holds the CPUs that they leave free
    assert {rig.state(task) for task in others} == {SENT}


def test_tasks_of_microseconds_beyond_what_few_workers_hold_wait_and_all_run():
    rig = Rig(cpus=16, short_task_workers=4)
    of_microseconds(rig, 4)
    tasks = [rig.submit(name="echo") for _ in range(1000)]
    assert {rig.state(task) for task in tasks} == {SENT, QUEUED}
    while tasks:
        sent = [task for task in tasks if rig.state(task) == SENT]
        assert sent
        assert len({rig.worker_of(task) for task in sent}) <= 4
        for task in sent:
            rig.send(rig.worker_of(task), m.DONE, task, m.OK, ((m.INLINE, b"value", ()),), 5, False)
        tasks = [task for task in tasks if task not in set(sent)]
    assert rig.free == 16


def test_all_free_resources_are_used_once_a_task_of_microseconds_runs_long():
    rig = Rig(cpus=16, short_task_workers=4)
    of_microseconds(rig, 4)
    tasks = [rig.submit(name="echo") for _ in range(12)]
    workers = {rig.worker_of(task) for task in tasks}
    assert len(workers) == 4
    rig.tick(STALL_SECONDS * 2)
    for worker in workers:
        behind = [task for task in tasks if rig.worker_of(task) == worker][1:]
        assert len(rig.received(worker, m.TAKE_BACK)) == bool(behind)
        if behind:
            rig.send(worker, m.RETURNED, tuple(behind))
    assert len({rig.worker_of(task) for task in tasks}) == 12


def test_a_task_whose_time_is_not_known_or_not_short_gets_free_resources():
    rig = Rig(cpus=16, short_task_workers=4)
    unknown = [rig.submit(name="unknown") for _ in range(8)]
    assert len({rig.worker_of(task) for task in unknown}) == 8
    for task in unknown:
        rig.send(rig.worker_of(task), m.DONE, task, m.OK, ((m.INLINE, b"value", ()),), 500, False)
    measured = [rig.submit(name="unknown") for _ in range(8)]
    assert len({rig.worker_of(task) for task in measured}) == 8
