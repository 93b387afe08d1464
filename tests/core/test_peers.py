"""Several nodes: placement of tasks and bundles, loss of a node, and no leaked holds."""

from __future__ import annotations

from typing import Any

import pytest

from skate.core.node import NodeCore
from skate.core.placement import bundle_policy
from skate.core.task.task import Task, Template
from skate.protocol import messages as m
from skate.protocol.states import PLAIN
from skate.simulation.programs.spec import CPU, Spec, method
from tests.core.worlds import outcome, world

HERE, THERE, ELSEWHERE = (name.encode().ljust(28, b".") for name in ("here", "there", "elsewhere"))


class Site:
    """A node as the placement of bundles sees it."""

    def __init__(self, name: str, cpus: int, zone: str = "") -> None:
        self.name = name
        self.available = {"CPU": cpus * CPU}
        self.labels = {"zone": zone}

    def __repr__(self) -> str:
        return self.name


def plan(strategy: str, cpus: list[int], *sites: Site, used: tuple[Site, ...] = ()) -> dict[int, str] | None:
    wanted = [(index, {"CPU": count * CPU}, None) for index, count in enumerate(cpus)]
    found = bundle_policy.plan(strategy, wanted, list(sites), list(used))
    return None if found is None else {index: repr(site) for index, site in sorted(found.items())}


def core(cpus: int = 1) -> NodeCore:
    """Return a node with two others: "there" with two CPUs, and "elsewhere" with four and a label."""
    node = NodeCore({"CPU": cpus * CPU}, node_id=HERE)
    for cid, name, count, zone in ((50, THERE, 2, "a"), (51, ELSEWHERE, 4, "b")):
        node.cluster.join(
            cid, {"node_id": name, "total": {"CPU": count * CPU}, "labels": {"zone": zone}}, 0.0
        )
    node.next_cid = 100
    return node


def chosen(node: NodeCore, strategy: Any = None, cpus: float = 1) -> bytes | None:
    fields = {
        "name": "f",
        "function": b"f",
        "request": {"CPU": int(cpus * CPU)} if cpus else {},
        "strategy": strategy,
    }
    task = Task(bytes(24), PLAIN, 1, Template(repr(fields).encode(), fields), b"", (), (), b"")
    place = node.peers.where.choose(task)
    return None if place is None else place.node_id


# -- tasks


def test_a_task_stays_where_it_is_submitted_while_there_is_room() -> None:
    assert chosen(core()) == HERE


def test_a_task_that_does_not_fit_here_goes_where_most_is_free() -> None:
    node = core()
    node.peers.alive[51].available = {"CPU": CPU}
    assert chosen(node, cpus=2) == THERE


def test_a_task_waits_here_when_nobody_has_room() -> None:
    node = core()
    node.capacity.acquire({"CPU": CPU})
    for peer in node.peers.alive.values():
        peer.available = {"CPU": 0}
    assert chosen(node) == HERE


def test_a_task_that_only_others_could_run_waits_for_them() -> None:
    node = core()
    for peer in node.peers.alive.values():
        peer.available = {"CPU": 0}
    assert chosen(node, cpus=2) is None


@pytest.mark.parametrize("soft", [False, True])
def test_affinity_goes_to_its_node_even_if_that_is_busy(soft: bool) -> None:
    node = core()
    node.peers.alive[50].available = {"CPU": 0}
    assert chosen(node, ("node", THERE, soft, "wait")) == THERE


def test_affinity_that_spills_avoids_a_busy_node_while_another_has_room() -> None:
    node = core()
    spilling = ("node", THERE, True, "spill")
    assert chosen(node, spilling) == THERE
    peers = node.peers.alive
    peers[50].available = {"CPU": 0}
    assert chosen(node, spilling) == HERE
    for peer in (node.peers.here, *peers.values()):
        peer.available = {"CPU": 0}
    assert chosen(node, spilling) == THERE, "it waits for its own node if none has room"


def test_soft_affinity_to_a_node_that_is_gone_goes_anywhere() -> None:
    node = core()
    node.cluster.left(50, "was lost", 1.0)
    assert chosen(node, ("node", THERE, True, "wait")) == HERE
    assert chosen(node, ("node", THERE, False, "wait")) is None


def test_labels_choose_and_preferred_ones_are_only_preferred() -> None:
    node = core()
    assert chosen(node, ("labels", (("zone", "in", ("b",)),), ())) == ELSEWHERE
    assert chosen(node, ("labels", (), (("zone", "in", ("a",)),))) == THERE
    assert chosen(node, ("labels", (), (("zone", "in", ("c",)),))) == HERE


