"""Several `Order`s and their connections, which a test delays, cuts and duplicates.

`Net` keeps the causal past of each member itself, as sets, and so knows which frame may be delivered where.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from skate.fabric.order import DATA, EXPRESS, LEFT, Order
from skate.fabric.order_lane import Receipt, Write

HELLO = "hello"
Frame = tuple[
    int, int, int, frozenset[int]
]  # number of all frames, from, to, the binding frames it follows from


class Net:
    """Members, their connections, and what each has delivered."""

    def __init__(self, count: int, binding: bool = True) -> None:
        self.binding = binding
        self.orders: dict[int, Order] = {0: Order(0)}
        self.wires: dict[tuple[int, int], deque[Any]] = {}
        self.shut: set[tuple[int, int]] = set()  # nothing is written until the other end has said hello
        self.past: dict[int, set[int]] = {0: set()}
        self.frames: dict[int, Frame] = {}
        self.sent: dict[tuple[int, int], list[int]] = {}
        self.got: dict[tuple[int, int], list[int]] = {}
        self.delivered: dict[int, set[int]] = {0: set()}
        self.news: dict[int, list[tuple[int, int]]] = {0: []}
        self.express: dict[int, list[Any]] = {0: []}
        self.dead: set[int] = set()
        #: Frames of the dead that had reached a living member, or were to reach it.
        self.kept: dict[tuple[int, int], set[int]] = {}
        self.views: dict[int, int] = {}  # of the senders of frames
        self.view = {0: 0}
        self.steps = 0
        for _ in range(count - 1):
            self.join()

    def join(self) -> int:
        number = len(self.orders)
        head = self.orders[0]
        head.admit(number, "info")
        self.orders[number] = Order(number, (head.members | {0}) - {number}, head.view)
        self.past[number], self.delivered[number] = set(), set()
        self.view[0] += 1
        self.view[number] = head.view
        self.news[number], self.express[number] = [], []
        return number

    def send(self, source: int, to: int, binds: bool = False) -> int:
        order = self.orders[source]
        number = len(self.frames)
        frame = (number, source, to, frozenset(self.past[source]))
        if source in self.dead or to not in order.members or to in order.closing:
            return -1
        self.frames[number] = frame
        self.views[number] = self.view[source]
        self.sent.setdefault((source, to), []).append(number)
        order.send(to, frame, binds and self.binding)
        if binds:
            self.past[source].add(number)
        return number

    def flush(self, source: int) -> None:
        for to, write in self.orders[source].writes():
            if source not in self.dead and (source, to) not in self.shut:
                self.wires.setdefault((source, to), deque()).append(write)

    def answer(self, source: int, to: int) -> None:
        """Send a bare receipt."""
        if (source, to) in self.shut or source in self.dead:
            return
        receipt = self.orders[source].receipt(to)
        if receipt is not None:
            self.wires.setdefault((source, to), deque()).append(receipt)

    def carry(self, source: int, to: int) -> None:
        self.steps += 1
        wire = self.wires.get((source, to))
        if not wire:
            return
        item = wire.popleft()
        order = self.orders[to]
        if to in self.dead:
            return
        if isinstance(item, Write):
            self.take(to, order.receive(source, item))
        elif isinstance(item, Receipt):
            order.receipted(source, item)
        elif not order.is_over(source, item[2]):  # a new connection: write again what was not received
            self.shut.discard((to, source))
            self.wires.setdefault((to, source), deque()).extend(order.resume(source, item[1]))
        self.flush(to)
        order.check()

    def take(self, to: int, deliveries: list[Any]) -> None:
        for source, kind, frames in deliveries:
            for frame in frames:
                if kind == DATA:
                    self.deliver(to, source, frame)
                elif kind == EXPRESS:
                    self.express[to].append(frame)
                else:
                    self.news[to].append((kind, frame[0]))
                    self.view[to] += 1

    def deliver(self, to: int, source: int, frame: Frame) -> None:
        number, real_source, destination, past = frame
        assert (real_source, destination) == (source, to)
        assert self.views[number] <= self.view[to], f"{source} knew of a change that {to} has not heard of"
        left = {member for kind, member in self.news[to] if kind == LEFT}
        assert source not in left, f"{to} hears from {source}, which has left"
        for other in past:
            _, origin, where, _ = self.frames[other]
            missing = where == to and other not in self.delivered[to] and origin not in left
            lost = origin in self.dead and other not in self.in_reach(origin, to)
            if self.binding:
                assert not missing or lost, f"{frame} came to {to} before {self.frames[other]}"
            elif missing and not lost:
                raise Overtaken
        self.got.setdefault((source, to), []).append(number)
        self.delivered[to].add(number)
        self.past[to] |= past
        if number in self.past[source]:
            self.past[to].add(number)

    def in_reach(self, source: int, to: int) -> set[int]:
        """Return what of a dead member can still be delivered somewhere."""
        order = self.orders[to]
        lane = order._lanes.get(source)
        writes = [each for each in self.wires.get((source, to), ()) if isinstance(each, Write)]
        held = list(lane.held) if lane is not None else []
        return {frame[0] for write in (*held, *writes) if write.kind == DATA for frame in write.frames}

    def reconnect(self, one: int, other: int, lost: int, also_lost: int) -> None:
        """Break the connection of two members, each direction with a suffix lost, and make another."""
        for pair, count in (((one, other), lost), ((other, one), also_lost)):
            if pair[0] in self.dead:
                continue
            wire = self.wires.setdefault(pair, deque())
            for _ in range(min(count, len(wire))):
                wire.pop()
            order = self.orders[pair[0]]
            wire.append((HELLO, order.received(pair[1]), order.view))
            self.shut.add(pair)

    def kill(self, member: int, lost: int) -> None:
        self.dead.add(member)
        for (source, to), wire in self.wires.items():
            if source == member:
                for _ in range(lost * (to + 1) % (len(wire) + 1)):
                    wire.pop()
                if to not in self.dead:
                    self.kept[source, to] = self.in_reach(source, to) | set(self.got.get((source, to), ()))
        self.orders[0].dismiss(member, "was lost")

    def bury(self, to: int) -> None:
        """Tell a member that the connections of the dead that it knows of have ended, once they are read."""
        order = self.orders[to]
        for member in list(order.closing):
            if not self.wires.get((member, to)):
                self.take(to, order.ended(member))
                self.flush(to)

    def settle(self) -> None:
        """Deliver all there is."""
        living = [number for number in self.orders if number not in self.dead]
        for _ in range(1000):
            for number in living:
                self.flush(number)
                self.bury(number)
                for other in living:
                    self.answer(number, other) if other != number else None
            pairs = [pair for pair, wire in self.wires.items() if wire]
            if not pairs:
                break
            for pair in pairs:
                while self.wires[pair]:
                    self.carry(*pair)
        for number in living:
            assert not self.orders[number].held(), f"{self.orders[number]} never delivers"
            assert not self.orders[number].closing
        for (source, to), numbers in self.sent.items():
            got = self.got.get((source, to), [])
            assert got == numbers[: len(got)], "a frame came twice, or out of order"
            if to in self.dead:
                continue
            if source in self.dead:
                kept = self.kept.get((source, to), set(got))
                assert kept == set(got), f"{to} had {kept} of {source}, and was given {got}"
            else:
                assert got == numbers, f"{source} to {to}: {numbers} were sent, {got} came"


class Overtaken(Exception):
    """A frame has come before one that it follows from."""


def read(net: Net, to: int, source: int) -> None:
    while net.wires.get((source, to)):
        net.carry(source, to)
