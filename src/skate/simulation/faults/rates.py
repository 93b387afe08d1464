"""The faults of a run, and their frequency.

Some faults lose something, so the affected tasks are retried or fail: a process or node is killed, alone, as it answers, or while
the core's effects are carried out. The others are *harmless*: something is late, and only delay may follow. Messages in different
channels overtake each other all the time, even without a fault, since any channel may move next. Messages within a channel
never do: channels stand for sockets, which keep the order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

#: Faults drawn once per step; the others are drawn per event.
BY_STEP = ("worker", "driver", "node", "delay", "partition", "stop", "jump", "link", "reset", "detour")
PAUSES = (0.001, 0.01, 0.1, 1.0)  # seconds for which something is held
JUMPS = (0.05, 0.5, 5.0, 100.0)  # seconds that a clock leaps ahead
MIB = 1 << 20


@dataclass(frozen=True)
class Faults:
    """How often things break, as probabilities. Calm by default."""

    worker: float = 0.0  # a worker is killed, whatever it does; by step
    driver: float = 0.0  # a driver is killed, never the first; by step
    node: float = 0.0  # a node other than the head is lost, if others would miss it; by step
    restart: float = 0.0  # a lost node joins again, under another id; by node lost
    request: float = 0.0  # the last messages of a killed process are lost; by message
    work: float = 0.0  # a worker is killed when a task has run, before the answer is sent; by answer
    reply: float = 0.0  # a worker is killed when its answer is sent, before it is read; by answer
    effect: float = 0.0  # a process, or its node, is killed while the decisions of a step are carried out; by step of a core
    delay: float = 0.0  # a channel is held for a while; by step
    partition: float = 0.0  # nothing reaches or leaves a node for a while; by step
    link: float = 0.0  # in a mesh, nothing passes from one node to another for a while; by step
    reset: float = 0.0  # in a mesh, two nodes lose their connection and its last writes; by step
    detour: float = 0.0  # in a mesh, two nodes reach each other only through the head for a while; by step
    giving_up: float = 0.0  # then the head declares the node dead, which lives a little longer; by partition
    stop: float = 0.0  # a worker is stopped for a while, as by SIGSTOP; by step
    slow: float = 0.0  # a node is slow in everything; by node
    jump: float = 0.0  # the clock leaps ahead; never back, as clocks that count from the start of a machine don't; by step
    environment: float = 0.0  # a runtime environment cannot be made; by worker that needs one
    full: float = 0.0  # the disk is full; by copy of a value
    unreadable: float = 0.0  # a copy on disk cannot be read; by copy
    outside: bool = False  # values are spilled to external storage
    arena_bytes: int = 8 * MIB  # memory of each node: a large value of a program takes 200 kB
    disks: int = 1
    disk_bytes: int = 64 * MIB  # what may go to disk; none is a full disk

    @cached_property
    def by_step(self) -> tuple[list[str], list[float], float]:
        """The faults in `BY_STEP` that happen: names, probabilities, and that of any."""
        chances = {name: getattr(self, name) for name in BY_STEP if getattr(self, name)}
        return list(chances), list(chances.values()), sum(chances.values())

    def struck(self, rng: random.Random) -> str:
        """Return the fault of a step, or ""."""
        names, chances, any_of_them = self.by_step
        if not names or rng.random() >= any_of_them:
            return ""
        return rng.choices(names, chances)[0]

    def harmless_only(self) -> Faults:
        """Return only the harmless ones of these faults."""
        names = ("delay", "stop", "slow", "jump", "partition", "link", "reset", "detour")
        harmless = {name: getattr(self, name) for name in names}
        # Little memory is harmless where there is disk enough.
        return replace(Faults(), **harmless, outside=self.outside, arena_bytes=self.arena_bytes)

    @staticmethod
    def drawn(rng: random.Random) -> Faults:
        """Draw a mix of faults: in each run many of some kinds and none of others."""
        pick = rng.choice
        return Faults(
            worker=pick((0, 0, 0.003, 0.03)),
            driver=pick((0, 0.001, 0.003)),
            node=pick((0, 0.03, 0.1)),
            restart=pick((0, 0.8, 1)),
            request=pick((0, 0.5, 0.9)),
            work=pick((0, 0, 0.05, 0.2)),
            reply=pick((0, 0, 0.05, 0.2)),
            effect=pick((0, 0, 0.01, 0.05)),
            delay=pick((0, 0.01, 0.1)),
            partition=pick((0, 0, 0.003, 0.02)),
            giving_up=pick((0, 0.2, 0.6)),
            stop=pick((0, 0.005, 0.03)),
            slow=pick((0, 0.3)),
            jump=pick((0, 0, 0.002, 0.02)),
            environment=pick((0, 0.3)),
            full=pick((0, 0.3, 0.7)),
            unreadable=pick((0, 0, 0.5)),
            outside=pick((False, False, True)),
            arena_bytes=pick((MIB // 2, MIB, MIB, 8 * MIB)),
            disks=pick((1, 1, 2)),
            disk_bytes=pick((0, MIB, 16 * MIB, 64 * MIB)),
        )

    def between_nodes(self, rng: random.Random) -> Faults:
        """Return these faults and some of a mesh."""
        pick = rng.choice
        return replace(
            self,
            link=pick((0, 0.01, 0.05)),
            reset=pick((0, 0, 0.005, 0.03)),
            detour=pick((0, 0, 0.005)),
        )


NO_FAULTS = Faults()
