"""Directories of a head and members on a virtual clock, with links that are cut and nodes that are stopped.

Their letters do not take the channels of a `Mesh`: the clock moves on only when every letter that is not lost has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.fabric.contact import ALIVE, DEAD
from skate.fabric.directory import (
    HEAD,
    Admit,
    Ask,
    Beat,
    Bury,
    HeadDirectory,
    Leave,
    MemberDirectory,
    Pulse,
    Refuse,
    Relay,
)

if TYPE_CHECKING:
    import random

STEP = 0.1  # seconds
DELAYS = (0.0, 0.0, 0.05, 0.15)


class Watch:
    """A head and members, who write to each other what their directories ask for."""

    def __init__(
        self,
        rng: random.Random,
        now: float,
        left: Callable[[int], None] = lambda number: None,
        buried: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.rng = rng
        self.now = now
        self.on_left = left
        self.on_buried = buried
        self.head = HeadDirectory(1, self.now)
        self.members: dict[int, MemberDirectory] = {}
        self.links: deque[tuple[float, int, int, tuple[Any, ...]]] = deque()
        self.cuts: dict[tuple[int, int], float] = {}  # links that lose everything, until when
        self.stopped: dict[int, float] = {}
        self.inbox: dict[int, list[tuple[int, tuple[Any, ...]]]] = {}
        self.killed: set[int] = set()
        self.routes: dict[tuple[int, int], int] = {}
        self.count: dict[tuple[int, int], int] = {}
        self.buried: dict[int, tuple[float, str]] = {}
        self.left: dict[int, float] = {}
        self.relays = 0
        self.steps = 0

    def join(self, number: int) -> None:
        """Add a member, which the head has heard."""
        self.head.register(number, self.now)
        self.act(HEAD, self.head.heard(number, self.now))
        self.members[number] = member = MemberDirectory(number, 1, self.now)
        for other, directory in self.members.items():
            if other != number and not directory.left:
                member.joined(other, self.now)
                directory.joined(number, self.now)
        self.write(number, HEAD)

    # -- the network

    def runs(self, number: int) -> bool:
        """True if a node does anything now."""
        gone = number in self.killed or (number != HEAD and bool(self.members[number].left))
        return not gone and number not in self.stopped

    def post(self, source: int, to: int, what: tuple[Any, ...]) -> None:
        """Send something directly, and also by the other way if there is one."""
        self.hop(source, to, (source, to, what))
        via = self.routes.get((source, to))
        if via is not None:
            self.hop(source, via, (source, to, what))

    def hop(self, source: int, to: int, letter: tuple[Any, ...]) -> None:
        """Send a letter to the next node of its way."""
        if (source, to) not in self.cuts:
            self.links.append((self.now + self.rng.choice(DELAYS), source, to, letter))

    def write(self, source: int, to: int) -> None:
        """Send a numbered write, of which the receiver sends a receipt."""
        number = self.count[source, to] = self.count.get((source, to), 0) + 1
        if source == HEAD:
            self.head.wrote(to, number, self.now)
        elif to == HEAD:
            self.members[source].wrote(number, self.now)
        self.post(source, to, ("write", number))

    def arrive(self, last: int, to: int, letter: tuple[Any, ...]) -> None:
        """Handle what has come from `last`, perhaps on behalf of another one."""
        source, goal, what = letter
        if goal != to:
            self.hop(to, goal, letter)
            return
        if last != source:
            self.routes[to, source] = last  # answers go the same way
        word = what[0]
        if word == "pulse":
            actions = self.head.pulsed(source, what[1], what[2], self.now)
            self.act(HEAD, actions)
            if not actions:
                self.post(HEAD, source, ("echo", what[1]))
            return
        if word == "echo":
            self.members[to].echoed(what[1], self.now)
            return
        self.act(to, self.heard(source, to))
        if word == "write":
            self.post(to, source, ("receipt", what[1]))
        elif word == "receipt" and to == HEAD:
            self.head.confirmed(source, what[1])
        elif word == "receipt" and source == HEAD:
            self.members[to].confirmed(what[1])
        elif word == "ask":
            directory = self.head if to == HEAD else self.members[to]
            self.post(to, source, ("answer", what[1], directory.hears(what[1], self.now)))
        elif word == "answer" and to == HEAD:
            self.act(to, self.head.answer(source, what[1], what[2]))
        elif word == "answer":
            self.act(to, self.members[to].answer(source, what[2], self.now))
        elif word == "refused":
            self.act(to, self.members[to].refused(1))
        elif word == "left":
            self.members[to].gone(what[1])

    def heard(self, source: int, to: int) -> list[Any]:
        """Tell a directory that something has come."""
        if to == HEAD:
            return self.head.heard(source, self.now)
        self.members[to].heard(source, self.now)
        return []

    def act(self, here: int, actions: list[Any]) -> None:
        """Carry out what a directory asks for."""
        for action in actions:
            match action:
                case Beat(to):
                    self.write(here, to)
                case Pulse(number, echoed):
                    self.post(here, HEAD, ("pulse", number, echoed))
                case Ask(peer, about):
                    self.post(here, peer, ("ask", about))
                case Relay(peer, via):
                    self.relays += 1
                    self.routes[here, peer] = via
                case Refuse(member):
                    self.post(here, member, ("refused",))
                case Leave(_):
                    self.left[here] = self.now
                    self.on_left(here)
                case Bury(member, reason, expected):
                    self.buried[member] = (self.now, reason)
                    runs = not self.members[member].left and member not in self.killed
                    assert expected or not runs or member in self.stopped, (
                        f"{member} {reason}, and still runs"
                    )
                    self.on_buried(member)
                    for other in self.members:
                        self.post(here, other, ("left", member))
                case Admit():
                    pass

    # -- time

    def step(self) -> None:
        """Advance the clock a little."""
        self.now += STEP
        self.steps += 1
        for pair in [pair for pair, until in self.cuts.items() if until <= self.now]:
            del self.cuts[pair]
        for number in [number for number, until in self.stopped.items() if until <= self.now]:
            del self.stopped[number]
        for number in (*self.members, HEAD):  # one that continues looks at its lease first
            if self.runs(number):
                self.tick(number)
        due = [each for each in self.links if each[0] <= self.now]
        self.links = deque(each for each in self.links if each[0] > self.now)
        for _, source, to, letter in due:
            self.inbox.setdefault(to, []).append((source, letter))
        for number in (HEAD, *self.members):
            if number not in self.stopped:
                letters = self.inbox.pop(number, [])
                for source, letter in letters:
                    if self.runs(number):
                        self.arrive(source, number, letter)

    def tick(self, number: int) -> None:
        """Let a directory act; members write to one another now and then."""
        directory = self.head if number == HEAD else self.members[number]
        self.act(number, directory.tick(self.now))
        for other in self.members:
            if other != number and number != HEAD and self.runs(number) and self.rng.random() < 0.15:
                self.write(number, other)

    def run(self, seconds: float) -> None:
        """Advance the clock."""
        self.run_until(self.now + seconds)

    def run_until(self, end: float) -> None:
        """Advance the clock to a time."""
        while self.now < end:
            self.step()

    # -- faults

    def cut(self, source: int, to: int, seconds: float) -> None:
        """Lose everything from one node to another for a while."""
        self.cuts[source, to] = max(self.cuts.get((source, to), 0.0), self.now + seconds)

    def cut_pair(self, one: int, other: int, seconds: float) -> None:
        """The same in both directions."""
        self.cut(one, other, seconds)
        self.cut(other, one, seconds)

    def isolate(self, numbers: set[int], seconds: float) -> None:
        """Cut nodes off from all others."""
        for one in numbers:
            for other in {HEAD, *self.members} - numbers:
                self.cut_pair(one, other, seconds)

    def kill(self, number: int) -> None:
        """End a node's process: its connections end, and so does its registration."""
        self.killed.add(number)
        self.act(HEAD, [*self.head.disconnected(number, self.now), *self.head.unregistered(number, self.now)])

    def states(self) -> dict[int, str]:
        """Return what the head believes."""
        return {number: member.state for number, member in self.head.members.items()}

    def agree(self) -> None:
        """Assert that the head and each member agree on whether it lives."""
        for number, member in self.members.items():
            lives = not member.left and number not in self.killed
            state = self.head.members[number].state
            assert state == (ALIVE if lives else DEAD), f"{number} is {state}, and left={member.left!r}"
