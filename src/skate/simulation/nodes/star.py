"""The star of channels of several simulated nodes: as `skate.fabric.local` connects them.

Frames go from a node to the head and on from there, in order; the last frames of a lost node may be lost.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from skate.simulation.nodes.member import HEAD, Node
from skate.simulation.nodes.world import World

Frame = tuple[int, int, tuple[Any, ...]]


class Star(World):
    """Nodes with a channel each to the head and back."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.up: dict[int, deque[Frame]] = {}  # from a node to the head
        self.down: dict[int, deque[Frame]] = {}  # from the head to a node
        self.members: list[int] = []  # as the head knows them
        super().__init__(*arguments, **options)

    def is_member(self, number: int) -> bool:
        """Return True if the head knows a node and has not lost it."""
        return number in self.members

    def add(self, cpus: int, site: int | None = None) -> Node:
        """Add a node; at the site of a lost node, it is that node under a new id."""
        number = len(self.nodes)
        node = self.nodes[number] = Node(self, number, cpus, number if site is None else site)
        if number != HEAD:
            self.up[number], self.down[number] = deque(), deque()
            for other in (HEAD, *self.members):
                node.add_peer(other, self.nodes[other].info())
            for other in self.members:
                self._post_down(HEAD, other, ("joined", number, node.info()))
            self.members.append(number)
            self.nodes[HEAD].add_peer(number, node.info())
            node.apply()
            self.nodes[HEAD].apply()
        return node

    def lose(self, node: Node) -> None:
        """Remove a node: the head learns of it, and does not receive its last frames."""
        self.count_lost(node)
        up = self.up[node.number]
        for _ in range(len(up) if node.fenced else self.rng.randrange(len(up) + 1)):
            up.pop()
        up.append((node.number, HEAD, ("end",)))
        down = self.down[node.number]
        for _ in range(self.rng.randrange(len(down) + 1) if node.alive else len(down)):
            down.pop()
        self.restart(node)

    def post(self, source: int, to: int, frame: tuple[Any, ...]) -> None:
        """Queue a frame."""
        if source == HEAD:
            self._post_down(source, to, frame)
        elif source not in self.fenced:
            self.up[source].append((source, to, frame))

    def _post_down(self, source: int, to: int, frame: tuple[Any, ...]) -> None:
        # No frame follows those that a node lost when it was declared dead: a channel has no gaps.
        if to in self.members and to not in self.fenced:
            self.down[to].append((source, to, frame))

    def carry_up(self, number: int) -> None:
        """Have the head handle a frame from a node, or pass it on."""
        source, to, frame = self.up[number].popleft()
        self.record("up", source, to, frame)
        self.observer.counts["messages"] += 1
        if frame[0] == "end":
            self.members.remove(number)
            del self.up[number]
            for other in self.members:
                self._post_down(HEAD, other, ("left", number))
            self.nodes[HEAD].remove_peer(number)
            self.nodes[HEAD].apply()
        elif to == HEAD:
            self.nodes[HEAD].hear(source, frame)
        else:
            self._post_down(source, to, frame)

    def carry_down(self, number: int) -> None:
        """Deliver a frame to a node."""
        source, to, frame = self.down[number].popleft()
        if self.nodes[number].alive:
            self.record("down", source, to, frame)
            self.observer.counts["messages"] += 1
            self.nodes[number].hear(source, frame)

    def channel_events(self) -> list[tuple[Any, Any]]:
        """Return the channels that can move a frame."""
        now = self.now
        held = {number for number, until in self.held.items() if until > now} if self.held else ()
        found: list[tuple[Any, Any]] = [
            (self.carry_up, n) for n, frames in self.up.items() if frames and n not in held
        ]
        found += [(self.carry_down, n) for n, frames in self.down.items() if frames and n not in held]
        return found
