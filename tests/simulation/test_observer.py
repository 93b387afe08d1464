"""Each rule of the observer can be broken, and is noticed then."""

from __future__ import annotations

import random
from typing import Any

import pytest

from skate.protocol import messages as m
from skate.simulation import Cluster, Faults, Spec
from skate.simulation.processes.worker import Running, Worker
from skate.simulation.programs.spec import CPU, method

LIFE = {"max_restarts": 1, "max_task_retries": 0, "concurrent": False, "actor_name": "a"}
ACTOR, OTHER, TASK = b"actor" + bytes(11), b"other" + bytes(11), bytes(24)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(random.Random(1), 2, gpus=1)


def worker(cluster: Cluster, cid: int = 100) -> Worker:
    found = cluster.processes[cid] = Worker(cid, cluster)
    return found


def begin(where: Worker, task_id: bytes, spec: Spec, word: int, attempt: int = 0) -> Running:
    running = Running(task_id, spec, attempt)
    where.cluster.observer.began(where, running, word)
    where.tables.running = running
    return running


def test_one_attempt_too_many(cluster: Cluster) -> None:
    spec = Spec("f", retries=1)
    for cid in (100, 101):
        begin(worker(cluster, cid), TASK, spec, m.EXECUTE).cancelled = True
        cluster.processes[cid].end()
    with pytest.raises(AssertionError, match="begins 3 times, with 1 retries"):
        begin(worker(cluster, 102), TASK, spec, m.EXECUTE)


def test_a_task_on_two_workers_at_once(cluster: Cluster) -> None:
    spec = Spec("f", retries=3)
    first = worker(cluster)
    begin(first, TASK, spec, m.EXECUTE)
    with pytest.raises(AssertionError, match="begins on <Worker 101> while it runs on <Worker 100>"):
        begin(worker(cluster, 101), TASK, spec, m.EXECUTE)
    first.end()
    begin(worker(cluster, 102), TASK, spec, m.EXECUTE)


def test_an_actor_in_two_processes(cluster: Cluster) -> None:
    cluster.observer.created(ACTOR, Spec("a"), LIFE)
    begin(worker(cluster), ACTOR, Spec("a"), m.CONSTRUCT)
    with pytest.raises(AssertionError, match="is in <Worker 100> and in <Worker 101>"):
        begin(worker(cluster, 101), ACTOR, Spec("a"), m.CONSTRUCT, 1)


def test_two_workers_for_one_restart(cluster: Cluster) -> None:
    cluster.observer.created(ACTOR, Spec("a"), LIFE)
    first = worker(cluster)
    begin(first, ACTOR, Spec("a"), m.CONSTRUCT)
    first.end()
    with pytest.raises(AssertionError, match="constructed twice for restart 0"):
        begin(worker(cluster, 101), ACTOR, Spec("a"), m.CONSTRUCT, 0)


def test_two_actors_of_one_name(cluster: Cluster) -> None:
    driver = cluster.driver()
    driver.todo.append(
        ("create", Spec("a", request={}), {**LIFE, "namespace": "", "detached": True, "handle": b""})
    )
    cluster.settle()
    cluster.observer.created(OTHER, Spec("b"), LIFE)
    with pytest.raises(AssertionError, match="are both named a"):
        begin(worker(cluster), OTHER, Spec("b"), m.CONSTRUCT)


def test_calls_out_of_order_or_at_another_actor(cluster: Cluster) -> None:
    driver = cluster.driver()
    cluster.observer.created(ACTOR, Spec("a"), LIFE)
    calls = [bytes([number]) * 24 for number in range(3)]
    for call in calls:
        cluster.observer.called(driver, call, ACTOR)
    place = worker(cluster)
    with pytest.raises(AssertionError, match="of another actor"):
        begin(place, calls[2], method("g"), m.INVOKE)
    begin(worker_of(cluster, ACTOR), calls[1], method("g"), m.INVOKE)
    with pytest.raises(AssertionError, match="after a later call of the same caller"):
        begin(worker_of(cluster, ACTOR), calls[0], method("f"), m.INVOKE)


def worker_of(cluster: Cluster, actor_id: bytes) -> Worker:
    found = worker(cluster)
    found.actor_id = actor_id
    return found


