"""An adversary for `Net`: events of several members in any sequence, and the checks at the end of a run."""

from __future__ import annotations

import random

from skate.fabric.order import AGE_MAX
from tests.fabric.net import Net, read

Action = tuple[str, int, int, int, int]
KINDS = (
    *("send", "send", "send", "hold", "flush", "carry", "carry", "carry", "read", "read"),
    *("reconnect", "receipt", "bury", "turn", "join", "kill"),
)


def drawn(rng: random.Random) -> list[Action]:
    """Return a long run, with much of some kinds of events and nothing of others, in which some links are slow."""
    weights = [rng.choice((0.03, 0.3, 1, 3)) for _ in KINDS]
    slow = {(rng.randrange(5), rng.randrange(5)) for _ in range(rng.randrange(4))}
    actions = []
    for kind in rng.choices(KINDS, weights, k=400):
        one, other = rng.randrange(5), rng.randrange(5)
        if kind in ("carry", "read") and (one, other) in slow and rng.random() < 0.98:
            continue
        actions.append((kind, one, other, rng.randrange(4), rng.randrange(4)))
    return actions


def play(net: Net, actions: list[Action]) -> None:
    for what, one, other, first, second in actions:
        count = len(net.orders)
        source, to = one % count, other % count
        if what in ("send", "hold") and source != to:
            net.send(source, to, binds=what == "hold")
            if first:
                net.flush(source)
        elif what == "flush":
            net.flush(source)
        elif what == "carry" and source != to:
            net.carry(source, to)
        elif what == "read" and source != to:
            read(net, to, source)
        elif what == "reconnect" and source != to:
            net.reconnect(source, to, first, second)
        elif what == "receipt" and source != to:
            net.answer(source, to)
        elif what == "bury" and to not in net.dead:
            net.bury(to)
        elif what == "join" and count < 6:
            net.join()
        elif what == "kill" and source and source not in net.dead and first == 0:
            net.kill(source, second)


def finish(net: Net) -> None:
    """Let everything arrive, and check what is left."""
    net.settle()
    living = [number for number in net.orders if number not in net.dead]
    assert len({net.orders[number].view for number in living}) == 1
    for number in living:
        order = net.orders[number]
        assert order.members == set(living) - {number}
        assert not [peer for peer in order.members if order.backlog(peer)], "all has been received"
        assert not [stamp for stamp in order.stamps if stamp[1] == number], "a receipt removes them"
        for _ in range(AGE_MAX + 1):
            order.turn()
        assert not order.stamps


def run_lanes(seed: int) -> Net:
    """One long run; it raises if a rule is broken."""
    rng = random.Random(seed)
    net = Net(rng.choice((3, 4, 5)))
    play(net, drawn(rng))
    finish(net)
    return net
