"""Faults for a `Watch`: links cut in one or both directions, nodes stopped and killed."""

from __future__ import annotations

import random

from skate.fabric.directory import ALIVE, HEAD
from skate.simulation.nodes.watch import Watch

Fault = tuple[str, int, int, float]
FAULT_KINDS = ("cut", "pair", "isolate", "halves", "stop", "stop head", "kill", "doubt", "wait", "wait")
FAULT_SECONDS = (0.3, 1.0, 3.0, 4.5, 5.0, 5.5, 8.0, 20.0)


def steady(count: int = 5, seed: int = 0) -> Watch:
    watch = Watch(random.Random(seed), 100.0)
    for number in range(1, count):
        watch.join(number)
    watch.run(3.0)
    assert set(watch.states().values()) == {ALIVE}
    return watch


def inflict(watch: Watch, faults: list[Fault]) -> None:
    """Run with these faults, then without any."""
    count = len(watch.members) + 1
    for what, first, second, seconds in faults:
        one, other = first % count, second % count
        if what == "cut" and one != other:
            watch.cut(one, other, seconds)
        elif what == "pair" and one != other:
            watch.cut_pair(one, other, seconds)
        elif what == "isolate" and one:
            watch.isolate({one}, seconds)
        elif what == "halves":
            watch.isolate({number for number in watch.members if number > one}, seconds)
        elif what == "stop" and one:
            watch.stopped[one] = watch.now + seconds
        elif what == "stop head":
            watch.stopped[HEAD] = watch.now + seconds
        elif what == "kill" and one and one not in watch.killed and HEAD not in watch.stopped:
            watch.kill(one)
        elif what == "doubt" and one:
            doubt(watch, one, seconds)
        watch.run(seconds / 4 if what != "wait" else seconds)
    watch.cuts.clear()
    watch.stopped.clear()
    timing = watch.head.timing
    watch.run(timing.grace + 3 * timing.silence)
    watch.agree()


def doubt(watch: Watch, number: int, seconds: float) -> None:
    """Isolate the head, which doubts itself, and a member from shortly before the head is back until a verdict is due."""
    watch.isolate({HEAD}, seconds)
    watch.run(seconds - 0.3)
    watch.isolate({number}, seconds + watch.head.timing.silence)


def run_watch(seed: int) -> Watch:
    """One long run with many faults; it raises if a rule is broken."""
    rng = random.Random(seed)
    kinds = FAULT_KINDS[: rng.choice((2, 4, 10))]
    numbers = [(rng.randrange(6), rng.randrange(6)) for _ in range(15)]
    faults = [(rng.choice(kinds), *pair, rng.choice(FAULT_SECONDS[1:-1])) for pair in numbers]
    watch = steady(rng.choice((3, 4, 5, 6)), seed)
    inflict(watch, faults)
    return watch