def test_spread_takes_the_nodes_in_turn() -> None:
    node = core()
    assert [chosen(node, ("spread",)) for _ in range(4)] == [HERE, THERE, ELSEWHERE, HERE]


def test_what_was_sent_after_a_report_is_not_in_it() -> None:
    node = core()
    peer = node.peers.alive[50]
    fields = {"name": "f", "function": b"", "request": {"CPU": CPU}}
    node.templates[b"key"] = Template(b"key", fields)
    for number in range(2):
        task = Task(bytes([number]) * 24, PLAIN, 1, node.templates[b"key"], b"", (), (), b"")
        node.tasks[task.task_id] = task
        node.task_forwarder.forward(task, peer)
    node.step(50, (m.REPORT, {"CPU": CPU}, {}, 1), 1.0)
    assert peer.available == {"CPU": 0}
    node.step(50, (m.REPORT, {"CPU": CPU}, {}, 2), 2.0)
    assert peer.available == {"CPU": CPU}


# -- bundles


def test_pack_prefers_one_node_and_overflows_to_few() -> None:
    a, b, c = Site("a", 1), Site("b", 2), Site("c", 2)
    assert plan("PACK", [1, 1], a, b, c) == {0: "b", 1: "b"}
    assert set((plan("PACK", [1, 1, 1, 1], a, b, c) or {}).values()) == {"b", "c"}
    assert plan("PACK", [3], a, b, c) is None


def test_strict_pack_is_one_node_or_none() -> None:
    assert plan("STRICT_PACK", [2, 1], Site("a", 2), Site("b", 2)) is None
    assert plan("STRICT_PACK", [2, 1], Site("a", 2), Site("b", 3)) == {0: "b", 1: "b"}


def test_spread_uses_all_before_it_doubles() -> None:
    sites = Site("a", 2), Site("b", 2), Site("c", 2)
    assert set((plan("SPREAD", [1, 1, 1], *sites) or {}).values()) == {"a", "b", "c"}
    assert sorted((plan("SPREAD", [1] * 4, *sites) or {}).values()) in (
        ["a", "a", "b", "c"],
        ["a", "b", "b", "c"],
        ["a", "b", "c", "c"],
    )


def test_strict_spread_moves_earlier_bundles_aside() -> None:
    # Only b holds the second bundle, so the first must not take it.
    assert plan("STRICT_SPREAD", [1, 2], Site("b", 2), Site("a", 1)) == {0: "a", 1: "b"}
    assert plan("STRICT_SPREAD", [1, 1, 1], Site("a", 9), Site("b", 9)) is None


def test_a_lost_bundle_is_not_put_beside_the_others_of_a_strict_spread() -> None:
    a, b = Site("a", 9), Site("b", 9)
    assert plan("STRICT_SPREAD", [1], a, b, used=(a,)) == {0: "b"}


# -- whole nodes, with scripted messages between them


def test_task_runs_on_the_node_that_has_its_resource_and_its_result_comes_back() -> None:
    nodes = world(1, 1)
    driver = nodes.nodes[0].driver()
    spec = Spec("f", request={"at1": 10}, large=True, retries=1)
    driver.todo += [("submit", spec), ("get", 0)]
    nodes.settle()
    assert outcome(nodes, spec) == "ok"
    assert driver.frame.refs[0]._kind == m.ARENA, "a value that was asked for is here"
    nodes.drain(without_timeouts=True)


@pytest.mark.parametrize("retries", [0, 1])
def test_task_of_a_lost_node_runs_again_elsewhere_if_it_may(retries: int) -> None:
    nodes = world(1, 1, 1)
    driver = nodes.nodes[0].driver()
    strategy = ("node", nodes.nodes[1].node_id, True, "wait")
    spec = Spec("f", (("gate", "open"),), strategy=strategy, retries=retries)
    driver.todo.append(("submit", spec))
    nodes.settle()
    nodes.kill(nodes.nodes[1])
    nodes.gates.add("open")
    nodes.settle()
    assert outcome(nodes, spec) == ("ok" if retries else "NodeDiedError")
    nodes.drain(without_timeouts=True)


