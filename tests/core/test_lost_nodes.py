"""Values and tasks of a lost node: which are recreated, by which node, and the errors for the others."""

from __future__ import annotations

from typing import Any

import pytest

from skate.core.cluster.membership import DEAD_MAX
from skate.core.node import NodeCore
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.states import ALIVE, DEAD
from skate.simulation.nodes.star import Star
from skate.simulation.programs.spec import CPU, Spec, method
from tests.core.rig import Rig
from tests.core.worlds import world

ITEM = ("item", True, ())


def lost_and_requested(spec: Spec, *more: Any, life: dict[str, Any] | None = None) -> tuple[Star, Any]:
    """Lose the node that has a driver's values, and request the first of them."""
    nodes = world(1, 1, 1)
    driver = nodes.nodes[0].driver()
    strategy = ("node", nodes.nodes[1].node_id, True, "wait")
    if life is None:
        spec.strategy = strategy
        driver.todo.append(("submit", spec))
    else:
        driver.todo += [("create", Spec("actor", request={}, strategy=strategy), life), ("call", 0, spec)]
    driver.todo += more
    nodes.settle()
    assert driver.frame.refs[0]._kind == m.REMOTE
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    driver.todo.append(("get", 0))
    nodes.settle()
    return nodes, driver


def outcomes_of_refs(nodes: Star, driver: Any) -> list[str]:
    return [nodes.observer.result(ref) for ref in driver.frame.refs]


def test_a_stream_runs_again_from_its_start_for_what_was_lost_of_it() -> None:
    program = (ITEM, ITEM, ITEM)
    spec = Spec("stream", program, streaming=True, large=True, retries=1, backpressure=1)
    nodes, driver = lost_and_requested(spec, ("next", 0), ("next", 0), ("next", 0))
    driver.todo += [("get", 1), ("get", 2)]
    nodes.settle()
    assert outcomes_of_refs(nodes, driver) == ["ok"] * 3
    assert list(nodes.observer.attempts.values()) == [2]
    nodes.drain(without_timeouts=True)


def test_a_stream_without_retries_is_not_run_again() -> None:
    spec = Spec("stream", (ITEM,), streaming=True, large=True)
    nodes, driver = lost_and_requested(spec, ("next", 0))
    assert outcomes_of_refs(nodes, driver) == ["ObjectReconstructionFailedError"]
    nodes.drain(without_timeouts=True)


def test_what_is_lost_of_a_stream_that_still_runs_is_made_again_by_its_next_attempt() -> None:
    program = (ITEM, ("gate", "open"), ITEM)
    spec = Spec("stream", program, streaming=True, large=True, retries=1)
    nodes, driver = lost_and_requested(spec, ("next", 0))
    nodes.gates.add("open")
    driver.todo += [("next", 0), ("get", 1)]
    nodes.settle()
    assert outcomes_of_refs(nodes, driver) == ["ok"] * 2
    nodes.drain(without_timeouts=True)


@pytest.mark.parametrize(
    ("restarts", "retries", "result", "attempts"),
    [
        (1, 1, "ok", 2),
        (0, 1, "ActorDiedError", 1),
        (1, 0, "ObjectReconstructionFailedError", 1),
    ],
)
def test_a_call_is_made_again_by_an_actor_that_lives(
    restarts: int, retries: int, result: str, attempts: int
) -> None:
    life = {"max_restarts": restarts, "max_task_retries": retries, "concurrent": False}
    spec = method("make", large=True)
    nodes, driver = lost_and_requested(spec, life=life)
    assert outcomes_of_refs(nodes, driver) == [result]
    [task_id] = [task_id for task_id, each in nodes.specs.items() if each is spec]
    assert nodes.observer.attempts[task_id] == attempts
    nodes.drain(without_timeouts=True)


def test_values_lost_on_their_way_to_who_waits_for_them_are_made_again_by_one_run() -> None:
    nodes = world(1, 1, 1)
    head = nodes.nodes[0].core
    driver = nodes.nodes[0].driver()
    pair = Spec(
        "pair", large=True, returns=2, retries=1, strategy=("node", nodes.nodes[1].node_id, True, "wait")
    )
    taker = method("taker")
    life = {"actor_name": "", "namespace": "", "detached": False, "max_restarts": 0, "max_task_retries": 0}
    actor = Spec("actor", request={}, strategy=("node", nodes.nodes[0].node_id, False, "wait"))
    driver.todo += [("create", actor, {**life, "concurrent": False, "handle": b""}), ("submit", pair)]
    driver.todo.append(("call", 0, taker, (0, 1)))
    while len(head.remote_objects.pulls) < 2:
        assert nodes.step()
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    driver.todo.append(("get", 2))
    nodes.settle()
    assert outcomes_of_refs(nodes, driver)[2] == "ok"
    assert sorted(nodes.observer.attempts.values()) == [1, 1, 2]
    nodes.drain(without_timeouts=True)


