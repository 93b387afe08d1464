"""The measurements of the scale study of many nodes at once: joins, losses, large groups, and the fabric of the head."""

from __future__ import annotations

from skate.fabric.directory import HEAD, HeadDirectory
from skate.fabric.order import Order
from skate.protocol import messages as m
from skate.protocol.shell_events import PEER_LEFT, PeerLeft
from skate.simulation.scale.head import Head, timed

#: Of so many nodes one is lost, or gets a bundle.
SHARE = 10
#: Nodes that join at the same time.
NEWCOMERS = 100
TURNS = 20


def all_join(nodes: int) -> float:
    """Measure the joining of all nodes of a cluster, one after another, each followed by a task; per node."""
    head = Head(0)
    spent = 0.0
    for number in range(nodes):
        spent += head.join(number) + head.run(head.submits([b"plain"]))
        head.run(head.answers())
    return spent / nodes * 1e6


def many_left(nodes: int) -> float:
    """Measure the loss of a tenth of the nodes at once, each with a task that runs elsewhere afterwards; per lost node."""
    head = Head(nodes)
    head.run(head.submits([b"spread"] * nodes))
    lost = head.cids[:: min(SHARE, nodes)]

    def lose() -> None:
        for cid in lost:
            head.core.step(m.SHELL, PeerLeft(PEER_LEFT, cid, "was lost"), 1.0)

    return timed(lose) / len(lost) * 1e6


def large_group(nodes: int) -> float:
    """Measure the creation and removal of a group with a bundle for every tenth node; per bundle."""
    head = Head(nodes)
    bundles = max(nodes // SHARE, 1)
    make, remove = head.group("SPREAD", bundles)
    spent = head.run([make]) + head.run(head.reservations()) + head.run([remove])
    return spent / bundles * 1e6


def news(nodes: int) -> float:
    """Measure what it takes the head to tell all members of others that join at the same time; per member that is told."""
    head = Order(HEAD)
    head.holds_news = True
    for number in range(1, nodes + 1):
        head.members.add(number)

    def tell() -> None:
        for number in range(nodes + 1, nodes + 1 + NEWCOMERS):
            head.admit(number, b"description")
        head.tell()
        head.writes()

    return timed(tell) / nodes * 1e6


def directory(nodes: int) -> float:
    """Measure a look of the head at its members, which it takes four times a second; per member."""
    head = HeadDirectory(1, 0.0)
    for number in range(1, nodes + 1):
        head.register(number, 0.0)
        head.heard(number, 0.0)
    spent = timed(lambda: [head.tick(0.01 * turn) for turn in range(TURNS)])
    return spent / TURNS / nodes * 1e6