@pytest.mark.parametrize("retries", [0, 2])
def test_value_of_a_lost_node_is_made_again_with_what_it_was_made_of(retries: int) -> None:
    nodes = world(1, 1, 1)
    driver = nodes.nodes[0].driver()
    strategy = ("node", nodes.nodes[1].node_id, True, "wait")
    first = Spec("first", large=True, retries=retries, strategy=strategy)
    second = Spec("second", large=True, retries=retries, strategy=strategy)
    driver.todo += [("submit", first), ("submit", second, (0,)), ("drop", 0)]
    nodes.settle()
    assert driver.frame.refs[0]._kind == m.REMOTE
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    driver.todo.append(("get", 0))
    nodes.settle()
    assert nodes.observer.result(driver.frame.refs[0]) == (
        "ok" if retries else "ObjectReconstructionFailedError"
    )
    assert sorted(nodes.observer.attempts.values()) == ([2, 2] if retries else [1, 1])
    nodes.drain(without_timeouts=True)


def test_value_made_again_holds_what_is_in_it_once() -> None:
    nodes = world(1, 1, 1)
    driver = nodes.nodes[0].driver()
    strategy = ("node", nodes.nodes[1].node_id, True, "wait")
    inner = Spec("inner")
    outer = Spec("outer", (("give", (0,)),), large=True, retries=1, strategy=strategy)
    driver.todo += [("submit", inner), ("submit", outer, (), (0,))]
    nodes.settle()
    assert driver.frame.refs[1]._kind == m.REMOTE
    nodes.kill(nodes.nodes[1])
    driver.todo.append(("get", 1))
    nodes.settle()
    assert nodes.observer.result(driver.frame.refs[1]) == "ok"
    nodes.drain(without_timeouts=True)


def test_task_tried_again_does_not_run_with_an_argument_that_was_lost_meanwhile() -> None:
    nodes = world(1, 1, 1)
    driver = nodes.nodes[0].driver()
    places = [("node", nodes.nodes[number].node_id, True, "wait") for number in (1, 2)]
    first = Spec("first", large=True, strategy=places[0])
    second = Spec("second", (("gate", "open"),), retries=1, strategy=places[1])
    driver.todo += [("submit", first), ("submit", second, (0,))]
    nodes.settle()
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    nodes.kill(nodes.nodes[2])  # with the copy that was read there
    nodes.gates.add("open")
    nodes.settle()
    assert outcome(nodes, second) == "ObjectReconstructionFailedError"
    nodes.drain(without_timeouts=True)


def test_what_a_refused_bundle_leaves_free_is_used() -> None:
    node = core(1)
    node.connect(1, "job", "", True)
    fields = {"name": "f", "function": b"f", "request": {"CPU": CPU}}
    node.step(1, (m.FUNCTION, b"f", b"code", ()), 0.0)
    node.step(1, (m.TEMPLATE, b"key", fields), 0.0)
    whole = tuple({"CPU": count * CPU} for count in (1, 2, 4))
    node.step(1, (m.REQUEST, 1, "create_group", (b"group", whole, {"strategy": "STRICT_SPREAD"})), 0.0)
    for peer in node.peers.alive.values():
        peer.available = {"CPU": 0}
    node.step(1, (m.SUBMIT, bytes(8) + HERE[:8] + b"\1\0\0\0job0", b"key", b"", (), (), b""), 0.0)
    assert node.scheduler.waiting, "the group has the only CPU while the other nodes are asked"
    node.step(50, (m.RESERVED, b"group", 1, True), 0.0)
    node.step(51, (m.RESERVED, b"group", 2, False), 0.0)
    assert not node.scheduler.waiting
    node.check()


def test_the_queued_tasks_of_a_peer_do_not_keep_others_here() -> None:
    node = core(1)
    node.connect(1, "job", "", True)
    fields = {"name": "f", "function": b"f", "request": {"CPU": CPU}}
    for cid in (1, 50):
        node.step(cid, (m.FUNCTION, b"f", b"code", ()), 0.0)
        node.step(cid, (m.TEMPLATE, b"key", fields), 0.0)
    for peer in node.peers.alive.values():
        peer.available = {"CPU": 0}

    def forward(number: int) -> None:
        task_id = number.to_bytes(8, "little") + THERE[:8] + bytes(8)
        origin = {"attempt": 0, "retries": 0}
        node.step(50, (m.FORWARD, PLAIN, task_id, b"key", b"", (), (), b"", origin), 0.0)

    forward(1)  # which runs
    forward(2)
    node.step(1, (m.SUBMIT, bytes(8) + HERE[:8] + b"\1\0\0\0job0", b"key", b"", (), (), b""), 0.0)
    assert not node.peers.alive[51].outstanding
    node.step(51, (m.REPORT, {"CPU": 4 * CPU}, {}, 0), 0.0)
    assert len(node.peers.alive[51].outstanding) == 1
    node.check()