@pytest.mark.parametrize("retries", [0, 1])
def test_caller_is_told_once_of_a_result_that_is_lost_before_the_others_come(retries: int) -> None:
    nodes = world(1, 1, 1)
    driver = nodes.nodes[0].driver()
    spec = Spec(
        "two", large=True, returns=2, retries=retries, strategy=("node", nodes.nodes[1].node_id, True, "wait")
    )
    driver.todo.append(("submit", spec))
    while not any(task.given for task in nodes.nodes[0].core.tasks.values()):
        nodes.step()
    while all(ref._kind == m.PENDING for ref in driver.frame.refs):
        nodes.nodes[0].deliver(driver)
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    driver.todo.append(("get", 0))
    nodes.settle()
    assert nodes.observer.result(driver.frame.refs[0]) in (
        "ok",
        "NodeDiedError",
        "ObjectReconstructionFailedError",
    )
    nodes.drain(without_timeouts=True)


SERVICE = {"actor_name": "a", "namespace": "", "detached": True, "max_restarts": 0, "max_task_retries": 0}


def borrowed_on_a_third_node(large: bool, owner_is_driver: bool) -> tuple[Star, list[Any]]:
    """A value that a process of the second node owns, and the refs to it in a program on the third, behind a gate."""
    nodes = world(1, 1, 1)
    head = nodes.nodes[0].driver()
    on_third_node = ("node", nodes.nodes[2].node_id, False, "wait")
    read = method("read", (("gate", "read"), ("get", -1), ("gate", "end")))
    life = {**SERVICE, "concurrent": False, "handle": b""}
    head.todo.append(("create", Spec("actor", request={}, strategy=on_third_node), life))
    nodes.settle()
    if owner_is_driver:
        nodes.nodes[1].driver().todo += [("name", "a"), ("put", large), ("call", 0, read, (), (0,))]
    else:
        make = (("name", "a"), ("put", large), ("call", 0, read, (), (0,)), ("gate", "end"))
        strategy = ("node", nodes.nodes[1].node_id, False, "wait")
        head.todo.append(("submit", Spec("make", make, strategy=strategy)))
    nodes.settle()
    [reader] = [process for process in nodes.nodes[2].processes.values() if process.is_worker]
    return nodes, [ref for frame in reader.frames() for ref in frame.refs]


@pytest.mark.parametrize("owner_is_driver", [False, True])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("first", ["loss", "read"])
def test_third_node_gets_an_error_for_a_value_whose_owner_was_lost_with_its_node(
    large: bool, owner_is_driver: bool, first: str
) -> None:
    nodes, [ref] = borrowed_on_a_third_node(large, owner_is_driver)
    if first == "loss":
        nodes.kill(nodes.nodes[1])
        nodes.settle()
        nodes.gates.add("read")
    else:
        nodes.gates.add("read")
        while ref._id not in nodes.nodes[2].core.objects.records:
            nodes.step()
        assert nodes.observer.result(ref) != "ok"
        nodes.kill(nodes.nodes[1])
    nodes.settle()
    assert nodes.observer.result(ref) == "OwnerDiedError"
    del ref
    nodes.gates.add("end")
    nodes.drain(without_timeouts=True)


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_item_lost_on_its_way_is_made_again_by_the_stream(goes_on: bool) -> None:
    program = (ITEM, ("gate", "open"), ITEM) if goes_on else (ITEM, ITEM)
    nodes = world(1, 1, 1)
    head = nodes.nodes[0].core
    driver = nodes.nodes[0].driver()
    strategy = ("node", nodes.nodes[1].node_id, True, "wait")
    spec = Spec("stream", program, streaming=True, large=True, retries=1, strategy=strategy)
    driver.todo += [("submit", spec), ("next", 0)]
    nodes.settle()
    assert driver.frame.refs[0]._kind == m.REMOTE
    driver.todo.append(("get", 0))
    while not head.remote_objects.pulls:
        assert nodes.step()
    nodes.kill(nodes.nodes[1])
    nodes.gates.add("open")
    nodes.settle()
    driver.todo += [("next", 0), ("get", 1)]
    nodes.settle()
    assert outcomes_of_refs(nodes, driver) == ["ok"] * 2
    assert list(nodes.observer.attempts.values()) == [2]
    nodes.drain(without_timeouts=True)


