"""The index of node capacities chooses the same nodes as a search over all nodes."""

from __future__ import annotations

import random

import pytest

from skate.core.cluster.node_capacity_index import Choices
from skate.core.node import NodeCore, admit_client
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.states import PLAIN

CPU = 10_000
NODES = 40


def head(rng: random.Random) -> NodeCore:
    core = NodeCore({"CPU": CPU}, node_id=b"headhead" + bytes(20), linear_max=1)
    assert admit_client(core, se.DriverJoined(se.DRIVER_JOINED, "job", "", False), 0.0) == 1
    for number in range(NODES):
        total = {"CPU": rng.choice((1, 2, 3)) * CPU, "disk": 4 * CPU}
        info = {"node_id": number.to_bytes(8, "big") + bytes(20), "total": total, "labels": {}}
        admit_client(core, se.PeerJoined(se.PEER_JOINED, info), 0.0)
    return core


def template(core: NodeCore, key: bytes, request: dict[str, int], strategy: object = None) -> None:
    core.step(
        1, (m.TEMPLATE, key, {"name": "f", "function": b"", "request": request, "strategy": strategy}), 0.0
    )


def task(core: NodeCore, number: int, key: bytes) -> Task:
    return Task(number.to_bytes(24, "little"), PLAIN, 1, core.templates[key], b"", (), (), b"")


@pytest.mark.parametrize("seed", range(20))
def test_the_roomiest_is_found_as_by_looking_at_each(seed: int) -> None:
    rng = random.Random(seed)
    core = head(rng)
    keys = (b"small", b"large", b"two")
    for key, request in zip(
        keys, ({"CPU": CPU // 2}, {"CPU": 2 * CPU}, {"CPU": CPU, "disk": CPU}), strict=True
    ):
        template(core, key, request)
    where = core.peers.where
    core.templates[b"small"].seconds = rng.choice((-1.0, 0.001))  # short ones are sent ahead
    found = 0
    for number in range(800):
        each = task(core, number, rng.choice(keys))
        choices = where.choices(each.template)
        assert choices.many
        need = each.template.request
        ranked = where._roomiest(each, choices, need)
        assert ranked is where._roomiest(each, Choices(choices.nodes, core.peers.here, 1000), need)
        if ranked is not None and rng.random() < 0.7:
            found += 1
            core.tasks[each.task_id] = each
            core.task_forwarder.forward(each, ranked)
        peer = rng.choice(list(core.peers.alive.values()))
        if peer.outstanding and rng.random() < 0.5:
            first = next(iter(peer.outstanding))
            core.step(peer.cid, (m.FINISHED, first, 1000, None), 0.0)
        elif rng.random() < 0.3:
            free = {name: rng.randrange(units + 1) for name, units in peer.total.items()}
            core.step(peer.cid, (m.REPORT, free, {}, peer.sent), 0.0)
        core.effects.clear()
    assert found > 100


def test_tasks_are_spread_over_many_nodes_in_turn() -> None:
    core = head(random.Random(1))
    template(core, b"spread", {"CPU": CPU}, ("spread",))
    places = []
    for number in range(NODES + 1):
        each = task(core, number, b"spread")
        place = core.peers.where.choose(each)
        assert place is not None
        places.append(place)
        if place is not core.peers.here:
            core.task_forwarder.forward(each, place)
    assert len(set(places)) == NODES + 1, "no node twice before all had a turn"


def test_a_log_that_was_cleared_is_no_loss() -> None:
    core = head(random.Random(1))
    template(core, b"f", {"CPU": 3 * CPU})
    where = core.peers.where
    each = task(core, 1, b"f")
    peers = list(core.peers.alive.values())
    for peer in peers:
        core.step(peer.cid, (m.REPORT, {"CPU": 0}, {}, 0), 0.0)
    assert where.elsewhere(each) is None
    large = next(peer for peer in peers if peer.total["CPU"] == 3 * CPU)
    core.step(large.cid, (m.REPORT, dict(large.total), {}, 0), 0.0)
    for _ in range(10_000):
        where.changes.freed(peers[0])
    assert where.elsewhere(each) is large