@pytest.mark.parametrize("restarts", [0, 1])
def test_actor_of_a_lost_node_starts_again_elsewhere_if_it_may(restarts: int) -> None:
    nodes = world(1, 1, 1)
    driver = nodes.nodes[0].driver()
    strategy = ("node", nodes.nodes[1].node_id, True, "wait")
    life = {"max_restarts": restarts, "max_task_retries": 0, "concurrent": False}
    before, after = method("before"), method("after")
    driver.todo += [("create", Spec("actor", request={}, strategy=strategy), life), ("call", 0, before)]
    nodes.settle()
    assert outcome(nodes, before) == "ok"
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    driver.todo.append(("call", 0, after))
    nodes.settle()
    assert outcome(nodes, after) == ("ok" if restarts else "ActorDiedError")
    nodes.drain(without_timeouts=True)


def test_what_only_a_lost_node_could_run_fails_after_a_while() -> None:
    nodes = world(1, 1)
    driver = nodes.nodes[0].driver()
    spec = Spec("f", (("gate", "open"),), request={"at1": 10}, retries=-1)
    driver.todo.append(("submit", spec))
    nodes.settle()
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    assert outcome(nodes, spec) == "TaskUnschedulableError"
    nodes.drain(without_timeouts=True)


def test_a_node_that_joins_takes_what_waited_for_it() -> None:
    nodes = world(1, 1)
    driver = nodes.nodes[0].driver()
    spec = Spec("f", (("gate", "open"),), request={"CPU": CPU, "at1": 10}, retries=1)
    driver.todo.append(("submit", spec))
    nodes.settle()
    again = Spec("g", request={"CPU": 2 * CPU}, retries=1)
    nodes.add(2)
    driver.todo.append(("submit", again))
    nodes.settle()
    assert outcome(nodes, again) == "ok"
    nodes.gates.add("open")
    nodes.drain(without_timeouts=True)


def test_a_node_says_which_resource_is_missing_where_it_could_be() -> None:
    node = core(1)
    node.connect(1, "job", "", True)
    fields = {"name": "f", "function": b"f", "request": {"CPU": CPU, "at1": 10}}
    node.step(1, (m.FUNCTION, b"f", b"code", ()), 0.0)
    node.step(1, (m.TEMPLATE, b"key", fields), 0.0)
    node.peers.alive[50].total = {"CPU": CPU, "at1": 10}
    node.peers.alive[50].available = {"CPU": 0, "at1": 10}
    task_id = bytes(8) + HERE[:8] + b"\1\0\0\0job0"
    node.step(1, (m.SUBMIT, task_id, b"key", b"", (), (), b""), 0.0)
    assert "no CPU: 1 requested, 0 of 1 free on node" in node.wait_explainer.of(task_id)


def test_what_a_node_owned_that_was_lost_before_this_one_joined_is_not_waited_for() -> None:
    node = core()
    owned = bytes(8) + b"someone." + bytes(12)
    task_id, fields = bytes(8) + THERE[:8] + bytes(8), {"name": "f", "function": b"", "request": {}}
    node.step(50, (m.TEMPLATE, b"key", fields), 0.0)
    life = {"attempt": 0, "retries": 0, "job": "job", "namespace": ""}
    node.step(50, (m.FORWARD, PLAIN, task_id, b"key", b"", ((0, owned),), (), b"", life), 0.0)
    node.check()
    assert not node.tasks
    errors = [message[3] for cid, message in node.effects if cid == 50 and message[0] == m.ANSWERED]
    assert [name for name, _ in errors] == ["OwnerDiedError"]
    assert "lost before this node joined" in errors[0][1]["detail"]


def test_a_group_does_not_keep_a_bundle_that_was_lost_while_others_were_still_asked() -> None:
    node = core(1)
    node.connect(1, "job", "", True)
    whole = ({"CPU": 2 * CPU}, {"CPU": 4 * CPU})
    node.step(1, (m.REQUEST, 1, "create_group", (b"group", whole, {"strategy": "STRICT_SPREAD"})), 0.0)
    reserved = {message[2]: cid for cid, message in node.effects if message[0] == m.RESERVE}
    assert reserved == {0: 50, 1: 51}
    node.step(50, (m.RESERVED, b"group", 0, True), 0.0)
    node.cluster.left(50, "was lost", 1.0)
    node.step(51, (m.RESERVED, b"group", 1, True), 1.0)
    assert node.placement.groups[b"group"].state != "CREATED"
    assert (51, (m.UNRESERVE, b"group", 1)) in node.effects
    node.check()