def test_the_error_of_a_stream_that_ran_again_takes_nothing_from_its_later_items() -> None:
    """Another attempt fails while it writes an item that the reader has: the grant that comes with the error is of that item."""
    nodes = world(1, 1, 1, 1)
    driver = nodes.nodes[0].driver()
    strategy = ("labels", (("zone", "in", ("1",)),), ())
    spec = Spec(
        "stream", (ITEM, ITEM, ("gate", "open")), streaming=True, large=True, retries=1, strategy=strategy
    )
    driver.todo += [("submit", spec), ("next", 0), ("next", 0)]
    nodes.settle()
    first, second = (nodes.nodes[number] for number in (1, 3))
    if not first.core.tasks:
        first, second = second, first
    oid = driver.frame.refs[0]._id
    nodes.kill(first)
    while (record := second.core.objects.get(oid)) is None or record.writer is None:
        assert nodes.step()
    second.strike(second.processes[record.writer])
    nodes.settle()
    assert second.core.objects.get(oid) is None
    driver.todo += [("next", 0)]
    nodes.settle()
    assert outcomes_of_refs(nodes, driver)[-1] == "WorkerCrashedError"
    del record
    nodes.drain(without_timeouts=True)


def test_only_the_last_dead_nodes_are_remembered() -> None:
    core = NodeCore({"CPU": CPU}, node_id=b"here".ljust(28, b"."))
    core.connect(1, "job", "", True)

    def come_and_go(number: int) -> bytes:
        node_id = number.to_bytes(28, "big")[::-1]
        info = {"node_id": node_id, "total": {"CPU": CPU}, "labels": {}}
        core.cluster.join(10 + number, info, 0.0)
        core.cluster.left(10 + number, "was killed", 0.0)
        return node_id

    ids = [come_and_go(number) for number in range(DEAD_MAX + 5)]
    listed = [node["node_id"] for node in core.inventory.rows("nodes")]
    assert listed == [core.node_id.hex(), *(node_id.hex() for node_id in ids[5:])]
    for node_id, word in ((ids[0], "long ago"), (ids[-1], "was killed")):
        oid = bytes(8) + node_id[:8] + bytes(8) + b"\x01\0\0\0"
        core.effects.clear()
        core.step(1, (m.ESCAPE, oid), 0.0)
        core.step(1, (m.FETCH, oid), 0.0)
        assert any(word in str(message) for cid, message in core.effects if cid == 1), word
        core.check()


@pytest.mark.parametrize("state", [ALIVE, DEAD], ids=["alive", "dead"])
def test_a_call_that_is_cancelled_while_the_head_looks_for_its_actor_has_one_result(state: int) -> None:
    rig = Rig(cpus=1)
    head, peer = 60, 50
    for cid in (head, peer):
        node_id = str(cid).encode().ljust(28, b".")
        rig.core.cluster.join(
            cid, {"node_id": node_id, "total": {"CPU": CPU}, "labels": {}, "head": cid == head}, 0.0
        )
    actor_id = rig.create(max_restarts=1, max_task_retries=1)
    facts = {"class_name": "Actor", "name": "", "task_retries": 1, "in_order": True}
    rig.send(head, m.ACTOR_AT, actor_id, ALIVE, b"50".ljust(28, b"."), facts)
    call = rig.call(actor_id)
    rig.report(se.PeerLeft(se.PEER_LEFT, peer, "was killed"))
    rig.send(1, m.CANCEL, call, False, False)
    assert rig.result(call) == "TaskCancelledError"
    rig.outbox.clear()
    death = ("ActorDiedError", {"actor_id": actor_id})
    rig.send(
        head,
        m.ACTOR_AT,
        actor_id,
        state,
        b"60".ljust(28, b"."),
        {**facts, "death": death, "reason": "was lost"},
    )
    assert not rig.results() and not rig.received(head, m.FORWARD)