@pytest.mark.parametrize(
    ("request_of_both", "message"), [({"CPU": 2 * CPU}, "CPU: 40000 of 20000"), ({"GPU": CPU}, "GPU")]
)
def test_more_in_use_than_there_is(cluster: Cluster, request_of_both: dict[str, int], message: str) -> None:
    driver = cluster.driver()
    driver.todo.append(("submit", Spec("f", (("gate", "never"),), request=request_of_both)))
    cluster.settle()
    first = next(process for process in cluster.processes.values() if isinstance(process, Worker))
    second = worker(cluster)
    cluster.core.scheduler.workers[second.cid] = known = cluster.core.scheduler.workers[first.cid]
    assert known.lease is not None
    lease: dict[str, Any] = {"resources": request_of_both, "gpus": [0] if "GPU" in request_of_both else []}
    cluster.observer.leased(second, lease)
    second.tables.running = running = Running(TASK, Spec("g"), 0)
    with pytest.raises(AssertionError, match=message):
        cluster.observer.began(second, running, m.EXECUTE)


def test_an_answer_that_is_taken_twice(cluster: Cluster) -> None:
    driver = cluster.driver()
    driver.todo.append(("submit", Spec("f", (("gate", "never"),))))
    cluster.settle()
    place = next(process for process in cluster.processes.values() if isinstance(process, Worker))
    (running,) = place.at_work()
    cluster.observer.accepts(cluster, place, running.task_id)
    with pytest.raises(AssertionError, match="accepted twice"):
        cluster.observer.accepts(cluster, place, running.task_id)


def test_memory_that_is_free_or_another_objects(cluster: Cluster) -> None:
    driver = cluster.driver()
    driver.todo.append(("put", True))
    cluster.settle()
    ref = driver.frame.refs[0]
    cluster.observer.reads(cluster, ref, ref._value)
    record = cluster.core.objects.records.pop(ref._id)
    with pytest.raises(AssertionError, match="that is free by now"):
        cluster.observer.reads(cluster, ref, ref._value)
    cluster.core.objects.records[ref._id] = record
    cluster.memory[ref._value[0]] = (b"another", ())
    with pytest.raises(AssertionError, match="holds another object"):
        cluster.observer.reads(cluster, ref, ref._value)


def test_a_value_that_is_lost_though_nothing_broke(cluster: Cluster) -> None:
    lost = ("ObjectLostError", {"message": "gone"})
    cluster.observer.received(bytes(28), m.ERROR, lost)
    cluster.observer.faultless = True
    cluster.observer.received(bytes(28), m.ERROR, ("RayTaskError", {}))
    with pytest.raises(AssertionError, match="is lost, though nothing broke"):
        cluster.observer.received(bytes(28), m.ERROR, lost)


def test_a_task_that_waits_for_nothing_that_has_a_name(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = cluster.driver()
    gate = Spec("f", (("gate", "never"),), request={"CPU": 2 * CPU})
    driver.todo += [("submit", gate), ("submit", Spec("g"))]
    cluster.settle()
    cluster.wonder()
    monkeypatch.setattr(cluster.core, "why_waiting", lambda task: "")
    with pytest.raises(AssertionError, match="waits, and nothing says why"):
        cluster.wonder()


def test_bundles_of_more_than_a_node_has(cluster: Cluster) -> None:
    driver = cluster.driver()
    driver.todo.append(("group", ({"CPU": 2 * CPU},), "PACK"))
    cluster.settle()
    cluster.wonder()
    group = next(iter(cluster.core.placement.groups.values()))
    group.bundles = ({"CPU": 3 * CPU},)
    with pytest.raises(AssertionError, match="bundles have 30000 CPU"):
        cluster.wonder()


def test_harmless_faults_lose_nothing() -> None:
    faults = Faults.drawn(random.Random(3)).harmless_only()
    assert not any((faults.worker, faults.driver, faults.node, faults.work, faults.reply, faults.effect))
    assert not (faults.giving_up or faults.environment or faults.full or faults.unreadable)
    assert faults.arena_bytes < Faults().arena_bytes < faults.disk_bytes, "what does not fit goes to disk"
