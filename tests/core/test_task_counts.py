"""The numbers of tasks by function and state. The rig compares them with a walk over all tasks after each step."""

from __future__ import annotations

from skate.core.state import task_counts
from skate.protocol import messages as m
from skate.protocol.states import ALIVE
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig, first


def counted(rig: Rig) -> dict[tuple[str, str, bool], int]:
    """Return the numbers by name, state, and True for later attempts."""
    found = task_counts.count(rig.core.tables).items()
    return {(template.name, state, again): number for (template, state, again), number in found}


def test_plain_tasks() -> None:
    rig = Rig(cpus=1)
    running = rig.submit(retries=1)
    rig.submit()
    rig.submit(first(running), name="takes one")
    assert counted(rig) == {
        ("task", "RUNNING", False): 1,
        ("task", "PENDING_NODE_ASSIGNMENT", False): 1,
        ("takes one", "PENDING_ARGS_AVAIL", False): 1,
    }
    rig.done(rig.worker_of(running), running, m.FAILED, ("RayTaskError", {}), retriable=True)
    again = counted(rig)
    assert again["task", "RUNNING", True] + again.get(("task", "PENDING_NODE_ASSIGNMENT", True), 0) == 1
    assert sum(again.values()) == 3


def test_calls_of_an_actor() -> None:
    rig = Rig(cpus=1)
    source = rig.submit(name="source", request={"CPU": CPU})
    pending = rig.create(request={"CPU": CPU})
    rig.call(pending)
    assert counted(rig)["Actor", "PENDING_NODE_ASSIGNMENT", False] == 1
    assert counted(rig)["call", "PENDING_NODE_ASSIGNMENT", False] == 1
    living, worker = rig.living()
    for _ in range(3):
        rig.call(living)
    rig.call(living, first(source))
    rig.call(living)
    found = {state: number for (name, state, _), number in counted(rig).items() if name == "call"}
    assert found == {
        "RUNNING": 1,
        "SUBMITTED_TO_WORKER": 2,
        "PENDING_ARGS_AVAIL": 1,
        "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY": 1,
        "PENDING_NODE_ASSIGNMENT": 1,
    }
    rig.lose(worker)
    assert {state for name, state, _ in counted(rig) if name == "call"} == {"PENDING_NODE_ASSIGNMENT"}


def test_concurrent_calls_run_at_once() -> None:
    rig = Rig()
    actor, worker = rig.living(concurrent=True)
    calls = [rig.call(actor) for _ in range(3)]
    assert counted(rig) == {("call", "RUNNING", False): 3}
    rig.send(worker, m.BLOCKED, calls[1])
    assert counted(rig) == {("call", "RUNNING", False): 2, ("call", "RUNNING_IN_RAY_GET", False): 1}


def test_the_metrics_of_many_tasks_take_one_step() -> None:
    """Rows of tasks are made in several steps, since nothing else happens meanwhile. Metrics walk over no table."""
    rig = Rig()
    rig.core.surveys.slice = 100
    rig.submit()
    queued = [rig.submit() for _ in range(200)]
    rig.send(1, m.REQUEST, 1_000, "survey", (1, ("metrics",), {}, 0, False))
    assert rig.received(1, m.REPLY) and not rig.core.timers
    assert counted(rig)["task", "PENDING_NODE_ASSIGNMENT", False] == len(queued)


def test_a_dropped_function_leaves_its_numbers() -> None:
    rig = Rig()
    task = rig.submit(name="once")
    rig.done(rig.worker_of(task), task)
    (key,) = rig.core.templates
    rig.send(1, m.FORGET, (key, b"function"))
    rig.core.function_table.sweep()
    assert not rig.core.templates
    (row,) = (row for row in rig.ask("rows", "metrics", {}) if row["name"] == "tasks")
    ((labels, number, _, _),) = row["series"]
    assert dict(labels)["State"] == "FINISHED" and number == 1.0


def test_a_call_that_was_retried_on_a_lost_node_counts_as_such() -> None:
    rig = Rig()
    for cid, is_head in ((50, True), (51, False)):
        node_id = f"node00{cid}".encode().ljust(28, b".")
        rig.core.cluster.join(cid, {"node_id": node_id, "total": {}, "labels": {}, "head": is_head}, rig.now)
    actor = rig.create(max_restarts=1, max_task_retries=2)
    facts = {"class_name": "Actor", "name": "", "task_retries": 2, "in_order": True}
    rig.send(50, m.ACTOR_AT, actor, ALIVE, b"node0051".ljust(28, b"."), facts)
    call = rig.call(actor)
    rig.send(51, m.RETRIED, call, 1, 1)
    rig.core.cluster.left(51, "was lost", rig.now)
    rig.tick(0.0)
    # It waits for what the head says of the actor.
    assert counted(rig)["call", "PENDING_NODE_ASSIGNMENT", True] == 1
